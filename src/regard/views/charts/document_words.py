"""How strongly a weight is shaded: by how many times it is the even weight, the same in every document.

    times       0    1    4    16    64      the weight over the one that all tokens would have alike
    strength    0   .2   .5   .8    .94      times / (times + 4)

The scale has no end at which different weights would look the same, and does not depend on the largest
weight: a shade means as much in one document as in another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from regard.core.batches import END, SPECIAL_TOKENS, START
from regard.core.records.document import DocumentRecord
from regard.views.charts.figure_file import shown, text_width
from regard.views.text.numbers import percent_text

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


# What the pictures of a document say in words, the page and the figure alike.


def said_of_label(record: DocumentRecord) -> str:
    """How sure the label is, and whether it is right, where that is known."""
    sure = f"said with a probability of {record.probabilities[record.label]:.2f}"
    if record.right is None:
        return f"{sure}."
    if record.right == record.label:
        return f"{sure}, which is right."
    return f"{sure}; right would be {shown(record.right)}."


LONGEST_TITLE = 100


def short_title(record: DocumentRecord) -> str:
    """The title in one line, cut where it is long: the title of a text may be the text."""
    title = shown(" ".join(record.title.split()))
    return title if len(title) <= LONGEST_TITLE else f"{title[: LONGEST_TITLE - 1].rstrip()}…"


def cut_sentence(record: DocumentRecord) -> str:
    """How much of the text the model did not read; nothing if it read all."""
    count = record.cut_tokens
    if not count:
        return ""
    share = percent_text(count / (count + len(record.tokens)))
    last = "last token" if count == 1 else f"last {count:,} tokens"
    were = "was" if count == 1 else "were"
    return f"The text goes on: its {last}, {share} of it, {were} not read (task.max_length)."


def left_out_sentence(record: DocumentRecord, *, drawn: int) -> str:
    """How many tokens come after those that are drawn, and what they weigh; nothing if none do."""
    count = len(record.tokens) - drawn
    if count <= 0:
        return ""
    importance = record.importance()
    weight = sum(importance[drawn:]) / (sum(importance) or 1.0)
    tokens, carries = ("token", "carries") if count == 1 else ("tokens", "carry")
    return f"… and {count} more {tokens}, not drawn, which {carries} {percent_text(weight)} of the weight."


def agreement_sentence(record: DocumentRecord) -> str:
    """How far the order of the weights is that of the words' own effects; nothing if not measured."""
    if record.agreement is None:
        return ""
    tau = f"{record.agreement:.2f}".replace("-", "−")
    return (
        f"Each word left out by itself: the order of the effects and that of the weights agree with a "
        f"Kendall’s tau of {tau} (1: the same order, 0: unrelated)."
    )


# Where the words of a document go: lines filled from the left, every sentence on a new line, in
# inches.


LONGEST_WORD = 32


class Place(NamedTuple):
    """The line of a word, counted from 0, and how far from the left its box begins."""

    line: int
    left: float
    width: float


def word_places(
    widths: Sequence[float],
    *,
    joins: Sequence[bool],
    starts: Collection[int],
    room: float,
    space: float,
) -> list[Place]:
    """A place a word, in order; words are `space` apart, or touch where one joins the one before.

    A word that does not fit goes to the next line; one wider than all the room stands alone and sticks out.

    >>> word_places([1.0, 2.0, 1.0], joins=[False] * 3, starts=[], room=3.5, space=0.5)[1:]
    [Place(line=0, left=1.5, width=2.0), Place(line=1, left=0.0, width=1.0)]
    """
    found: list[Place] = []
    line, right = 0, 0.0
    for number, width in enumerate(widths):
        left = right if joins[number] or right == 0 else right + space
        full = left > 0 and left + width > room
        if found and (full or number in starts):
            line, left = line + 1, 0.0
        found.append(Place(line, left, width))
        right = left + width
    return found


def cut_word(text: str) -> str:
    """A long word cut short, with a mark that it is.

    >>> cut_word("x" * 40) == "x" * 31 + "…"
    True
    """
    return text if len(text) <= LONGEST_WORD else f"{text[: LONGEST_WORD - 1]}…"


def wrapped_lines(text: str, *, room: float, font_size: float, weight: str = "normal") -> list[str]:
    """A text in lines that are at most so wide, broken between words; an endless word is cut short."""
    lines: list[str] = []
    for word in map(cut_word, text.split()):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, font_size=font_size, weight=weight) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
