"""Strings that are drawn and not read: small problems of which the right answer is known by a rule."""
