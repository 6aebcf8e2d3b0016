"""The value of `--set NAME=VALUE`: a Python literal where it is one, else the text itself."""

from __future__ import annotations

import ast
from typing import Any

WORDS = {"true": True, "false": False}


def setting_value(text: str) -> Any:
    """What a text spells.

    >>> [setting_value(text) for text in ("3", "1e-3", "false", "additive")]
    [3, 0.001, False, 'additive']
    """
    text = text.strip()
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
