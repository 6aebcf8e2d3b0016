"""Classifiers of texts (structured and hierarchical attention) and of images (ViT), and their baselines."""
