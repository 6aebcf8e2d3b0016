"""Readers: rows of text, pairs and labelled examples from files."""
