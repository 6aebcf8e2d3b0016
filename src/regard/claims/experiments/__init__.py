"""Experiments and figures behind the claims."""
