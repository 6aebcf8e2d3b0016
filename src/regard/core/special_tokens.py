"""The token numbers that mean the same in every vocabulary."""

from __future__ import annotations

PAD = 0
START = 1
END = 2
UNKNOWN = 3

SPECIAL_TOKENS = ("<pad>", "<start>", "<end>", "<unknown>")
