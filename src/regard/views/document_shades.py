"""How strongly a weight is shaded: by how many times it is the even weight, the same in every document.

    times       0    1    4    16    64      the weight over the one that all tokens would have alike
    strength    0   .2   .5   .8    .94      times / (times + 4)

The scale has no end at which different weights would look the same, and does not depend on the largest
weight: a shade means as much in one document as in another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from regard.core.document_record import DocumentRecord
from regard.core.special_tokens import END, SPECIAL_TOKENS, START
from regard.views.figure_file import shown

# So many times the even weight is shaded half.
HALF = 4.0
LEGEND = (0.0, 1.0, 4.0, 16.0, 64.0)
MARKS = (SPECIAL_TOKENS[START], SPECIAL_TOKENS[END])
SPACE = "▁"
WITHIN = "within its sentence"


class Shading(NamedTuple):
    """One way to weigh the tokens, and how many times the even weight each has."""

    name: str
    weights: tuple[float, ...]
    times: tuple[float, ...]


class Piece(NamedTuple):
    """A token as it is drawn, and whether it goes on the word before it."""

    text: str
    joins: bool


def strength(times: float) -> float:
    """How strongly so many times the even weight is shaded, from 0 to below 1.

    >>> [round(strength(times), 2) for times in LEGEND]
    [0.0, 0.2, 0.5, 0.8, 0.94]
    """
    return times / (times + HALF)


def shadings(record: DocumentRecord) -> list[Shading]:
    """The ways there are, that of `DocumentRecord.importance` first, then the hops, if several."""
    whole = [len(record.tokens)] * len(record.tokens)
    names = [f"hop {number}" for number in range(1, len(record.hops) + 1)]
    several = len(names) > 1
    if record.sentences is None:
        first = _shading("mean of the hops" if several else "weight", record.importance(), whole)
        sharing = whole
        others = list(zip(names, record.hops, strict=True)) if several else []
    else:
        first = _shading("in the whole text", record.importance(), whole)
        sizes = Counter(record.segments)
        sharing = [sizes[segment] for segment in record.segments]
        within = [f"{WITHIN}, {name}" if several else WITHIN for name in names]
        others = list(zip(within, record.hops, strict=True))
    return [first, *(_shading(name, hop, sharing) for name, hop in others)]


def sentence_times(record: DocumentRecord) -> tuple[float, ...] | None:
    """How many times the even weight each sentence has; None where sentences are not weighed."""
    if record.sentences is None:
        return None
    count = len(set(record.segments))
    return tuple(weight * count for weight in record.sentences)


def sentence_starts(record: DocumentRecord) -> list[int]:
    """The places where a sentence begins."""
    before = (None, *record.segments[:-1])
    return [
        place
        for place, (last, segment) in enumerate(zip(before, record.segments, strict=True))
        if last != segment
    ]


def pieces(tokens: Sequence[str]) -> list[Piece]:
    """Tokens as they are drawn: a subword without a space of its own goes on the word before it.

    >>> [piece.text for piece in pieces(["▁un", "kind", " "])]
    ['un', 'kind', '␣']
    >>> [piece.joins for piece in pieces(["▁un", "kind"])], [piece.joins for piece in pieces(["a", "b"])]
    ([False, True], [False, False])
    """
    subwords = any(token.startswith(SPACE) for token in tokens)
    found = []
    for place, token in enumerate(tokens):
        joins = subwords and place > 0 and not token.startswith(SPACE) and token not in MARKS
        bare = token.removeprefix(SPACE) if subwords else token
        found.append(Piece(shown(bare).replace(" ", "␣") or "␣", joins))
    return found


def times_text(times: float) -> str:
    """How many times the even weight.

    >>> [times_text(times) for times in (0.0, 0.004, 0.52, 1.0, 3.24, 14.6)]
    ['0 ×', '<0.1 ×', '0.5 ×', '1 ×', '3.2 ×', '15 ×']
    """
    if 0 < times < 0.05:
        return "<0.1 ×"
    text = f"{times:.1f}" if times < 9.95 else f"{times:.0f}"
    return f"{text.removesuffix('.0')} ×"


def _shading(name: str, weights: Sequence[float], sharing: Sequence[int]) -> Shading:
    """`sharing` is among how many tokens a weight of one is shared out."""
    times = tuple(weight * count for weight, count in zip(weights, sharing, strict=True))
    return Shading(name, tuple(weights), times)
