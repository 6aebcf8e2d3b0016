"""Lines of a picture from whatever numbers were counted: the records hold floats alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsFloat

from regard.core.claim_record import Curve


def line(
    *, label: str, x: Iterable[SupportsFloat], y: Iterable[SupportsFloat], **words: Any
) -> Curve:
    """A curve; `words` are its other fields.

    >>> line(label="n²", x=[1, 2], y=[1, 4]).y
    (1.0, 4.0)
    """
    return Curve(label=label, x=tuple(map(float, x)), y=tuple(map(float, y)), **words)
