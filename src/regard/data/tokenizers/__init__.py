"""Tokenizers and their vocabularies: characters, words, byte-pair encoding, WordPiece."""
