"""What stands beside a document on its page: all labels, the deletion test, the words with most weight."""

from __future__ import annotations

from regard.core.document_record import DocumentRecord
from regard.views.deletion_chart import deletion_chart
from regard.views.deletion_text import deletion_sentence, deletion_verdict
from regard.views.document_shades import pieces, shadings, times_text
from regard.views.document_words import agreement_sentence
from regard.views.figure_file import shown
from regard.views.markup import Markup, element

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
