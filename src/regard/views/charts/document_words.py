"""Words of a document as pages and figures show them: shading by weight, notes, and line layout.

    relative weight    0    1    4    16    64      weight over the uniform weight
    opacity            0   .2   .5   .8    .94      relative / (relative + 4)

The opacity never saturates and does not depend on the largest weight, so shades can be compared between
documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from regard.core.batches import END, SPECIAL_TOKENS, START
from regard.core.records.document import DocumentRecord
from regard.views.charts.figure_file import printable
from regard.views.text.numbers import percent_text

# Relative weight at an opacity of one half.
HALF_SHADE = 4.0
LEGEND = (0.0, 1.0, 4.0, 16.0, 64.0)
MARKERS = (SPECIAL_TOKENS[START], SPECIAL_TOKENS[END])
WORD_START = "▁"
WITHIN_SENTENCE = "within its sentence"


class WeightView(NamedTuple):
    """Named weights of the tokens, and their ratio to the uniform weight."""

    name: str
    weights: tuple[float, ...]
    relative: tuple[float, ...]


class DisplayToken(NamedTuple):
    """A token as displayed, and whether it continues the word before it."""

    text: str
    continues_word: bool


def shade_opacity(relative: float) -> float:
    """Opacity of a relative weight, from 0 to below 1.

    >>> [round(shade_opacity(relative), 2) for relative in LEGEND]
    [0.0, 0.2, 0.5, 0.8, 0.94]
    """
    return relative / (relative + HALF_SHADE)


def weight_views(record: DocumentRecord) -> list[WeightView]:
    """`DocumentRecord.importance` first, then the weights of each hop where they differ from it."""
    whole = [len(record.tokens)] * len(record.tokens)
    names = [f"hop {number}" for number in range(1, len(record.hops) + 1)]
    several = len(names) > 1
    if record.sentence_weights is None:
        first = _weight_view("mean of hops" if several else "weight", record.importance(), whole)
        counts = whole
        others = list(zip(names, record.hops, strict=True)) if several else []
    else:
        first = _weight_view("in the whole text", record.importance(), whole)
        sizes = Counter(record.segments)
        counts = [sizes[segment] for segment in record.segments]
        within = [f"{WITHIN_SENTENCE}, {name}" if several else WITHIN_SENTENCE for name in names]
        others = list(zip(within, record.hops, strict=True))
    return [first, *(_weight_view(name, hop, counts) for name, hop in others)]


def sentence_relative_weights(record: DocumentRecord) -> tuple[float, ...] | None:
    """Weight of each sentence relative to uniform; None without sentence weights."""
    if record.sentence_weights is None:
        return None
    count = len(set(record.segments))
    return tuple(weight * count for weight in record.sentence_weights)


def sentence_starts(record: DocumentRecord) -> list[int]:
    """Positions at which a sentence starts."""
    before = (None, *record.segments[:-1])
    return [
        position
        for position, (last, segment) in enumerate(zip(before, record.segments, strict=True))
        if last != segment
    ]


def display_tokens(tokens: Sequence[str]) -> list[DisplayToken]:
    """Tokens as displayed; a subword without a leading space marker continues the word before it.

    >>> [piece.text for piece in display_tokens(["▁un", "kind", " "])]
    ['un', 'kind', '␣']
    >>> [piece.continues_word for piece in display_tokens(["▁un", "kind"])]
    [False, True]
    """
    subwords = any(token.startswith(WORD_START) for token in tokens)
    found = []
    for position, token in enumerate(tokens):
        continues_word = (
            subwords and position > 0 and not token.startswith(WORD_START) and token not in MARKERS
        )
        bare = token.removeprefix(WORD_START) if subwords else token
        found.append(DisplayToken(printable(bare).replace(" ", "␣") or "␣", continues_word))
    return found


def relative_text(relative: float) -> str:
    """A relative weight as text.

    >>> [relative_text(relative) for relative in (0.0, 0.004, 0.52, 1.0, 3.24, 14.6)]
    ['0 ×', '<0.1 ×', '0.5 ×', '1 ×', '3.2 ×', '15 ×']
    """
    if 0 < relative < 0.05:
        return "<0.1 ×"
    text = f"{relative:.1f}" if relative < 9.95 else f"{relative:.0f}"
    return f"{text.removesuffix('.0')} ×"


def _weight_view(name: str, weights: Sequence[float], counts: Sequence[int]) -> WeightView:
    """`counts` is the number of tokens over which each weight is normalised."""
    relative = tuple(weight * count for weight, count in zip(weights, counts, strict=True))
    return WeightView(name, tuple(weights), relative)


def prediction_sentence(record: DocumentRecord) -> str:
    """Probability of the predicted label, and the reference label if known."""
    text = f"predicted with probability {record.probabilities[record.label]:.2f}"
    if record.reference is None:
        return f"{text}."
    if record.reference == record.label:
        return f"{text}; correct."
    return f"{text}; the reference is {printable(record.reference)}."


MAX_TITLE_LENGTH = 100


def short_title(record: DocumentRecord) -> str:
    """The title in one line, truncated; the title may be the whole text."""
    title = printable(" ".join(record.title.split()))
    return title if len(title) <= MAX_TITLE_LENGTH else f"{title[: MAX_TITLE_LENGTH - 1].rstrip()}…"


def truncation_note(record: DocumentRecord) -> str:
    """Number of tokens beyond the maximum length; empty if none were truncated."""
    count = record.truncated_tokens
    if not count:
        return ""
    percent = percent_text(count / (count + len(record.tokens)))
    last = "last token was" if count == 1 else f"last {count:,} tokens were"
    return f"The {last} truncated ({percent} of the text; task.max_length)."


def omission_note(record: DocumentRecord, *, drawn: int) -> str:
    """Number and total weight of tokens that are not drawn; empty if all are."""
    count = len(record.tokens) - drawn
    if count <= 0:
        return ""
    importance = record.importance()
    weight = sum(importance[drawn:]) / (sum(importance) or 1.0)
    tokens, have = ("token", "has") if count == 1 else ("tokens", "have")
    return f"… and {count} more {tokens}, not drawn, which {have} {percent_text(weight)} of the weight."


def agreement_note(record: DocumentRecord) -> str:
    """Rank correlation of weights and leave-one-out effects; empty if not measured."""
    if record.kendall_tau is None:
        return ""
    tau = f"{record.kendall_tau:.2f}".replace("-", "−")
    return (
        f"Leave-one-out effects and weights have a Kendall’s tau of {tau} "
        "(1: the same order, 0: unrelated)."
    )


class WordPosition(NamedTuple):
    """Line of a word, counted from 0, and the left edge and width of its box."""

    line: int
    left: float
    width: float


def layout_words(
    widths: Sequence[float],
    *,
    continues_word: Sequence[bool],
    starts: Collection[int],
    max_width: float,
    space: float,
) -> list[WordPosition]:
    """Wrap words of given widths into lines; each sentence starts a new line.

    Words are `space` apart, subwords touch. A word wider than `max_width` has a line of its own.

    >>> layout_words([1.0, 2.0, 1.0], continues_word=[False] * 3, starts=[], max_width=3.5, space=0.5)[1:]
    [WordPosition(line=0, left=1.5, width=2.0), WordPosition(line=1, left=0.0, width=1.0)]
    """
    found: list[WordPosition] = []
    line, right = 0, 0.0
    for number, width in enumerate(widths):
        left = right if continues_word[number] or right == 0 else right + space
        full = left > 0 and left + width > max_width
        if found and (full or number in starts):
            line, left = line + 1, 0.0
        found.append(WordPosition(line, left, width))
        right = left + width
    return found
