"""Document page: the text shaded by attention weight, label probabilities and the deletion test.

Words are shaded by weight, and a bar beside each sentence shows its weight, as in Yang et al. 2016,
figure 5. The sidebar lists label probabilities, the deletion test and the top words. The style sheet
computes the opacity from `--relative` as `charts/document.py`'s `shade_opacity` does.
"""

from __future__ import annotations

from pathlib import Path

from regard.core.atomic_write import atomic_write
from regard.core.records.document import DocumentRecord
from regard.views.charts.deletion import deletion_chart, deletion_sentence, deletion_verdict
from regard.views.charts.document import (
    HALF_SHADE,
    LEGEND,
    MARKERS,
    WeightView,
    agreement_note,
    display_tokens,
    omission_note,
    prediction_sentence,
    relative_text,
    sentence_relative_weights,
    sentence_starts,
    short_title,
    truncation_note,
    weight_views,
)
from regard.views.charts.figure_file import printable
from regard.views.pages.html import Markup, choice, element, footer, joined, page, row, table

MAX_LABELS = 8
NUM_TOP_WORDS = 10


def document_sidebar(record: DocumentRecord) -> Markup:
    """Label probabilities, deletion test and top words, as far as the record has them."""
    return element("aside", _labels(record), _deletion(record), _top_words(record))


def _labels(record: DocumentRecord) -> Markup:
    ranked = sorted(record.probabilities.items(), key=lambda item: -item[1])
    rows = [
        element(
            "li",
            element("span", printable(label), class_="name"),
            element("span", f"{probability:.2f}", class_="figure"),
            element("span", class_="fill", style=f"--share:{probability:.4f}"),
            class_="predicted" if label == record.label else None,
        )
        for label, probability in ranked[:MAX_LABELS]
    ]
    others = ranked[MAX_LABELS:]
    if others:
        together = sum(probability for _, probability in others)
        rows.append(element("li", f"{len(others)} more, {together:.2f} in total", class_="hint"))
    return element("section", element("h2", "Labels"), element("ol", *rows, class_="labels"))


def _deletion(record: DocumentRecord) -> Markup:
    if record.deletion is None:
        return Markup("")
    agreement = agreement_note(record)
    return element(
        "section",
        element("h2", "Deletion test"),
        element("p", f"{deletion_sentence(record.deletion)} {deletion_verdict(record.deletion)}"),
        deletion_chart(record.deletion),
        element("p", agreement, class_="hint") if agreement else Markup(""),
    )


def _top_words(record: DocumentRecord) -> Markup:
    view, texts = weight_views(record)[0], display_tokens(record.tokens)
    ranked = sorted(range(len(texts)), key=lambda index: -view.weights[index])[:NUM_TOP_WORDS]
    heads = ["word", "weight", "× uniform", *(["drop without it"] if record.drops else [])]
    rows = []
    for index in ranked:
        cells = [f"{view.weights[index]:.3f}", relative_text(view.relative[index])]
        if record.drops is not None:
            drop = record.drops[index]
            cells.append("–" if drop is None else f"{drop:.2f}".replace("-", "−"))
        rows.append(row(texts[index].text, *cells))
    words = table(heads, rows, class_="top-words")
    return element("section", element("h2", "Top words"), words)


MAX_WORDS = 3000


def write_document_page(record: DocumentRecord, *, path: Path) -> None:
    """Write the page to `path` atomically."""
    atomic_write(path, document_page(record).encode())


def document_page(record: DocumentRecord) -> str:
    """The page as self-contained HTML."""
    headline = element(
        "header",
        element("p", short_title(record), class_="kicker"),
        element("h1", printable(record.label)),
        element("p", prediction_sentence(record), class_="lead"),
        class_="headline",
    )
    both = element("div", _text(record), document_sidebar(record), class_="document")
    main = element("main", both)
    foot = footer("Made by regard.")
    title = f"{printable(record.label)}: {short_title(record)}"
    return page(title=title, body=[headline, main, foot], kind="document")


def _text(record: DocumentRecord) -> Markup:
    views = weight_views(record)
    drawn = min(len(record.tokens), MAX_WORDS)
    starts = [start for start in sentence_starts(record) if start < drawn]
    ends = [*starts[1:], drawn]
    words = _words(record, views)
    rows = [
        _sentence(record, record.segments[start], joined(*words[start:end]))
        for start, end in zip(starts, ends, strict=True)
    ]
    note = f"{omission_note(record, drawn=drawn)} {truncation_note(record)}".strip()
    return element(
        "section",
        _view_tabs(views),
        element("div", *rows, class_="sentences"),
        element("p", note, class_="hint") if note else Markup(""),
        element("p", class_="word-note", aria_live="polite"),
        _legend(record),
        class_="text",
        aria_label="The text, shaded by weight",
    )


def _view_tabs(views: list[WeightView]) -> Markup:
    """Radio buttons that select the weights shown; empty if there is only one kind."""
    if len(views) < 2:
        return Markup("")
    return choice("Weight", {index: view.name for index, view in enumerate(views)}, name="view")


def _words(record: DocumentRecord, views: list[WeightView]) -> list[Markup]:
    found = []
    for index, piece in enumerate(display_tokens(record.tokens)):
        relative = [f"{view.relative[index]:.3g}" for view in views]
        notes = [_note(view, index) for view in views]
        drop_note, several = _drop_note(record, index), len(views) > 1
        word = element(
            "span",
            piece.text,
            class_="word special-token" if record.tokens[index] in MARKERS else "word",
            style=f"--relative:{relative[0]}",
            title=f"{piece.text}: {notes[0]}{drop_note}",
            data_relative=" ".join(relative) if several else None,
            data_notes="|".join(notes) if several else None,
            data_drop=drop_note if several and drop_note else None,
        )
        found.append(word if piece.continues_word else joined(" ", word))
    return found


def _note(view: WeightView, index: int) -> str:
    return f"weight {view.weights[index]:.2g}, {relative_text(view.relative[index])} uniform"


def _drop_note(record: DocumentRecord, index: int) -> str:
    drop = None if record.drops is None else record.drops[index]
    if drop is None:
        return ""
    before = record.probabilities[record.label]
    return f"; without it the label’s probability is {before - drop:.2f} instead of {before:.2f}"


def _sentence(record: DocumentRecord, number: int, words: Markup) -> Markup:
    relative = sentence_relative_weights(record)
    if relative is None or record.sentence_weights is None:
        return element("p", words, class_="sentence")
    weight = record.sentence_weights[number]
    bar = element(
        "span",
        element("span", class_="fill"),
        element("span", f"{weight:.2f}", class_="figure"),
        class_="bar",
        style=f"--share:{weight:.4f}",
        title=f"sentence {number + 1}: weight {weight:.2g}, {relative_text(relative[number])} uniform",
    )
    return element("p", bar, element("span", words), class_="sentence with-weight")


def _legend(record: DocumentRecord) -> Markup:
    swatches = [
        joined(
            element(
                "span", relative_text(relative), class_="word", style=f"--relative:{relative:g}"
            ),
            " ",
        )
        for relative in LEGEND
    ]
    sentences = (
        " The bar beside a sentence shows its weight."
        if record.sentence_weights is not None
        else ""
    )
    return element(
        "p",
        "Shades: ",
        *swatches,
        f"of the uniform weight; opacity is relative weight / (relative weight + {HALF_SHADE:g})."
        f"{sentences}",
        class_="hint shade-legend",
    )
