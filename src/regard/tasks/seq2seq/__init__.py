"""Sequence-to-sequence tasks: pronunciation, translation, closed-book question answering."""
