"""Text that was typed at a terminal."""

from __future__ import annotations

from regard.core.errors import RegardError


def require_decoded(text: str, *, what: str) -> None:
    """Refuse a text whose bytes were not text: nothing that is written can hold them."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode(errors="backslashreplace").decode()
        raise RegardError(
            f"{what} '{shown}' has bytes at letter {error.start + 1} that are not text in the "
            "encoding of this terminal; every letter must be. Type it anew, in UTF-8."
        ) from error
