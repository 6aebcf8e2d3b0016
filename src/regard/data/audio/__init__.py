"""Sound: WAV files, clips, features, augmentation and a cache of features."""
