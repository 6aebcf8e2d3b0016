"""The one heatmap: attention weights, alignments, matrices of claims, confusion matrices, spectrograms.

Rows are queries, columns keys. Values are drawn by opacity over the background of the page, so they work in
light and dark mode; negative ones in a second colour. Cells that are large enough contain their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from regard.core.formatting import number_text, printable, truncate, weight_text
from regard.core.records.attention import AlignmentRecord
from regard.core.records.overview import MechanismRecord
from regard.core.registry import lookup
from regard.views.charts.figure_file import validate_figure_suffix, write_figure
from regard.views.charts.svg import (
    MARGIN,
    Attribute,
    element,
    joined,
    place,
    png_uri,
    size_of,
    stack,
    svg,
    text_block,
)

CELL, GAP, CHAR_WIDTH, FONT_SIZE = 20.0, 1.0, 6.1, 10.5
MAX_LABEL_LENGTH, MAX_LABELS = 22, 40
# Opacity is the square root of the weight, so that uniform weights remain visible.
GAMMA = 0.5
# Cells at least this large contain their number, and have a lower opacity for contrast.
NUMBER_WIDTH, NUMBER_HEIGHT, MAX_OPACITY_WITH_NUMBER = 44.0, 18.0, 0.5
# Cells below this fraction of the limit are not drawn, which keeps pages with long sentences small.
MIN_WEIGHT = 0.004
# Rounding may leave a weight just below zero.
NEGATIVE = -1e-6

Matrix = Sequence[Sequence[float]]


def opacity(weight: float, *, limit: float) -> float:
    """Opacity of a weight, from 0 to 1."""
    if not limit or not math.isfinite(weight):
        return 0.0
    return float(min(abs(weight) / limit, 1.0) ** GAMMA)


def matrix_chart(
    values: Matrix,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    limit: float,
    title: Callable[[int, int], str],
    description: str,
    number: Callable[[int, int], str] | None = None,
    cell: tuple[float, float] = (CELL, CELL),
    upright: bool = True,
    is_interactive: bool = False,
    image_key: str | None = None,
    max_label_length: int = MAX_LABEL_LENGTH,
) -> Markup:
    """A heatmap whose full opacity is `limit`; `title` is the text of a cell on hovering.

    With `number`, cells that are large enough contain it. Column labels that fit their column are
    `upright`. An interactive heatmap has all its cells and a frame, which the script of a page moves. A
    large one is drawn as an image, without titles and numbers: `image_key` is the key of `image_levels`.
    """
    width, height = cell
    rows, columns = (_thinned(labels, max_label_length) for labels in (rows, columns))
    left, above = (CHAR_WIDTH * max([2, *map(len, labels)]) + 8 for labels in (rows, columns))
    all_fit = upright and (CHAR_WIDTH + 0.6) * max([0, *map(len, columns)]) < width
    top = (FONT_SIZE + 8 if any(columns) else 2.0) if all_fit else above
    left = left if any(rows) else 2.0
    is_numbered = number is not None and width >= NUMBER_WIDTH and height >= NUMBER_HEIGHT
    cells = []
    size = width * max(map(len, values), default=0), height * len(values)
    if image_key is not None:
        at = {"x": left, "y": top, "width": size[0], "height": size[1]}
        cells.append(image_cells(values, limit=limit, key=image_key, has_ground=False, **at))
    for row, of_row in enumerate(values if image_key is None else []):
        for column, value in enumerate(of_row):
            if not (is_interactive or is_numbered) and abs(value) < MIN_WEIGHT * limit:
                continue
            x, y = left + width * column, top + height * row
            shade = opacity(value, limit=limit)
            cells.append(
                element(
                    "rect",
                    element("title", title(row, column)),
                    class_="negative" if value < 0 else None,
                    x=x,
                    y=y,
                    width=width - min(GAP, width / 8),
                    height=height - min(GAP, height / 8),
                    fill_opacity=shade * (MAX_OPACITY_WITH_NUMBER if is_numbered else 1.0),
                )
            )
            if is_numbered and number is not None:
                middle = {"x": x + width / 2, "y": y + height / 2 + FONT_SIZE / 3}
                cells.append(element("text", number(row, column), text_anchor="middle", **middle))
    ground = {"width": size[0] - GAP, "height": size[1] - GAP}
    interactive: dict[str, Attribute] = {}
    if is_interactive:
        interactive = {"tabindex": "0", "data_columns": len(columns)}
    return svg(
        element("rect", class_="ground", x=left, y=top, **ground),
        element("g", *row_labels(rows, left, top, height), class_="rows", aria_hidden="true"),
        element(
            "g",
            *_column_labels(columns, left, top, width, upright=upright),
            class_="columns",
            aria_hidden="true",
        ),
        element("g", *cells, class_="cells"),
        element("rect", class_="pair", width=width, height=height, x=-2 * width, y=0)
        if is_interactive
        else "",
        width=left + size[0] + 2,
        height=top + size[1] + 2,
        class_="chart heatmap interactive" if is_interactive else "chart heatmap",
        style=f"max-width:{1.25 * (left + size[0]):.0f}px",
        aria_label=description,
        **interactive,
    )


def image_cells(
    values: Matrix, *, limit: float, key: str = "", has_ground: bool = True, **place: float
) -> Markup:
    """The cells of a large matrix as an image, without numbers and titles; see `image_levels`."""
    layers = {"cells": 1, "negative": -1} if weight_limit([values])[1] else {"cells": 1}
    return joined(
        *(
            image_levels(
                [
                    bytes(round(255 * opacity(max(sign * each, 0.0), limit=limit)) for each in row)
                    for row in values
                ],
                class_=name,
                key=key,
                is_pixelated=True,
                has_ground=has_ground and sign > 0,
                **place,
            )
            for name, sign in layers.items()
        )
    )


def image_levels(
    levels: Sequence[bytes],
    *,
    class_: str,
    x: float,
    y: float,
    width: float,
    height: float,
    key: str = "",
    is_pixelated: bool = False,
    has_ground: bool = True,
) -> Markup:
    """Opacities from 0 to 255 as one image: a mask over a rectangle, whose colour is that of the class.

    `key` distinguishes images of a page that may be equal: a mask has an id.
    """
    at: dict[str, Attribute] = {"x": x, "y": y, "width": width, "height": height}
    image = element(
        "image",
        href=png_uri(levels),
        preserveAspectRatio="none",
        image_rendering="optimizeSpeed" if is_pixelated else None,
        style="image-rendering:pixelated" if is_pixelated else None,
        **at,
    )
    content = f"{key}{image}".encode(errors="backslashreplace")
    name = f"mask-{blake2b(content, digest_size=8).hexdigest()}"
    return joined(
        element("rect", class_="ground", **at) if has_ground else "",
        element("mask", image, id=name, maskUnits="userSpaceOnUse", **at),
        element("rect", class_=class_, mask=f"url(#{name})", **at),
    )


def _thinned(labels: Sequence[str], max_length: int) -> list[str]:
    """Short labels, of which at most `MAX_LABELS` are not empty."""
    step = math.ceil(len(labels) / MAX_LABELS) or 1
    return [
        truncate(printable(label), max_length) if number % step == 0 else ""
        for number, label in enumerate(labels)
    ]


def row_labels(labels: Sequence[str], left: float, top: float, height: float) -> list[Markup]:
    """Labels of rows of this height, ending before `left`."""
    first = top + height / 2 + FONT_SIZE / 3
    return [
        element("text", label, x=left - 5, y=first + height * number, text_anchor="end")
        for number, label in enumerate(labels)
    ]


def _column_labels(
    labels: Sequence[str], left: float, top: float, width: float, *, upright: bool
) -> list[Markup]:
    found = []
    for number, label in enumerate(labels):
        middle, bottom = left + width * (number + 0.5), top - 5
        if upright and len(label) * CHAR_WIDTH < width:
            found.append(element("text", label, x=middle, y=bottom, text_anchor="middle"))
        else:
            rotated = f"translate({middle + FONT_SIZE / 3:.1f} {bottom:.1f}) rotate(-90)"
            found.append(element("text", label, transform=rotated))
    return found


RAMP_CELLS, RAMP_WIDTH = 5, 72.0


def colour_ramp(limit: str, *, signed: bool, note: str = "") -> Markup:
    """The colour scale from 0, or with `signed` from the negative limit, to the limit, as a chart."""
    low, first = (f"−{limit}" if signed else "0"), (-RAMP_CELLS if signed else 0)
    left, wide = 14.0 + CHAR_WIDTH * len(low), RAMP_WIDTH / (RAMP_CELLS + 1 - first)
    cells = [
        element(
            "rect",
            class_="negative" if part < 0 else None,
            x=left + wide * (part - first),
            y=3,
            width=wide,
            height=10,
            fill_opacity=opacity(part / RAMP_CELLS, limit=1.0),
        )
        for part in range(first, RAMP_CELLS + 1)
    ]
    right = left + RAMP_WIDTH + 6
    text = f"{limit}   {note}".rstrip()
    return svg(
        element("text", low, x=left - 6, y=12, text_anchor="end"),
        element("rect", class_="ground", x=left, y=3, width=RAMP_WIDTH, height=10),
        element("g", *cells, class_="cells"),
        element("text", text, x=right, y=12),
        width=right + CHAR_WIDTH * len(text) + 8,
        height=16.0,
        class_="chart heatmap ramp",
        style=f"width:{1.15 * (right + CHAR_WIDTH * len(text) + 8):.0f}px",
        aria_label=f"colour scale from {low} to {limit}",
    )


def mechanism_heatmap(record: MechanismRecord, *, tokens: Sequence[str]) -> Markup:
    """Attention weights of a mechanism of the overview, interactive."""
    weight, row, column = max(
        (weight, row, column)
        for row, weights in enumerate(record.weights)
        for column, weight in enumerate(weights)
    )
    return matrix_chart(
        record.weights,
        rows=tokens,
        columns=tokens,
        limit=mechanism_limit(record),
        title=lambda i, j: f"{tokens[i]} → {tokens[j]}: {weight_text(record.weights[i][j])}",
        description=f"Heatmap of the attention weights of {record.name} over {len(tokens)} tokens. "
        f"Largest: {tokens[row]} to {tokens[column]}, {weight_text(weight)}.",
        upright=False,
        is_interactive=True,
        max_label_length=12,
    )


def mechanism_limit(record: MechanismRecord) -> float:
    """The weight drawn at full opacity: 1, unless weights are signed or exceed it."""
    largest = max((abs(weight) for row in record.weights for weight in row), default=0.0)
    return (largest or 1.0) if record.signed else max(1.0, largest)


def mean_weights(heads: Sequence[Matrix]) -> list[list[float]]:
    """Mean over heads, of shape (output, source)."""
    return [
        [sum(weights) / len(heads) for weights in zip(*rows, strict=True)]
        for rows in zip(*heads, strict=True)
    ]


def mean_map(record: AlignmentRecord) -> list[list[float]]:
    """The mean over all maps and heads."""
    return mean_weights([head for heads in record.maps.values() for head in heads])


def weight_limit(matrices: Sequence[Matrix]) -> tuple[float, bool]:
    """The common limit of matrices of weights, and whether some are negative."""
    weights = [weight for matrix in matrices for row in matrix for weight in row]
    largest, signed = max(map(abs, weights), default=0.0), min(weights, default=0.0) < NEGATIVE
    return ((largest or 1.0) if signed else max(1.0, largest)), signed


def largest(weights: Matrix) -> float:
    """The largest weight, which is drawn at full opacity."""
    return max((abs(weight) for row in weights for weight in row), default=0.0) or 1.0


def weight_ramp(weights: Matrix, *, limit: float) -> Markup:
    """The colour scale of the weights."""
    signed = any(weight < NEGATIVE for row in weights for weight in row)
    return colour_ramp(weight_text(limit), signed=signed)


def token_label(token: str) -> str:
    """A token as a label: spaces are made visible.

    >>> token_label("a b")
    'a␣b'
    """
    return printable(token).replace(" ", "␣")


def alignment_map(record: AlignmentRecord, weights: Matrix, *, limit: float, name: str) -> Markup:
    """Heatmap of one attention matrix over the tokens of a record."""
    outputs, sources = (
        [token_label(token) for token in tokens]
        for tokens in (record.output_tokens, record.source_tokens)
    )
    return matrix_chart(
        weights,
        rows=outputs,
        columns=sources,
        limit=limit,
        title=lambda i, j: f"{outputs[i]} ← {sources[j]}: {weight_text(weights[i][j])}",
        description=f"Attention of {name} over {' '.join(sources)} while generating "
        f"{' '.join(outputs)}",
        max_label_length=12,
    )


class Panel(NamedTuple):
    """One attention matrix of shape (output, source), and its name."""

    name: str
    weights: Matrix


def mean_panels(record: AlignmentRecord) -> list[Panel]:
    """One panel per map, averaged over heads."""
    return [
        Panel(
            f"{name} (mean of {len(heads)} heads)" if len(heads) > 1 else name, mean_weights(heads)
        )
        for name, heads in record.maps.items()
    ]


def head_panels(record: AlignmentRecord) -> list[Panel]:
    """One panel per head of every map."""
    return [
        Panel(f"{name}, head {number}" if len(heads) > 1 else name, head)
        for name, heads in record.maps.items()
        for number, head in enumerate(heads, start=1)
    ]


PANELS = {"mean": mean_panels, "each": head_panels}
# Target aspect ratio of the grid of panels, width over height.
ASPECT_RATIO, MIN_WIDTH, MAX_TITLE_LINES = 1.4, 400.0, 3


def draw_alignment(record: AlignmentRecord, *, path: Path, heads: str = "mean") -> None:
    """Draw the alignment to `path`, an .svg or .png file.

    `heads` is "mean" for one panel per map, averaged over heads, or "each" for one panel per head.
    """
    validate_figure_suffix(path)
    panels = lookup("choice of heads", heads, PANELS)(record)
    weights = [weight for panel in panels for row in panel.weights for weight in row]
    limit = max(map(abs, weights)) or 1.0
    charts = [
        stack(
            [
                text_block(panel.name),
                alignment_map(record, panel.weights, limit=limit, name=panel.name),
            ]
        )
        for panel in panels
    ]
    numbers = {len(of_map) for of_map in record.maps.values()}
    # One row per map and one column per head, if all maps have as many.
    is_regular = heads == "each" and len(record.maps) > 1 and len(numbers) == 1
    grid = _grid(charts, columns=numbers.pop() if is_regular else None)
    width = max(size_of(grid)[0], MIN_WIDTH) - 2 * MARGIN
    title = text_block(record.title, max_width=width, title=True, max_lines=MAX_TITLE_LINES)
    note = "weight; columns: source, rows: output"
    ramp = colour_ramp(weight_text(limit), signed=min(weights) < NEGATIVE, note=note)
    write_figure(title, ramp, grid, path=path)


def _grid(charts: Sequence[Markup], *, columns: int | None) -> Markup:
    """Charts in row-major order, in as many columns as fit the aspect ratio if `columns` is None."""
    width, height = (max(sides) + MARGIN for sides in zip(*map(size_of, charts), strict=True))
    columns = columns or best_columns(len(charts), width=width, height=height)
    placed = [
        place(chart, x=width * (number % columns), y=height * (number // columns))
        for number, chart in enumerate(charts)
    ]
    return svg(*placed, width=width * columns, height=height * math.ceil(len(charts) / columns))


def best_columns(count: int, *, width: float, height: float) -> int:
    """The number of columns whose grid is nearest to the aspect ratio and to being full.

    >>> best_columns(6, width=1.0, height=1.0)
    3
    """

    def penalty(columns: int) -> float:
        rows = math.ceil(count / columns)
        shape = abs(math.log(columns * width / (rows * height) / ASPECT_RATIO))
        return shape + 2 * math.log(rows * columns / count)

    return min(range(1, count + 1), key=penalty)


def value_matrix(
    values: Matrix, *, rows: Sequence[str], columns: Sequence[str], title: str
) -> Markup:
    """A matrix of numbers of a claim in a chart of at most 520 units; empty without cells."""
    width = max(map(len, values), default=0)
    if not width:
        return Markup()
    sizes = [abs(value) for row in values for value in row if math.isfinite(value)]
    limit = max(sizes, default=0.0)
    left = CHAR_WIDTH * max([0, *(min(len(label), MAX_LABEL_LENGTH) for label in rows)]) + 8
    wide = min(max((520 - left) / width, 3.0), 62.0)
    high = min(max(min(wide, 520 / len(values)), 3.0), 26.0)

    def text(row: int, column: int) -> str:
        named = [*rows[row : row + 1], *columns[column : column + 1]]
        value = number_text(values[row][column])
        return f"{' → '.join(named)}: {value}" if named else value

    return matrix_chart(
        values,
        rows=rows,
        columns=columns,
        limit=limit,
        title=text,
        number=lambda row, column: number_text(values[row][column], digits=2),
        description=f"{title}: {len(values)} rows, {width} columns; largest {number_text(limit)}.",
        cell=(wide, high),
    )
