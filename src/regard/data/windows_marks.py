"""Control characters in texts from the web, put right.

    U+0093 hello U+0094  →  “hello”        U+0085  →  …        U+0008  →  a space

Dashes and quotes of Windows-1252 whose bytes were taken for Latin-1 have become control characters, which
nobody writes; they are what they were. A control character that is nothing in Windows-1252 either is a
space. Tabs, ends of lines and NULs stay.
"""

from __future__ import annotations

# A NUL is the sign of a file that is no text.
KEPT = "\0\t\n\r"


def _meant(number: int) -> str:
    meant = bytes([number]).decode("cp1252", errors="replace")
    return meant if meant.isprintable() and meant != "\ufffd" else " "


MEANT = {
    number: _meant(number)
    for number in (*range(0x20), *range(0x7F, 0xA0))
    if chr(number) not in KEPT
}


def with_windows_marks(text: str) -> str:
    """The text with the marks that were meant.

    >>> with_windows_marks("so\\x97so")
    'so—so'
    """
    return text.translate(MEANT)
