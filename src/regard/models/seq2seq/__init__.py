"""Encoder–decoder models: Transformer and recurrent."""
