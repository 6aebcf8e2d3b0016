"""Attention by scores: a softmax over the score of every query–key pair."""
