"""An image with the attention over it, and the feature maps of a convolution.

    image      mean      hop 1      hop 2
    ┌────┐    ┌────┐    ┌────┐    ┌────┐
    │ 7  │    │ ▓░ │    │ ▓  │    │ ░▒ │    weights of the patches over the image in grey
    └────┘    └────┘    └────┘    └────┘

The map of a hop is stretched over the whole image: a cell is a patch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from regard.core.formatting import (
    counted,
    number_text,
    percent_text,
    printable,
    truncate,
)
from regard.core.records.image import ClassifiedImage, FeatureMaps, ImageRecord, Map
from regard.views.charts.figure_file import write_figure
from regard.views.charts.heatmap import colour_ramp, image_cells, largest, weight_limit
from regard.views.charts.svg import Attribute, element, joined, png_uri, svg, text_block, titled

SIDE, MAP_SIDE, GAP, CAPTION = 136.0, 64.0, 12.0, 17.0
COLUMNS, MAP_COLUMNS = 6, 8
# The image below the weights is faded, and they are translucent, so that both can be seen.
VEIL, HEAT = 0.82, 0.9
MAX_PIXELATED = 64  # smaller images have visible pixels
MAX_NAME, MAX_LABELS = 60, 5


class Panel(NamedTuple):
    """What is drawn at the origin, and its caption."""

    caption: str
    content: Markup
    title: str


def shown_maps(record: ClassifiedImage) -> dict[str, Map]:
    """The map of every hop by name, after their mean if there are several."""
    if len(record.attention) == 1:
        return {"weight": record.attention[0]}
    names = [f"hop {number}" for number in range(1, len(record.attention) + 1)]
    return {"mean": record.mean_attention(), **dict(zip(names, record.attention, strict=True))}


def limit_of(maps: Sequence[Map]) -> float:
    """The largest weight of maps, which is drawn at full opacity."""
    return largest([row for each in maps for row in each])


def image_chart(image: ImageRecord) -> Markup:
    """The image alone."""
    return _chart([_picture(image)], image, description=f"Image {image.name}.")


def attention_chart(
    record: ClassifiedImage,
    image: ImageRecord,
    *,
    limit: float | None = None,
    is_mean: bool = False,
    key: str = "",
) -> Markup:
    """The image, then the weights of every hop over it; or their mean alone. `key` as of `image_levels`."""
    maps = shown_maps(record)
    if is_mean:
        maps = dict([next(iter(maps.items()))])
    limit = limit or limit_of(list(maps.values()))
    panels = [] if is_mean else [_picture(image)]
    panels += [_heat(name, each, image, limit=limit, key=key) for name, each in maps.items()]
    rows, columns = len(record.attention[0]), len(record.attention[0][0])
    return _chart(
        panels,
        image,
        description=f"Image {image.name} with the weights of {rows}×{columns} patches in "
        f"{counted(len(record.attention), 'hop')}, predicted {record.label}. "
        + " ".join(f"{each.title}." for each in panels if each.title),
    )


def feature_maps_chart(features: FeatureMaps, image: ImageRecord) -> Markup:
    """Feature maps on one grey scale, from the lowest value (black) to the highest (white)."""
    width, height = _size(features.width, features.height, MAP_SIDE)
    panels = [
        Panel(str(number), _pixels(rows, width=width, height=height), f"map {number}")
        for number, rows in enumerate(features.maps(), start=1)
    ]
    return _grid(
        panels,
        width=width,
        height=height,
        columns=MAP_COLUMNS,
        description=f"{counted(features.count, 'feature map')} of {image.name}.",
    )


def scale_text(features: FeatureMaps) -> str:
    """The values of black and white."""
    low, high = (number_text(value, digits=3) for value in (features.low, features.high))
    return f"black is {low}, white is {high}"


def probabilities_text(record: ClassifiedImage) -> str:
    """The most probable labels."""
    ranked = sorted(record.probabilities.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{label} {percent_text(each)}" for label, each in ranked[:MAX_LABELS])
    rest = len(ranked) - MAX_LABELS
    return f"{shown}; {rest} more" if rest > 0 else shown


def attention_ramp(maps: Sequence[Map]) -> Markup:
    """The colour scale of maps."""
    rows = [row for each in maps for row in each]
    return colour_ramp(number_text(largest(rows), digits=2), signed=weight_limit([rows])[1])


def hops_text(record: ClassifiedImage) -> str:
    """The number of hops and patches, and the weight that all patches would have if they were equal."""
    rows, columns = len(record.attention[0]), len(record.attention[0][0])
    return (
        f"{counted(len(record.attention), 'hop')} over {rows}×{columns} patches; "
        f"{number_text(1 / (rows * columns), digits=2)} is uniform"
    )


def draw_image(record: ClassifiedImage, *, path: Path) -> None:
    """Draw an image with the attention over it, or its feature maps, to `path`, an .svg or .png file."""
    image = record.image
    assert image is not None
    heading = f"{image.name} → {record.label}"
    title = text_block(truncate(printable(heading), MAX_NAME), max_width=700.0, title=True)
    parts = []
    if record.attention:
        note = text_block(f"weights: {hops_text(record)}")
        ramp = attention_ramp(list(shown_maps(record).values()))
        parts += [note, ramp, attention_chart(record, image)]
    if record.feature_maps:
        note = text_block(f"feature maps: {scale_text(record.feature_maps)}")
        parts += [note, image_chart(image), feature_maps_chart(record.feature_maps, image)]
    write_figure(title, *parts, path=path)


def _size(width: int, height: int, side: float) -> tuple[float, float]:
    """Width and height whose longer side is `side`."""
    scale = side / max(width, height)
    return scale * width, scale * height


def _pixels(rows: Sequence[bytes], *, width: float, height: float, channels: int = 1) -> Markup:
    is_small = max(len(rows), len(rows[0]) // channels) <= MAX_PIXELATED
    return element(
        "image",
        href=png_uri(rows, channels=channels),
        width=width,
        height=height,
        preserveAspectRatio="none",
        image_rendering="optimizeSpeed" if is_small else None,
        style="image-rendering:pixelated" if is_small else None,
    )


def _picture(image: ImageRecord) -> Panel:
    width, height = _size(image.width, image.height, SIDE)
    pixels = _pixels(image.rows(), width=width, height=height, channels=image.channels)
    return Panel("image", pixels, "")


def _heat(name: str, weights: Map, image: ImageRecord, *, limit: float, key: str) -> Panel:
    width, height = _size(image.width, image.height, SIDE)
    cells = image_cells(
        weights,
        limit=limit,
        key=f"{key}{name}",
        has_ground=False,
        x=0.0,
        y=0.0,
        width=width,
        height=height,
    )
    veil: dict[str, Attribute] = {"width": width, "height": height, "fill_opacity": VEIL}
    content = joined(
        _pixels(image.grey_rows(), width=width, height=height),
        element("rect", class_="veil", **veil),
        element("g", cells, opacity=HEAT),
    )
    places = [(row, column) for row in range(len(weights)) for column in range(len(weights[0]))]
    row, column = max(places, key=lambda at: weights[at[0]][at[1]])
    peak = number_text(weights[row][column], digits=2)
    where = f"row {row + 1}, column {column + 1}"
    return Panel(name, content, f"{name}: largest weight {peak} at {where}")


def _chart(panels: Sequence[Panel], image: ImageRecord, *, description: str) -> Markup:
    width, height = _size(image.width, image.height, SIDE)
    return _grid(panels, width=width, height=height, columns=COLUMNS, description=description)


def _grid(
    panels: Sequence[Panel], *, width: float, height: float, columns: int, description: str
) -> Markup:
    """Panels of one size with their captions above, row by row."""
    across, down = max(width, 48.0) + GAP, height + CAPTION + GAP
    placed = []
    for number, panel in enumerate(panels):
        x, y = across * (number % columns) + GAP, down * (number // columns)
        shown = element("g", panel.content, transform=f"translate({x:.1f} {y + CAPTION:.1f})")
        caption = element("text", panel.caption, x=x, y=y + CAPTION - 5, aria_hidden="true")
        placed.append(joined(caption, titled(panel.title, shown) if panel.title else shown))
    rows = -(-len(panels) // columns)
    whole = across * min(len(panels), columns) + GAP
    return svg(
        *placed,
        width=whole,
        height=down * rows,
        class_="chart heatmap image-chart",
        style=f"max-width:{1.3 * whole:.0f}px",
        aria_label=description,
    )
