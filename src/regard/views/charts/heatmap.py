"""Attention heatmaps as SVG: rows are queries, columns are keys.

Weights are drawn by opacity over the background of the page, so they work in light and dark mode.
Non-negative weights share the scale 0 to 1; signed weights have a symmetric scale of their own. A study
shows one heatmap per variant for the same source, all on one scale, as the mean over heads and maps.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.core.records.attention import AlignmentRecord
from regard.core.records.overview import MechanismRecord
from regard.core.records.study import AttentionExample, StudyRecord
from regard.views.charts.axes import truncate
from regard.views.charts.variants import ranked, variant_label
from regard.views.pages.html import Markup, element, joined
from regard.views.text.numbers import weight_text

CELL = 20
GAP = 1
CHAR_WIDTH = 6.1
FONT_SIZE = 10.5
MAX_LABEL_LENGTH = 12
# Opacity is the square root of the weight, so that uniform weights remain visible.
GAMMA = 0.5


def heatmap(record: MechanismRecord, *, tokens: Sequence[str]) -> Markup:
    """Heatmap of one mechanism; the title of a cell names query, key and weight."""
    labels = [truncate(token, MAX_LABEL_LENGTH) for token in tokens]
    margin = CHAR_WIDTH * max(len(label) for label in labels) + 8.0
    side = margin + CELL * len(tokens) + 1
    limit = scale_limit(record)
    cells = [
        _cell(weight, row=row, column=column, margin=margin, limit=limit, tokens=tokens)
        for row, weights in enumerate(record.weights)
        for column, weight in enumerate(weights)
    ]
    return element(
        "svg",
        *_axes(labels, margin=margin),
        element("g", *cells, class_="cells"),
        element("rect", class_="pair", width=CELL, height=CELL, x=-2 * CELL, y=0),
        viewBox=f"0 0 {side:.0f} {side:.0f}",
        class_="heatmap",
        role="img",
        tabindex="0",
        data_columns=len(tokens),
        aria_label=_description(record, tokens),
    )


def scale_limit(record: MechanismRecord) -> float:
    """The weight drawn at full opacity."""
    largest = max((abs(weight) for row in record.weights for weight in row), default=0.0)
    return (largest or 1.0) if record.signed else max(1.0, largest)


def opacity(weight: float, *, limit: float) -> float:
    """Opacity of a weight, from 0 to 1."""
    return float(min(abs(weight) / limit, 1.0) ** GAMMA)


def legend(record: MechanismRecord) -> Markup:
    """The colour scale with its limits."""
    limit = weight_text(scale_limit(record))
    low = f"−{limit}" if record.signed else "0"
    return element(
        "span",
        low,
        element("span", class_="ramp signed" if record.signed else "ramp", aria_hidden="true"),
        limit,
        class_="legend",
    )


def _cell(
    weight: float, *, row: int, column: int, margin: float, limit: float, tokens: Sequence[str]
) -> Markup:
    title = f"{tokens[row]} → {tokens[column]}: {weight_text(weight)}"
    return element(
        "rect",
        element("title", title),
        class_="negative" if weight < 0 else None,
        x=margin + CELL * column,
        y=margin + CELL * row,
        width=CELL - GAP,
        height=CELL - GAP,
        fill_opacity=opacity(weight, limit=limit),
    )


def _axes(labels: Sequence[str], *, margin: float) -> list[Markup]:
    side = CELL * len(labels) - GAP
    ground = element("rect", class_="ground", x=margin, y=margin, width=side, height=side)
    middle = [margin + CELL * index + CELL / 2 for index in range(len(labels))]
    rows = [
        element("text", label, x=margin - 5, y=y + FONT_SIZE / 3, text_anchor="end")
        for label, y in zip(labels, middle, strict=True)
    ]
    columns = [
        element(
            "text",
            label,
            transform=f"translate({x + FONT_SIZE / 3:.1f} {margin - 5:.1f}) rotate(-90)",
        )
        for label, x in zip(labels, middle, strict=True)
    ]
    return [
        ground,
        element("g", joined(*rows), class_="axis rows", aria_hidden="true"),
        element("g", joined(*columns), class_="axis columns", aria_hidden="true"),
    ]


def _description(record: MechanismRecord, tokens: Sequence[str]) -> str:
    weight, row, column = max(
        (weight, row, column)
        for row, weights in enumerate(record.weights)
        for column, weight in enumerate(weights)
    )
    return (
        f"Heatmap of the attention weights of {record.name} over {len(tokens)} tokens. "
        f"Largest: {tokens[row]} to {tokens[column]}, {weight_text(weight)}."
    )


# Cells below this weight are not drawn, which keeps pages with long sentences small.
MIN_WEIGHT = 0.004
# Rounding may leave a weight just below zero.
NEGATIVE = -1e-6


def attention_columns(record: StudyRecord, example: AttentionExample) -> Markup:
    """One heatmap per variant for the same source, best variant first."""
    names = [variant.name for variant in ranked(record) if variant.name in example.alignments]
    means = {name: mean_weights(example.alignments[name]) for name in names}
    weights = [weight for rows in means.values() for row in rows for weight in row]
    largest = max(map(abs, weights), default=0.0)
    signed = min(weights, default=0.0) < NEGATIVE
    limit = (largest or 1.0) if signed else max(1.0, largest)
    columns = [
        element(
            "figure",
            element("figcaption", variant_label(record, name)),
            _heatmap(example.alignments[name], means[name], limit=limit, variant=name),
            _mean_note(example.alignments[name]),
        )
        for name in names
    ]
    written = weight_text(limit)
    ramp = element("span", class_="ramp signed" if signed else "ramp", aria_hidden="true")
    legend = element("span", f"−{written}" if signed else "0", ramp, written, class_="legend")
    widest = max((len(example.alignments[name].source_tokens) for name in names), default=1)
    return element(
        "div",
        element("p", "columns: source tokens, rows: output tokens; weight ", legend, class_="hint"),
        element("div", *columns, class_="attention", style=f"--tokens:{widest}"),
    )


def mean_weights(record: AlignmentRecord) -> list[list[float]]:
    """Mean over all heads of all maps, of shape (output, source)."""
    heads = [head for heads in record.maps.values() for head in heads]
    return [
        [sum(weights) / len(heads) for weights in zip(*rows, strict=True)]
        for rows in zip(*heads, strict=True)
    ]


def _mean_note(record: AlignmentRecord) -> Markup:
    # The maps may already be means over heads.
    if sum(map(len, record.maps.values())) == 1 and "mean" not in next(iter(record.maps)):
        return Markup("")
    return element("small", "mean over heads and layers")


def _heatmap(
    record: AlignmentRecord, weights: Sequence[Sequence[float]], *, limit: float, variant: str
) -> Markup:
    sources = [truncate(token, MAX_LABEL_LENGTH) for token in record.source_tokens]
    outputs = [truncate(token, MAX_LABEL_LENGTH) for token in record.output_tokens]
    left, top = (CHAR_WIDTH * max(2, *map(len, labels)) + 8.0 for labels in (outputs, sources))
    width, height = CELL * len(sources) - GAP, CELL * len(outputs) - GAP
    cells = [
        element(
            "rect",
            element("title", f"{output} ← {source}: {weight_text(weight)}"),
            class_="negative" if weight < 0 else None,
            x=left + CELL * column,
            y=top + CELL * row,
            width=CELL - GAP,
            height=CELL - GAP,
            fill_opacity=opacity(weight, limit=limit),
        )
        for row, output in enumerate(record.output_tokens)
        for column, source in enumerate(record.source_tokens)
        if abs(weight := weights[row][column]) >= MIN_WEIGHT
    ]
    down = [
        element("text", label, x=left - 5, y=top + _middle(row), text_anchor="end")
        for row, label in enumerate(outputs)
    ]
    along = [_above(label, left + CELL * column, top - 5) for column, label in enumerate(sources)]
    return element(
        "svg",
        element("rect", class_="ground", x=left, y=top, width=width, height=height),
        element("g", *cells, class_="cells"),
        element("g", *down, *along, aria_hidden="true"),
        viewBox=f"0 0 {left + width + 1:.0f} {top + height + 1:.0f}",
        style=f"max-width:{1.25 * (left + width):.0f}px",
        class_="attention-map",
        role="img",
        aria_label=f"Attention of {variant} over {' '.join(record.source_tokens)} "
        f"while generating {' '.join(record.output_tokens)}",
    )


def _above(label: str, left: float, bottom: float) -> Markup:
    """A column label, rotated if it is wider than its column."""
    middle = left + CELL / 2
    if CHAR_WIDTH * len(label) < CELL:
        return element("text", label, x=middle, y=bottom, text_anchor="middle")
    rotated = f"translate({middle + FONT_SIZE / 3:.1f} {bottom:.1f}) rotate(-90)"
    return element("text", label, transform=rotated)


def _middle(index: int) -> float:
    return CELL * index + CELL / 2 + FONT_SIZE / 3
