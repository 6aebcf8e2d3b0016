"""Document page: the text shaded by attention weight, label probabilities and the deletion test.

Words are shaded by weight, and a bar beside each sentence shows its weight, as in Yang et al. 2016,
figure 5. The sidebar lists label probabilities, the deletion test and the top words. The style sheet
computes the opacity from `--relative` as `charts/document.py`'s `shade_opacity` does.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from regard.core.formatting import score_text, weight_text
from regard.core.records.document import DocumentRecord
from regard.views.charts import deletion, document
from regard.views.charts.document import WeightView, relative_text, weight_note
from regard.views.pages.render import render_page

MAX_LABELS, NUM_TOP_WORDS, MAX_WORDS = 8, 10, 3000


def document_page(record: DocumentRecord) -> str:
    """The page as self-contained HTML."""
    views = document.weight_views(record)
    drawn = min(len(record.tokens), MAX_WORDS)
    ranked = sorted(record.probabilities.items(), key=lambda item: -item[1])
    return render_page(
        "document.html",
        record=record,
        document=document,
        deletion=deletion,
        views=dict(enumerate(view.name for view in views)),
        sentences=document_sentences(record, views, drawn=drawn),
        omission=document.omission_note(record, drawn=drawn),
        labels=ranked[:MAX_LABELS],
        other_labels=ranked[MAX_LABELS:],
        top_words=_top_words(record, views[0]),
    )


class Word(NamedTuple):
    """A word, and its relative weight and note in each weight view; `drop` is what it adds to a note."""

    text: str
    continues_word: bool
    is_marker: bool
    relative: list[str]
    notes: list[str]
    drop: str


class Sentence(NamedTuple):
    """The words of a sentence, and its weight with a note; None and empty without sentence weights."""

    words: list[Word]
    weight: float | None
    title: str


def document_sentences(
    record: DocumentRecord, views: list[WeightView], *, drawn: int
) -> list[Sentence]:
    """The sentences of the first `drawn` words."""
    words = [
        Word(
            piece.text,
            piece.continues_word,
            record.tokens[index] in document.MARKERS,
            [f"{view.relative[index]:.3g}" for view in views],
            [weight_note(view.weights[index], view.relative[index]) for view in views],
            _drop_note(record, index),
        )
        for index, piece in enumerate(document.display_tokens(record.tokens)[:drawn])
    ]
    relative = document.sentence_relative_weights(record)
    starts = [start for start in document.sentence_starts(record) if start < drawn]
    found = []
    for start, end in pairwise([*starts, drawn]):
        number, weight, title = record.segments[start], None, ""
        if record.sentence_weights is not None and relative is not None:
            weight = record.sentence_weights[number]
            title = f"sentence {number + 1}: {weight_note(weight, relative[number])}"
        found.append(Sentence(words[start:end], weight, title))
    return found


def _drop_note(record: DocumentRecord, index: int) -> str:
    drop = None if record.drops is None else record.drops[index]
    if drop is None:
        return ""
    before = record.probabilities[record.label]
    after, now = weight_text(before - drop), weight_text(before)
    return f"; without it the label’s probability is {after} instead of {now}"


def _top_words(record: DocumentRecord, view: WeightView) -> list[list[str]]:
    """The rows of the table: word, weight, relative weight and, if measured, the drop without it."""
    texts = document.display_tokens(record.tokens)
    ranked = sorted(range(len(texts)), key=lambda index: -view.weights[index])[:NUM_TOP_WORDS]
    rows = []
    for index in ranked:
        weights = [score_text(view.weights[index], decimals=3), relative_text(view.relative[index])]
        drops = [] if record.drops is None else [score_text(record.drops[index], decimals=2)]
        rows.append([texts[index].text, *weights, *drops])
    return rows
