"""The page of a document as a classifier read it: words and sentences shaded by weight.

Each word is shaded by its weight, and beside each sentence stands a bar of the sentence's weight, as in the
figures of hierarchical attention networks (Yang et al. 2016, figure 5). Beside the text stand the label,
the deletion test and the words with most weight. The style sheet turns `--times` into a shade by the rule
of `document_shades.py`; the script only changes which weights are shown.
"""

from __future__ import annotations

from pathlib import Path

from regard.core.atomic_write import write_whole
from regard.core.records.document import DocumentRecord
from regard.views.charts.deletion import deletion_chart, deletion_sentence, deletion_verdict
from regard.views.charts.document_words import (
    HALF,
    LEGEND,
    MARKS,
    Shading,
    agreement_sentence,
    cut_sentence,
    left_out_sentence,
    pieces,
    said_of_label,
    sentence_starts,
    sentence_times,
    shadings,
    short_title,
    times_text,
)
from regard.views.charts.figure_file import shown
from regard.views.pages.html import Markup, element, joined, page

# What stands beside a document on its page: all labels, the deletion test, the words with most
# weight.


MOST_LABELS = 8
HEAVIEST = 10


def document_aside(record: DocumentRecord) -> Markup:
    """The column; what was not measured is not in it."""
    return element("aside", _labels(record), _deletion(record), _heaviest(record))


def _labels(record: DocumentRecord) -> Markup:
    ranked = sorted(record.probabilities.items(), key=lambda item: -item[1])
    rows = [
        element(
            "li",
            element("span", shown(label), class_="name"),
            element("span", f"{probability:.2f}", class_="figure"),
            element("span", class_="fill", style=f"--share:{probability:.4f}"),
            class_="said" if label == record.label else None,
        )
        for label, probability in ranked[:MOST_LABELS]
    ]
    others = ranked[MOST_LABELS:]
    if others:
        together = sum(probability for _, probability in others)
        rows.append(element("li", f"{len(others)} more, together {together:.2f}", class_="hint"))
    return element("section", element("h2", "Labels"), element("ol", *rows, class_="labels"))


def _deletion(record: DocumentRecord) -> Markup:
    if record.deletion is None:
        return Markup("")
    agreement = agreement_sentence(record)
    return element(
        "section",
        element("h2", "Without these words"),
        element("p", f"{deletion_sentence(record.deletion)} {deletion_verdict(record.deletion)}"),
        deletion_chart(record.deletion),
        element("p", agreement, class_="hint") if agreement else Markup(""),
    )


def _heaviest(record: DocumentRecord) -> Markup:
    way, texts = shadings(record)[0], pieces(record.tokens)
    ranked = sorted(range(len(texts)), key=lambda place: -way.weights[place])[:HEAVIEST]
    heads = ["word", "weight", "times even", *(["fall without it"] if record.falls else [])]
    rows = []
    for place in ranked:
        cells = [f"{way.weights[place]:.3f}", times_text(way.times[place])]
        if record.falls is not None:
            fall = record.falls[place]
            cells.append("–" if fall is None else f"{fall:.2f}".replace("-", "−"))
        name = element("th", texts[place].text, scope="row")
        rows.append(element("tr", name, *(element("td", cell) for cell in cells)))
    return element(
        "section",
        element("h2", "Most weight"),
        element(
            "table",
            element("thead", element("tr", *(element("th", head, scope="col") for head in heads))),
            element("tbody", *rows),
            class_="heaviest",
        ),
    )


MOST_WORDS = 3000


def write_document_page(record: DocumentRecord, *, path: Path) -> None:
    """Write the page to `path`, whole or not at all."""
    write_whole(path, document_page(record).encode())


def document_page(record: DocumentRecord) -> str:
    """The text of an HTML file that needs nothing beside it."""
    headline = element(
        "header",
        element("p", short_title(record), class_="kicker"),
        element("h1", shown(record.label)),
        element("p", said_of_label(record), class_="lead"),
        class_="headline",
    )
    both = element("div", _text(record), document_aside(record), class_="document")
    main = element("main", both)
    foot = element("footer", element("p", "Made by regard. The page fetches nothing."))
    title = f"{shown(record.label)}: {short_title(record)}"
    return page(title=title, body=[headline, main, foot], kind="document")


def _text(record: DocumentRecord) -> Markup:
    ways = shadings(record)
    drawn = min(len(record.tokens), MOST_WORDS)
    starts = [start for start in sentence_starts(record) if start < drawn]
    ends = [*starts[1:], drawn]
    words = _words(record, ways)
    rows = [
        _sentence(record, record.segments[start], joined(*words[start:end]))
        for start, end in zip(starts, ends, strict=True)
    ]
    missing = f"{left_out_sentence(record, drawn=drawn)} {cut_sentence(record)}".strip()
    return element(
        "section",
        _chooser(ways),
        element("div", *rows, class_="sentences"),
        element("p", missing, class_="hint") if missing else Markup(""),
        element("p", class_="told", aria_live="polite"),
        _legend(record),
        class_="text",
        aria_label="The text, shaded by weight",
    )


def _chooser(ways: list[Shading]) -> Markup:
    """Which weights are shown; nothing where there is no choice."""
    if len(ways) < 2:
        return Markup("")
    choices = [
        element(
            "label",
            element("input", type="radio", name="way", value=place, checked=place == 0),
            element("span", way.name),
        )
        for place, way in enumerate(ways)
    ]
    return element("fieldset", element("legend", "Weight"), *choices, class_="ways needs-script")


def _words(record: DocumentRecord, ways: list[Shading]) -> list[Markup]:
    found = []
    for place, piece in enumerate(pieces(record.tokens)):
        times = [f"{way.times[place]:.3g}" for way in ways]
        notes = [_note(way, place) for way in ways]
        after, several = _without(record, place), len(ways) > 1
        word = element(
            "span",
            piece.text,
            class_="word mark" if record.tokens[place] in MARKS else "word",
            style=f"--times:{times[0]}",
            title=f"{piece.text}: {notes[0]}{after}",
            data_times=" ".join(times) if several else None,
            data_notes="|".join(notes) if several else None,
            data_after=after if several and after else None,
        )
        found.append(word if piece.joins else joined(" ", word))
    return found


def _note(way: Shading, place: int) -> str:
    return f"weight {way.weights[place]:.2g}, {times_text(way.times[place])} even"


def _without(record: DocumentRecord, place: int) -> str:
    fall = None if record.falls is None else record.falls[place]
    if fall is None:
        return ""
    before = record.probabilities[record.label]
    return f"; without it the label has {before - fall:.2f} instead of {before:.2f}"


def _sentence(record: DocumentRecord, number: int, words: Markup) -> Markup:
    times = sentence_times(record)
    if times is None or record.sentences is None:
        return element("p", words, class_="sentence")
    weight = record.sentences[number]
    bar = element(
        "span",
        element("span", class_="fill"),
        element("span", f"{weight:.2f}", class_="figure"),
        class_="bar",
        style=f"--share:{weight:.4f}",
        title=f"sentence {number + 1}: weight {weight:.2g}, {times_text(times[number])} even",
    )
    return element("p", bar, element("span", words), class_="sentence weighed")


def _legend(record: DocumentRecord) -> Markup:
    swatches = [
        joined(element("span", times_text(times), class_="word", style=f"--times:{times:g}"), " ")
        for times in LEGEND
    ]
    sentences = (
        " The bar beside a sentence is as long as the sentence’s weight."
        if record.sentences is not None
        else ""
    )
    return element(
        "p",
        "Shade: ",
        *swatches,
        f"the even weight, the one that all tokens would have alike; a shade is times / (times + {HALF:g})."
        f"{sentences}",
        class_="hint shades",
    )
