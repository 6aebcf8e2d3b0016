"""Autoencoders: recursive over trees of phrases, and linear."""
