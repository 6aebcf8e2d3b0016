"""Readers of text files: pairs, labelled texts, descriptive statistics."""
