"""Attention maps of a `LookRecord` as figures: tiles of all heads, the map of one, a row of it, arcs.

    heads    a tile for every layer and head         row      what one query attends to, as bars
    map      one head, queries × keys                arcs     one head of a short text

Each view has a difference of two records, on the same tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from regard.core.errors import RegardError
from regard.core.formatting import counted, number_text, printable, truncate
from regard.core.records.look import Axis, LayerMaps, LookRecord, Method
from regard.core.registry import lookup
from regard.views.charts import heatmap
from regard.views.charts.heatmap import CHAR_WIDTH, FONT_SIZE, Matrix, token_label
from regard.views.charts.svg import MARGIN, element, svg, text_block, text_width, titled

WIDTH = 640.0  # of a figure on a screen
MAX_CELLS = 48  # rows or columns of a map that is drawn cell by cell; others are images
MAX_ARCS, MAX_BARS, MIN_MAP_HEIGHT = 60, 40, 160.0
MIN_ARC = 0.02  # of the largest weight of a head
BAR_HEIGHT, BAR_LABEL, BAR_NUMBER = 15.0, 120.0, 44.0
TILE_GAP, LAYER_LABEL = 4.0, 64.0


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What of a record is drawn: a method, a layer and a head by name, a query by its number from 1.

    None is the default method, the last cross-attention or layer, its first head, the last query. `key` is
    that of `image_levels`.
    """

    method: str | None = None
    layer: str | None = None
    head: str | None = None
    query: int | None = None
    width: float = WIDTH
    key: str = ""


class _Head(NamedTuple):
    """The map of one head, with the names of its rows and columns."""

    maps: LayerMaps
    name: str
    queries: Axis
    keys: Axis
    weights: Matrix

    @property
    def title(self) -> str:
        """Layer and head."""
        return f"{self.maps.layer}, {_head_title(self.name)}"

    @property
    def is_partial(self) -> bool:
        """Whether small entries were left out."""
        return self.name not in self.maps.exact


def title_block(text: str, choice: Choice) -> Markup:
    """A title of the width of the figure."""
    shown = truncate(printable(text), 100)
    return text_block(shown, max_width=choice.width - 2 * MARGIN, title=True, max_lines=2)


def note_block(text: str, choice: Choice) -> Markup:
    """A note of the width of the figure."""
    return text_block(text, max_width=choice.width - 2 * MARGIN)


def _method(record: LookRecord, choice: Choice) -> Method:
    mapped = {each.method for each in record.maps}
    known = {each.name: each for each in record.methods if each.name in mapped}
    if not known:
        raise RegardError(
            f"'{record.model}' has no attention maps for this input. Choose another view."
        )
    found: Method = lookup("method", choice.method or next(iter(known)), known)
    return found


def _layers(record: LookRecord, choice: Choice) -> dict[str, LayerMaps]:
    """The maps of a method by layer."""
    method = _method(record, choice)
    return {each.layer: each for each in record.maps if each.method == method.name}


def _head(record: LookRecord, choice: Choice) -> _Head:
    layers = _layers(record, choice)
    cross = [name for name in layers if name.startswith("cross")]
    default = cross[-1] if cross else list(layers)[-1]
    maps: LayerMaps = lookup("attention layer", choice.layer or default, layers)
    name = maps.heads[0]
    if choice.head is not None and maps.heads != ("all",):
        name = lookup(f"head of {maps.layer}", choice.head, {each: each for each in maps.heads})
    axes = record.axes
    return _Head(maps, name, axes[maps.queries], axes[maps.keys], maps.matrix(name))


def _head_title(name: str) -> str:
    return "all heads" if name == "all" else f"head {name}"


def heads_view(record: LookRecord, choice: Choice) -> list[Markup]:
    """A tile for every head, one row per layer; each is relative to its own largest entry."""
    method, layers = _method(record, choice), _layers(record, choice)
    rows = {
        name: [(head, maps.tile(head), maps.limits[n]) for n, head in enumerate(maps.heads)]
        for name, maps in layers.items()
    }
    note = (
        f"{method.title}; rows: queries, columns: keys; each tile is relative to its largest entry"
    )
    return [note_block(note, choice), _tiles(rows, choice)]


def _tiles(rows: dict[str, list[tuple[str, list[list[float]], float]]], choice: Choice) -> Markup:
    """Tiles of (head, values, limit) by layer."""
    most = max(map(len, rows.values()))
    label = max(LAYER_LABEL, CHAR_WIDTH * max(map(len, rows)) + 14)
    side = min((choice.width - label - MARGIN) / most - TILE_GAP, 110.0)
    parts, top = [], FONT_SIZE + 8
    for number in range(most):
        x = label + (side + TILE_GAP) * (number + 0.5)
        heads = {of_layer[number][0] for of_layer in rows.values() if number < len(of_layer)}
        text = heads.pop() if len(heads) == 1 else str(number + 1)
        parts.append(element("text", text, x=x, y=FONT_SIZE, text_anchor="middle"))
    for name, of_layer in rows.items():
        middle = top + side / 2 + FONT_SIZE / 3
        parts.append(element("text", name, x=label - 6, y=middle, text_anchor="end"))
        for number, (head, values, limit) in enumerate(of_layer):
            cells = heatmap.image_cells(
                values,
                limit=limit or 1.0,
                key=f"{choice.key}{name}.{head}",
                x=label + (side + TILE_GAP) * number,
                y=top,
                width=side,
                height=side,
            )
            size = f"largest entry {number_text(limit, digits=3)}"
            tile = element("g", cells, class_="cells")
            parts.append(titled(f"{name}, {_head_title(head)}: {size}", tile))
        top += side + TILE_GAP
    return svg(
        *parts,
        width=label + (side + TILE_GAP) * most + MARGIN,
        height=top + MARGIN,
        class_="chart heatmap",
        aria_label=f"Attention of {counted(sum(map(len, rows.values())), 'head')} in "
        f"{counted(len(rows), 'layer')}.",
    )


def map_view(record: LookRecord, choice: Choice) -> list[Markup]:
    """The map of one head."""
    method, head = _method(record, choice), _head(record, choice)
    limit = heatmap.largest(head.weights)
    note = f"{method.title} of {head.title}; rows: queries, columns: keys"
    if head.is_partial:
        note += "; only the largest entries of each row"
    signed = method.is_signed or heatmap.weight_limit([head.weights])[1]
    ramp = heatmap.colour_ramp(number_text(limit, digits=2), signed=signed)
    return [note_block(note, choice), ramp, _map(head, head.weights, limit=limit, choice=choice)]


def _map(head: _Head, weights: Matrix, *, limit: float, choice: Choice) -> Markup:
    queries, keys = (_names(axis) for axis in (head.queries, head.keys))
    label = CHAR_WIDTH * min(max(map(len, queries)), 12) + 12
    side = max((choice.width - label - MARGIN) / len(keys), 0.5)
    is_image = max(len(queries), len(keys)) > MAX_CELLS
    side = min(side, heatmap.CELL if len(keys) > 3 else 2 * heatmap.CELL)
    return heatmap.matrix_chart(
        weights,
        rows=queries,
        columns=keys,
        limit=limit,
        title=lambda i, j: f"{queries[i]} → {keys[j]}: {number_text(weights[i][j], digits=3)}",
        description=f"Map of {head.title}: {len(queries)} queries, {counted(len(keys), 'key')}.",
        cell=(side, max(side, min(heatmap.CELL, MIN_MAP_HEIGHT / len(queries)))),
        max_label_length=12,
        image_key=f"{choice.key}{head.title}" if is_image else None,
    )


def _names(axis: Axis) -> list[str]:
    return [token_label(token) for token in axis.tokens]


def row_view(record: LookRecord, choice: Choice) -> list[Markup]:
    """What one query attends to, as bars."""
    method, head = _method(record, choice), _head(record, choice)
    number = _query(head, choice)
    queries = _names(head.queries)
    values = list(head.weights[number])
    note = f"{method.title} of {head.title} for query {number + 1}, {queries[number]}"
    shown = sorted(range(len(values)), key=lambda at: -abs(values[at]))[:MAX_BARS]
    if len(values) > MAX_BARS:
        note += f"; the {MAX_BARS} largest of {len(values)} keys"
    names = _names(head.keys)
    bars = [(names[at], values[at]) for at in sorted(shown)]
    return [note_block(note, choice), bar_chart(bars, width=choice.width)]


def _query(head: _Head, choice: Choice) -> int:
    count = len(head.queries.tokens)
    number = count if choice.query is None else choice.query
    if not 1 <= number <= count:
        raise RegardError(
            f"--query {number}: {head.maps.layer} has the queries 1 to {count}. Choose one of them."
        )
    return number - 1


def bar_chart(bars: Sequence[tuple[str, float]], *, width: float = WIDTH) -> Markup:
    """Horizontal bars with their names and numbers; negative ones in the second colour."""
    limit = max((abs(value) for _, value in bars), default=0.0) or 1.0
    left = max([40.0, *(text_width(name, font_size=FONT_SIZE) for name, _ in bars)])
    left = min(left, BAR_LABEL) + 2 * MARGIN
    room = width - left - BAR_NUMBER - MARGIN
    parts = []
    for number, (name, value) in enumerate(bars):
        y, length = BAR_HEIGHT * number + 2, room * abs(value) / limit
        base = y + BAR_HEIGHT / 2 + FONT_SIZE / 3
        class_ = "negative" if value < 0 else None
        shape = {"x": left, "y": y + 1, "width": max(length, 0.5), "height": BAR_HEIGHT - 4}
        parts += [
            element("text", truncate(name, 20), x=left - 6, y=base - 1, text_anchor="end"),
            element("rect", class_=class_, **shape),
            element("text", number_text(value, digits=2), x=left + length + 5, y=base - 1),
        ]
    return svg(
        element("g", *parts, class_="cells"),
        width=width,
        height=BAR_HEIGHT * len(bars) + MARGIN,
        class_="chart heatmap bars",
        aria_label=f"{counted(len(bars), 'bar')}; largest {number_text(limit, digits=3)}.",
    )


def arcs_view(record: LookRecord, choice: Choice) -> list[Markup]:
    """The map of one head as arcs from queries to keys; two rows of tokens if they are of two sequences."""
    method, head = _method(record, choice), _head(record, choice)
    queries, keys = _names(head.queries), _names(head.keys)
    if max(len(queries), len(keys)) > MAX_ARCS:
        raise RegardError(
            f"--view arcs: {head.maps.layer} has {len(queries)} queries and {len(keys)} keys; arcs are "
            f"drawn for at most {MAX_ARCS}. Use --view map."
        )
    same = head.maps.queries == head.maps.keys
    note = f"{method.title} of {head.title}; opacity: relative to the largest"
    draw = _arcs_above if same else _arcs_between
    return [note_block(note, choice), draw(queries, keys, head.weights, choice)]


def _arcs_above(
    queries: Sequence[str], _: Sequence[str], weights: Matrix, choice: Choice
) -> Markup:
    """Tokens in a line, with arcs above them; a query is the end with the dot."""
    places = _places(queries, choice)
    limit = heatmap.largest(weights)
    spans = [
        abs(places[i] - places[j])
        for i, row in enumerate(weights)
        for j, value in enumerate(row)
        if abs(value) >= MIN_ARC * limit
    ]
    base = max([24.0, *(span / 2 for span in spans)]) * 0.8 + 16
    parts = []
    for i, row in enumerate(weights):
        for j, value in enumerate(row):
            if abs(value) < MIN_ARC * limit:
                continue
            start, end = places[i], places[j]
            if i == j:
                path = f"M{start - 4:.1f} {base:.1f} C{start - 10:.1f} {base - 18:.1f} "
                path += f"{start + 10:.1f} {base - 18:.1f} {start + 4:.1f} {base:.1f}"
            else:
                reach, height = abs(end - start) / 2, abs(end - start) * 0.4
                sweep = 1 if end > start else 0
                path = f"M{start:.1f} {base:.1f} A{reach:.1f} {height:.1f} 0 0 {sweep} {end:.1f} {base:.1f}"
            title = f"{queries[i]} → {queries[j]}: {number_text(value, digits=3)}"
            parts.append(_arc(path, value, limit=limit, title=title))
    labels = _labels(queries, places, y=base + 8)
    return _arcs_svg(parts, labels, height=base + 8 + _label_height(queries), choice=choice)


def _arcs_between(
    queries: Sequence[str], keys: Sequence[str], weights: Matrix, choice: Choice
) -> Markup:
    """Keys in a line above, queries in a line below, and lines between them."""
    above, below = _places(keys, choice), _places(queries, choice)
    top = _label_height(keys)
    bottom, limit = top + 110.0, heatmap.largest(weights)
    parts = []
    for i, row in enumerate(weights):
        for j, value in enumerate(row):
            if abs(value) < MIN_ARC * limit:
                continue
            middle = (top + bottom) / 2
            path = f"M{below[i]:.1f} {bottom:.1f} C{below[i]:.1f} {middle:.1f} "
            path += f"{above[j]:.1f} {middle:.1f} {above[j]:.1f} {top:.1f}"
            title = f"{queries[i]} → {keys[j]}: {number_text(value, digits=3)}"
            parts.append(_arc(path, value, limit=limit, title=title))
    labels = [
        *_labels(keys, above, y=top - 6, is_above=True),
        *_labels(queries, below, y=bottom + 6),
    ]
    return _arcs_svg(parts, labels, height=bottom + 6 + _label_height(queries), choice=choice)


def _places(names: Sequence[str], choice: Choice) -> list[float]:
    step = min((choice.width - 2 * MARGIN) / len(names), 46.0)
    return [MARGIN + step * (number + 0.5) for number in range(len(names))]


def _label_height(names: Sequence[str]) -> float:
    return CHAR_WIDTH * min(max(map(len, names)), 16) + 14


def _labels(
    names: Sequence[str], places: Sequence[float], *, y: float, is_above: bool = False
) -> list[Markup]:
    turn, anchor = -90, None if is_above else "end"
    return [
        element(
            "text",
            truncate(name, 16),
            transform=f"translate({x + FONT_SIZE / 3:.1f} {y:.1f}) rotate({turn})",
            text_anchor=anchor,
        )
        for name, x in zip(names, places, strict=True)
    ]


def _arc(path: str, value: float, *, limit: float, title: str) -> Markup:
    share = min(abs(value) / limit, 1.0)
    return element(
        "path",
        element("title", title),
        class_="negative" if value < 0 else None,
        d=path,
        stroke_width=0.6 + 1.8 * share,
        stroke_opacity=0.08 + 0.92 * share,
    )


def _arcs_svg(
    parts: Sequence[Markup], labels: Sequence[Markup], *, height: float, choice: Choice
) -> Markup:
    return svg(
        element("g", *parts, class_="arcs"),
        *labels,
        width=choice.width,
        height=height,
        class_="chart heatmap",
        aria_label=f"{counted(len(parts), 'arc')} between tokens.",
    )


def heads_difference(one: LookRecord, other: LookRecord, choice: Choice) -> list[Markup]:
    """Differences of the tiles of heads that both have, on the same tokens."""
    mine, theirs = _layers(one, choice), _layers(other, choice)
    rows: dict[str, list[tuple[str, list[list[float]], float]]] = {}
    for name, maps in mine.items():
        found = theirs.get(name)
        if found is None or not _same_axes(one, other, maps, found):
            continue
        for head in maps.heads:
            if head in found.heads:
                difference = subtracted(maps.tile(head), found.tile(head))
                limit = heatmap.largest(difference)
                rows.setdefault(name, []).append((head, difference, limit))
    if not rows:
        return [note_block(no_difference(one, other), choice)]
    return [_tiles(rows, choice)]


def map_difference(one: LookRecord, other: LookRecord, choice: Choice) -> list[Markup]:
    """The difference of the map of one head."""
    mine, theirs = _head(one, choice), _head(other, choice)
    if not _same_axes(one, other, mine.maps, theirs.maps):
        return [note_block(no_difference(one, other), choice)]
    difference = subtracted(mine.weights, theirs.weights)
    limit = heatmap.largest(difference)
    ramp = heatmap.colour_ramp(number_text(limit, digits=2), signed=True)
    return [ramp, _map(mine, difference, limit=limit, choice=choice)]


def row_difference(one: LookRecord, other: LookRecord, choice: Choice) -> list[Markup]:
    """The difference of one row."""
    mine, theirs = _head(one, choice), _head(other, choice)
    if not _same_axes(one, other, mine.maps, theirs.maps):
        return [note_block(no_difference(one, other), choice)]
    number, names = _query(mine, choice), _names(mine.keys)
    (row,) = subtracted([mine.weights[number]], [theirs.weights[number]])
    shown = sorted(range(len(row)), key=lambda at: -abs(row[at]))[:MAX_BARS]
    return [bar_chart([(names[at], row[at]) for at in sorted(shown)], width=choice.width)]


def subtracted(one: Matrix, other: Matrix) -> list[list[float]]:
    """The difference of two matrices of one shape."""
    return [
        [a - b for a, b in zip(mine, theirs, strict=True)]
        for mine, theirs in zip(one, other, strict=True)
    ]


def _same_axes(one: LookRecord, other: LookRecord, mine: LayerMaps, theirs: LayerMaps) -> bool:
    pairs = ((mine.queries, theirs.queries), (mine.keys, theirs.keys))
    return all(one.axes[a].tokens == other.axes[b].tokens for a, b in pairs)


def no_difference(one: LookRecord, other: LookRecord) -> str:
    """Why there is none."""
    return (
        f"There is no difference of {printable(one.model)} and {printable(other.model)}: they have other "
        "tokens, layers or heads."
    )
