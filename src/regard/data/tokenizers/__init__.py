"""Tokenizers and their vocabularies: characters, words, subwords, word pieces."""
