"""Words of a document as pages and figures show them, and document figures.

Words are shaded by attention weight:

    relative weight    0    1    4    16    64      weight over the uniform weight
    opacity            0   .2   .5   .8    .94      relative / (relative + 4)

The opacity never saturates and does not depend on the largest weight, so shades can be compared between
documents. A figure file for papers and slides has a bar beside each sentence, proportional to its weight,
and the deletion test below; `pages/document.py` shows the same record as a page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from regard.core.batches import END, SPECIAL_TOKENS, START
from regard.core.formatting import (
    counted,
    number_text,
    percent_text,
    printable,
    score_text,
    truncate,
    weight_text,
)
from regard.core.records.document import DocumentRecord
from regard.core.registry import lookup
from regard.views.charts.deletion import deletion_chart, deletion_sentence, deletion_verdict
from regard.views.charts.figure_file import validate_figure_suffix, write_figure
from regard.views.charts.svg import MARGIN, element, joined, stack, svg, text_block, text_width

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
    several = len(record.hops) > 1
    names = [f"hop {number}" for number in range(1, len(record.hops) + 1)]
    # The number of tokens over which each weight is normalised.
    counts = whole = [len(record.tokens)] * len(record.tokens)
    if record.sentence_weights is None:
        first, hops = "mean of hops" if several else "weight", record.hops if several else ()
    else:
        first, hops = "in the whole text", record.hops
        sizes = Counter(record.segments)
        counts = [sizes[segment] for segment in record.segments]
        names = [f"{WITHIN_SENTENCE}, {name}" if several else WITHIN_SENTENCE for name in names]
    views = [(first, record.importance(), whole)]
    views += [(name, hop, counts) for name, hop in zip(names, hops, strict=False)]
    return [
        WeightView(name, weights, tuple(a * b for a, b in zip(weights, of, strict=True)))
        for name, weights, of in views
    ]


def sentence_relative_weights(record: DocumentRecord) -> tuple[float, ...] | None:
    """Weight of each sentence relative to uniform; None without sentence weights."""
    if record.sentence_weights is None:
        return None
    count = len(set(record.segments))
    return tuple(weight * count for weight in record.sentence_weights)


def sentence_starts(record: DocumentRecord) -> list[int]:
    """Positions at which a sentence starts."""
    segments = record.segments
    return [at for at in range(len(segments)) if at == 0 or segments[at] != segments[at - 1]]


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


def weight_note(weight: float, relative: float) -> str:
    """A weight with its ratio to the uniform weight.

    >>> weight_note(0.43, 21.2)
    'weight 0.43, 21 × uniform'
    """
    return f"weight {number_text(weight, digits=2)}, {relative_text(relative)} uniform"


def prediction_sentence(record: DocumentRecord) -> str:
    """Probability of the predicted label, and the reference label if known."""
    text = f"predicted with probability {weight_text(record.probabilities[record.label])}"
    if record.reference is None:
        return f"{text}."
    if record.reference == record.label:
        return f"{text}; correct."
    return f"{text}; the reference is {printable(record.reference)}."


MAX_TITLE_LENGTH = 100


def short_title(record: DocumentRecord) -> str:
    """The title in one line, truncated; the title may be the whole text."""
    return truncate(printable(" ".join(record.title.split())), MAX_TITLE_LENGTH)


def truncation_note(record: DocumentRecord) -> str:
    """Number of tokens beyond the maximum length; empty if none were truncated."""
    count = record.truncated_tokens
    if not count:
        return ""
    percent = percent_text(count / (count + len(record.tokens)))
    last = "last token was" if count == 1 else f"last {counted(count, 'token')} were"
    return f"The {last} truncated ({percent} of the text; task.max_length)."


def omission_note(record: DocumentRecord, *, drawn: int) -> str:
    """Number and total weight of tokens that are not drawn; empty if all are."""
    count = len(record.tokens) - drawn
    if count <= 0:
        return ""
    importance = record.importance()
    weight = sum(importance[drawn:]) / (sum(importance) or 1.0)
    more, have = counted(count, "more token"), "has" if count == 1 else "have"
    return f"… and {more}, not drawn, which {have} {percent_text(weight)} of the weight."


def agreement_note(record: DocumentRecord) -> str:
    """Rank correlation of weights and leave-one-out effects; empty if not measured."""
    if record.kendall_tau is None:
        return ""
    return (
        "Leave-one-out effects and weights have a Kendall’s tau of "
        f"{score_text(record.kendall_tau, decimals=2)} (1: the same order, 0: unrelated)."
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


WIDTH, MAX_WORDS, MAX_WORD_LENGTH, MAX_BLOCKS = 640.0, 400, 32, 12
WORD_SIZE, LINE, BOX_HEIGHT, INSIDE, SPACE = 14.0, 26.0, 21.0, 3.0, 4.0
BAR_SPACE, BAR_LENGTH, BASELINE = 92.0, 50.0, 0.72 * BOX_HEIGHT
NUM_VIEWS = {"mean": 1, "each": None}


class WordLayout(NamedTuple):
    """Words that are drawn and their positions, the same in every block."""

    tokens: list[DisplayToken]
    positions: list[WordPosition]
    starts: list[int]
    left: float


def draw_document(record: DocumentRecord, *, path: Path, hops: str = "mean") -> None:
    """Draw the document to `path`, an .svg or .png file.

    `hops` is "mean" for the text shaded by the mean over hops, or "each" for one more copy per hop.
    """
    validate_figure_suffix(path)
    views = weight_views(record)[: lookup("choice of hops", hops, NUM_VIEWS)]
    text = layout_document(record, left=MARGIN, right=WIDTH - MARGIN)
    notes = [omission_note(record, drawn=len(text.positions)), truncation_note(record)]
    if len(views) > MAX_BLOCKS:
        notes.append(f"{len(views) - MAX_BLOCKS} more hops are not drawn.")
    prediction = f"{printable(record.label)}, {prediction_sentence(record)}"
    max_width = WIDTH - 2 * MARGIN
    blocks = [
        text_block(prediction, max_width=max_width, title=True),
        text_block(short_title(record), max_width=max_width, max_lines=1),
    ]
    for view in views[:MAX_BLOCKS]:
        blocks += [text_block(view.name)] if len(views) > 1 else []
        blocks.append(_words(record, view, text))
    blocks += [text_block(" ".join(notes), max_width=max_width), _legend(record)]
    if record.deletion is not None:
        summary = f"{deletion_sentence(record.deletion)} {deletion_verdict(record.deletion)}"
        blocks += [text_block(summary, max_width=max_width), deletion_chart(record.deletion)]
    write_figure(*blocks, path=path)


def document_chart(record: DocumentRecord, *, width: float = WIDTH) -> Markup:
    """The text shaded by `DocumentRecord.importance`, and the legend, in a chart of this width."""
    text = layout_document(record, left=MARGIN, right=width - MARGIN)
    words = _words(record, weight_views(record)[0], text, width=width)
    notes = [omission_note(record, drawn=len(text.positions)), truncation_note(record)]
    note = text_block(" ".join(notes), max_width=width - 2 * MARGIN)
    legend = text_block(f"opacity: weight / (weight + {HALF_SHADE:g} × uniform)")
    return stack([each for each in (words, note, legend) if each])


def layout_document(record: DocumentRecord, *, left: float, right: float) -> WordLayout:
    """Lay out the first words of a document between two edges."""
    drawn = [
        DisplayToken(truncate(piece.text, MAX_WORD_LENGTH), piece.continues_word)
        for piece in display_tokens(record.tokens)[:MAX_WORDS]
    ]
    starts = [start for start in sentence_starts(record) if start < len(drawn)]
    left += BAR_SPACE if record.sentence_weights is not None else 0.0
    positions = layout_words(
        [text_width(piece.text, font_size=WORD_SIZE) + 2 * INSIDE for piece in drawn],
        continues_word=[piece.continues_word for piece in drawn],
        starts=set(starts),
        max_width=right - left,
        space=SPACE,
    )
    return WordLayout(drawn, positions, starts, left)


def _words(
    record: DocumentRecord, view: WeightView, text: WordLayout, *, width: float = WIDTH
) -> Markup:
    """One block of shaded words, with the bars of sentence weights."""
    parts = []
    for index, (piece, (line, left, across)) in enumerate(
        zip(text.tokens, text.positions, strict=True)
    ):
        box = {"left": text.left + left, "top": LINE * line, "width": across}
        is_marker = record.tokens[index] in MARKERS
        parts.append(_word(piece.text, view.relative[index], is_marker=is_marker, **box))
    if record.sentence_weights is not None:
        for start, end in pairwise([*text.starts, len(text.positions)]):
            weight = record.sentence_weights[record.segments[start]]
            lines = text.positions[start].line, text.positions[end - 1].line
            parts.append(_bar(weight, lines=lines, right=text.left - 8))
    height = LINE * (text.positions[-1].line + 1) + MARGIN
    return svg(*parts, width=width, height=height, class_="document-words")


def _word(
    text: str, relative: float, *, left: float, top: float, width: float, is_marker: bool = False
) -> Markup:
    box = {"x": left, "y": top, "width": width, "height": BOX_HEIGHT}
    class_ = "marker" if is_marker else None
    middle = {"x": left + width / 2, "y": top + BASELINE}
    return joined(
        element("rect", class_="shade", fill_opacity=shade_opacity(relative), **box),
        element("text", text, class_=class_, text_anchor="middle", **middle),
    )


def _bar(weight: float, *, lines: tuple[int, int], right: float) -> Markup:
    top, bottom, length = LINE * lines[0], LINE * lines[1] + BOX_HEIGHT, BAR_LENGTH * weight
    left, number = right - length, weight_text(weight)
    at = {"x": left - 4, "y": top + BASELINE}
    return joined(
        element("line", class_="edge", x1=right, x2=right, y1=top, y2=bottom),
        element("rect", class_="bar", x=left, y=top + 5, width=length, height=BOX_HEIGHT - 10),
        element("text", number, class_="weight", text_anchor="end", **at),
    )


def _legend(record: DocumentRecord) -> Markup:
    left, parts = MARGIN, []
    for relative in LEGEND:
        text = relative_text(relative)
        width = text_width(text, font_size=WORD_SIZE) + 2 * INSIDE
        parts.append(_word(text, relative, left=left, top=0.0, width=width))
        left += width + 2 * SPACE
    bars = "" if record.sentence_weights is None else "; bars at the left: sentence weights"
    second = f"opacity is relative weight / (relative weight + {HALF_SHADE:g}){bars}"
    parts += [
        element("text", "of the uniform weight;", class_="weight", x=left, y=BASELINE),
        element("text", second, class_="weight", x=MARGIN, y=LINE + BASELINE),
    ]
    return svg(*parts, width=WIDTH, height=2 * LINE + MARGIN, class_="document-words")
