"""Figures of what a model attends to: every view of a `LookRecord`, or of two with their difference.

    heads    a tile for every layer and head         heat       the input, shaded by importance
    map      one head, queries × keys                tree       the tree of a recursive autoencoder
    row      what one position attends to            alignment  the output over its source
    arcs     one head of a short text                curves     deletion and sufficiency against random

A figure for a paper is laid out for its width, so that its text has 6 to 8 points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from regard.core.errors import RegardError
from regard.core.formatting import (
    counted,
    interval_text,
    number_text,
    printable,
    score_text,
    truncate,
)
from regard.core.records.document import DocumentRecord, Estimate
from regard.core.records.look import LookRecord
from regard.core.registry import lookup
from regard.views.charts import document as words, heatmap
from regard.views.charts.faithfulness import deletion_curves, sufficiency_curves
from regard.views.charts.figure_file import PaperWidth, validate_figure_suffix, write_figure
from regard.views.charts.image import attention_chart
from regard.views.charts.look_maps import (
    WIDTH,
    Choice,
    arcs_view,
    heads_difference,
    heads_view,
    map_difference,
    map_view,
    no_difference,
    note_block,
    row_difference,
    row_view,
    subtracted,
    title_block,
)
from regard.views.charts.sound import alignment_chart, hops_chart
from regard.views.charts.svg import (
    MARGIN,
    element,
    stack,
    svg,
    text_width,
    titled,
)
from regard.views.charts.trees import tree_chart

MAX_NAME = 45  # of a model in a title


def draw_look(
    records: Sequence[LookRecord],
    *,
    path: Path,
    view: str | None = None,
    choice: Choice | None = None,
    width: PaperWidth | None = None,
) -> None:
    """Draw a view of one record, or of two and their difference, to `path`, an .svg or .png file."""
    validate_figure_suffix(path)
    chosen = choice or Choice()
    if width is not None:
        chosen = replace(chosen, width=width.units)
    write_figure(look_chart(records, view=view, choice=chosen), path=path, width=width)


def default_view(record: LookRecord) -> str:
    """The view that shows most of a record."""
    if record.tree is not None:
        return "tree"
    if record.alignment is not None:
        return "alignment"
    if record.document is not None or record.image is not None or not record.maps:
        return "heat"
    return "heads" if sum(len(each.heads) for each in record.maps) > 1 else "map"


def look_chart(
    records: Sequence[LookRecord], *, view: str | None = None, choice: Choice | None = None
) -> Markup:
    """A view with its title, as a chart."""
    chosen, name = choice or Choice(), view or default_view(records[0])
    draw: View = lookup("view", name, VIEWS)
    if len(records) == 1:
        (record,) = records
        return stack(_shown([*_heading(record, chosen), *draw(record, chosen)]))
    parts: list[Markup] = []
    for number, record in enumerate(records):
        inner = replace(chosen, key=str(number))
        parts += _heading(record, inner, with_model=True) + draw(record, inner)
    compare = DIFFERENCES.get(name)
    if compare is not None:
        one, other = records[0], records[1]
        names = [truncate(record.model, MAX_NAME) for record in records]
        inner = replace(chosen, key="difference")
        parts += [title_block(" minus ".join(names), inner), *compare(one, other, inner)]
    return stack(_shown(parts))


def _shown(parts: Sequence[Markup]) -> list[Markup]:
    return [each for each in parts if each]


def _heading(record: LookRecord, choice: Choice, *, with_model: bool = False) -> list[Markup]:
    title = " ".join(record.title.split())
    if record.prediction:
        title = f"{truncate(title, 60)} → {truncate(record.prediction, 60)}"
    parts = [title_block(title, choice)]
    return [*parts, note_block(printable(record.model), choice)] if with_model else parts


# The input, shaded


def importance_of(record: LookRecord, choice: Choice) -> tuple[str, tuple[float, ...]]:
    """The title of a method and the importance of each input position by it."""
    if not record.importance:
        raise RegardError(f"'{record.model}' has no importance of its input. Choose another view.")
    name = choice.method or next(iter(record.importance))
    values: tuple[float, ...] = lookup("method", name, record.importance)
    titles = {each.name: each.title for each in record.methods}
    return titles.get(name, name), values


def heat_view(record: LookRecord, choice: Choice) -> list[Markup]:
    """The words, the image or the spectrogram, shaded by importance."""
    if record.document is not None and choice.method is None:
        return _document(record.document, choice)
    title, values = importance_of(record, choice)
    return [note_block(f"importance of the input: {title}", choice), _heat(record, values, choice)]


def _heat(record: LookRecord, values: Sequence[float], choice: Choice) -> Markup:
    axis = record.axes["input"]
    if record.image is not None and record.image.image is not None and axis.grid is not None:
        rows, columns = axis.grid
        patches = values[axis.prefix :]
        heat = tuple(tuple(patches[row * columns : (row + 1) * columns]) for row in range(rows))
        shaded = replace(record.image, attention=(heat,))
        return attention_chart(shaded, record.image.image, key=f"{choice.key}heat")
    if record.sound is not None:
        shown = DocumentRecord(
            tokens=axis.tokens,
            segments=(0,) * len(values),
            hops=(tuple(map(abs, values)),),
            sentence_weights=None,
            label=record.prediction,
            probabilities={record.prediction: 1.0},
            title=record.title,
        )
        return hops_chart(shown, record.sound, key=f"{choice.key}heat")
    return shaded_words(axis.tokens, values, width=choice.width)


def shaded_words(tokens: Sequence[str], values: Sequence[float], *, width: float = WIDTH) -> Markup:
    """A text whose words are shaded by value, in a second colour if it is negative.

    As in `charts/document.py`, the opacity depends on the value over the mean absolute value.
    """
    mean = sum(map(abs, values)) / len(values) or 1.0
    pieces = [
        piece._replace(text=truncate(piece.text, words.MAX_WORD_LENGTH))
        for piece in words.display_tokens(tokens)[: words.MAX_WORDS]
    ]
    places = words.layout_words(
        [text_width(each.text, font_size=words.WORD_SIZE) + 2 * words.INSIDE for each in pieces],
        continues_word=[piece.continues_word for piece in pieces],
        starts=(),
        max_width=width - 2 * MARGIN,
        space=words.SPACE,
    )
    parts = []
    for piece, place_of, value in zip(pieces, places, values, strict=False):
        x, y = MARGIN + place_of.left, words.LINE * place_of.line
        box = {"x": x, "y": y, "width": place_of.width, "height": words.BOX_HEIGHT}
        shade = words.shade_opacity(abs(value) / mean)
        class_ = "negative" if value < 0 else "shade"
        middle = {"x": x + place_of.width / 2, "y": y + words.BASELINE}
        parts += [
            titled(
                number_text(value, digits=3),
                element("rect", class_=class_, fill_opacity=shade, **box),
            ),
            element("text", piece.text, text_anchor="middle", **middle),
        ]
    height = words.LINE * (places[-1].line + 1) + MARGIN
    if len(tokens) > len(pieces):
        text = f"… and {counted(len(tokens) - len(pieces), 'more token')}"
        parts.append(element("text", text, class_="weight", x=MARGIN, y=height))
        height += words.LINE
    return svg(*parts, width=width, height=height, class_="document-words")


def _document(record: DocumentRecord, choice: Choice) -> list[Markup]:
    prediction = f"{printable(record.label)}, {words.prediction_sentence(record)}"
    return [note_block(prediction, choice), words.document_chart(record, width=choice.width)]


def tree_view(record: LookRecord, choice: Choice) -> list[Markup]:
    """The tree."""
    if record.tree is None:
        raise RegardError(f"'{record.model}' builds no tree over its input. Choose another view.")
    return [tree_chart(record.tree), note_block("numbers: reconstruction error", choice)]


def alignment_view(record: LookRecord, choice: Choice) -> list[Markup]:
    """The output over the source, a text or a recording; the mean of all heads of each layer."""
    found = record.alignment
    if found is None:
        raise RegardError(f"'{record.model}' has no attention over a source. Choose another view.")
    if found.sound is not None:
        return [alignment_chart(found, found.sound, key=f"{choice.key}alignment")]
    parts: list[Markup] = []
    for panel in heatmap.mean_panels(found):
        limit = heatmap.largest(panel.weights)
        parts += [
            note_block(f"{panel.name}; rows: output, columns: source", choice),
            heatmap.weight_ramp(panel.weights, limit=limit),
            heatmap.alignment_map(found, panel.weights, limit=limit, name=panel.name),
        ]
    return parts


def curves_view(record: LookRecord, choice: Choice) -> list[Markup]:
    """Faithfulness: deletion and sufficiency against random, of one method, or of all."""
    if not record.faithfulness:
        why = record.faithfulness_note.removeprefix("not measured").lstrip(": ").rstrip(".")
        raise RegardError(
            f"--view curves: the faithfulness of '{record.model}' was not measured{why and f': {why}'}."
        )
    known = {each.method: each for each in record.faithfulness}
    titles = {each.name: each.title for each in record.methods}
    chosen = (
        list(known.values())
        if choice.method is None
        else [lookup("measured method", choice.method, known)]
    )
    parts: list[Markup] = []
    for curves in chosen:
        gains = ", ".join(
            f"{name} {_gain(gain)}"
            for name, gain in (
                ("deletion", curves.deletion_gain),
                ("sufficiency", curves.sufficiency_gain),
            )
        )
        parts += [
            title_block(titles.get(curves.method, curves.method), choice),
            note_block(
                f"gain over random: {gains}; {counted(curves.items, 'input')}, {curves.data}",
                choice,
            ),
            deletion_curves(curves),
            sufficiency_curves(curves),
        ]
    return parts


def _gain(gain: Estimate) -> str:
    text, interval = (
        score_text(gain.mean, decimals=3),
        interval_text(gain.low, gain.high, decimals=3),
    )
    return f"{text} ({interval})" if interval else text


def heat_difference(one: LookRecord, other: LookRecord, choice: Choice) -> list[Markup]:
    """The difference of the importance of each token, as shares of the whole."""
    if one.axes["input"].tokens != other.axes["input"].tokens:
        return [note_block(no_difference(one, other), choice)]
    shares = []
    for record in (one, other):
        values = importance_of(record, choice)[1]
        total = sum(map(abs, values)) or 1.0
        shares.append([value / total for value in values])
    (difference,) = subtracted([shares[0]], [shares[1]])
    return [_heat(one, difference, choice)]


View = Callable[[LookRecord, Choice], list[Markup]]
VIEWS: dict[str, View] = {
    "heads": heads_view,
    "map": map_view,
    "heat": heat_view,
    "row": row_view,
    "arcs": arcs_view,
    "tree": tree_view,
    "alignment": alignment_view,
    "curves": curves_view,
}
DIFFERENCES: dict[str, Callable[[LookRecord, LookRecord, Choice], list[Markup]]] = {
    "heads": heads_difference,
    "map": map_difference,
    "row": row_difference,
    "heat": heat_difference,
}
