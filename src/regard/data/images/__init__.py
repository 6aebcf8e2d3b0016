"""Images: files and arrays of pixels, their summary, augmentation and preprocessor."""
