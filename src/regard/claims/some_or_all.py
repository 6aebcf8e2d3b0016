"""The verdict of a statement about several things: of all of them, of some, or of none.

What is not shown of a thing does not count for it, be it that the contrary was shown or nothing: a
comparison that stays open does not make a statement hold.
"""

from __future__ import annotations

from collections.abc import Collection

from regard.core.claim_record import Verdict


def of_all(fitting: Collection[str], things: Collection[str]) -> Verdict:
    """It holds of all things, holds if it is one of those that fit, or fails.

    >>> of_all(["dot"], ["dot", "general"])
    'holds if'
    """
    if len(fitting) == len(things):
        return "holds"
    return "holds if" if fitting else "fails"
