"""The one spelling of a text: Unicode NFC, so that é is the same however it was typed."""

from __future__ import annotations

import unicodedata


def normal_text(text: str, *, lowercase: bool = False) -> str:
    """The text in composed form (NFC); with `lowercase`, in small letters first.

    >>> normal_text("Cafe\\u0301", lowercase=True) == "caf\\u00e9"
    True
    """
    return unicodedata.normalize("NFC", text.lower() if lowercase else text)
