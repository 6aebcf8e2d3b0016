"""Quality against cost: a point a variant, with the front of variants that no other beats for as little.

A variant on the front is a full point and the front a line; the others are rings. The line through a point
is the 95 % interval of its score.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from regard.core.records.study import StudyRecord, VariantRecord
from regard.views.charts.axes import (
    Box,
    Scale,
    label_places,
    scale_around,
    tick_across,
    tick_down,
    tick_text,
)
from regard.views.charts.intervals import shared_scale
from regard.views.charts.variants import (
    score_decimals,
    score_text,
    scored,
    shortened_name,
    variant_class,
    variant_number,
)
from regard.views.pages.html import Markup, element, joined
from regard.views.text.numbers import bytes_text, duration_text, humanised

# What a variant of a study may cost: each measure with its words, its number and its units.


# Figures that differ by less than this are one figure to a reader.
ALIKE = 1.005


class Measure(NamedTuple):
    """`units` are names and sizes, the smallest first; a chart takes the largest that fits."""

    key: str
    name: str
    meaning: str
    number: Callable[[VariantRecord], float]
    written: Callable[[float], str]
    units: tuple[tuple[str, float], ...]

    def text(self, variant: VariantRecord) -> str:
        """The figure of a variant; a dash where it is not known."""
        number = self.number(variant)
        return self.written(number) if number > 0 else "–"


_DECIMAL = (("", 1.0), ("thousand", 1e3), ("million", 1e6), ("10⁹", 1e9), ("10¹²", 1e12))

MEASURES = (
    Measure(
        "operations",
        "operations",
        "of one training, as the cost formulas count them",
        lambda variant: variant.operations or 0.0,
        lambda number: humanised(round(number)),
        (*_DECIMAL, ("10¹⁵", 1e15)),
    ),
    Measure(
        "time",
        "time",
        "of one training where it was run, evaluations included",
        lambda variant: variant.seconds or 0.0,
        duration_text,
        (("s", 1.0), ("minutes", 60.0), ("hours", 3600.0)),
    ),
    Measure(
        "memory",
        "memory",
        "of the largest step, with weights and moments",
        lambda variant: float(variant.peak_bytes),
        lambda number: bytes_text(round(number)),
        (("bytes", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30)),
    ),
    Measure(
        "parameters",
        "parameters",
        "numbers that are trained",
        lambda variant: float(variant.parameters),
        lambda number: humanised(round(number)),
        _DECIMAL,
    ),
)


def unit_for(measure: Measure, largest: float) -> tuple[str, float]:
    """The largest unit of which the number has at least two."""
    fitting = [unit for unit in measure.units if largest >= 2 * unit[1]]
    return fitting[-1] if fitting else measure.units[0]


def priced(record: StudyRecord, measure: Measure) -> list[VariantRecord]:
    """The variants that have a score and this figure, the best first."""
    return [variant for variant in scored(record) if measure.number(variant) > 0]


def all_alike(variants: list[VariantRecord], measure: Measure) -> bool:
    """Whether the figures are the same for a reader."""
    numbers = [measure.number(variant) for variant in variants]
    return max(numbers) < ALIKE * min(numbers)


def front(record: StudyRecord, measure: Measure) -> list[VariantRecord]:
    """The variants that no other beats in score without costing more, from cheap to dear."""
    sign = 1 if record.lower_is_better else -1
    cheap_first = sorted(
        priced(record, measure),
        key=lambda variant: (measure.number(variant), sign * (variant.mean or 0.0)),
    )
    found: list[VariantRecord] = []
    for variant in cheap_first:
        if not found or sign * (variant.mean or 0.0) < sign * (found[-1].mean or 0.0):
            found.append(variant)
    return found


WIDTH, HEIGHT = 470.0, 360.0
LEFT, RIGHT, TOP, BOTTOM = 50.0, 456.0, 34.0, 312.0
LONGEST_LABEL = 22
# Costs that lie further apart than this are drawn on a logarithmic scale.
FAR_APART = 8.0


def front_chart(record: StudyRecord, measure: Measure) -> Markup:
    """The chart; nothing where there are not two variants whose costs differ."""
    variants = priced(record, measure)
    if len(variants) < 2 or all_alike(variants, measure):
        return Markup("")
    numbers = [measure.number(variant) for variant in variants]
    unit, size = unit_for(measure, max(numbers))
    across = scale_around(
        [number / size for number in numbers],
        start=LEFT,
        end=RIGHT,
        logarithmic=max(numbers) > FAR_APART * min(numbers),
        air=0.08,
    )
    up = shared_scale(
        [variant.mean or 0.0 for variant in variants],
        [(variant.low, variant.high) for variant in variants],
        start=BOTTOM,
        end=TOP,
    )
    assert up is not None
    best = front(record, measure)
    places = {
        variant.name: (across.place(measure.number(variant) / size), up.place(variant.mean or 0.0))
        for variant in variants
    }
    stairs = [places[variant.name] for variant in best]
    where = "down" if record.lower_is_better else "up"
    name = f"{measure.name}, {unit}" if unit else measure.name
    return element(
        "svg",
        *(
            tick_across(across.place(t), tick_text(t), top=TOP, bottom=BOTTOM)
            for t in across.ticks()
        ),
        *(
            tick_down(up.place(tick), tick_text(tick), left=LEFT, right=RIGHT)
            for tick in up.ticks()
        ),
        element("text", record.metric, class_="unit", x=LEFT - 36, y=TOP - 14),
        element("text", name, class_="unit", x=RIGHT, y=BOTTOM + 40, text_anchor="end"),
        element(
            "text", f"best: {where} and left", class_="unit", x=RIGHT, y=TOP - 14, text_anchor="end"
        ),
        element("path", d=_steps(stairs), class_="front"),
        *_points(record, measure, variants, best=best, places=places, up=up),
        viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}",
        class_="chart front-chart",
        role="img",
        aria_label=f"{record.metric} against {measure.name}. On the front: "
        f"{', '.join(variant.name for variant in best)}.",
    )


def _steps(places: list[tuple[float, float]]) -> str:
    """The stairs that the front makes: what is reached for at most that much."""
    first, *others = places
    path = f"M{first[0]:.1f} {first[1]:.1f}"
    for x, y in others:
        path += f" H{x:.1f} V{y:.1f}"
    return path


def _taken(stairs: list[tuple[float, float]]) -> list[Box]:
    """Where the front runs, so that no name is written over it."""
    found = []
    for (x, y), (then, level) in pairwise(stairs):
        found.append(Box(x, y - 1, then, y + 1))
        found.append(Box(then - 1, min(y, level), then + 1, max(y, level)))
    return found


def _points(
    record: StudyRecord,
    measure: Measure,
    variants: list[VariantRecord],
    *,
    best: list[VariantRecord],
    places: dict[str, tuple[float, float]],
    up: Scale,
) -> list[Markup]:
    names = {variant.name for variant in best}
    ordered = [*best, *(variant for variant in variants if variant.name not in names)]
    texts = [shortened_name(variant.name, LONGEST_LABEL) for variant in ordered]
    labels = label_places(
        [places[variant.name] for variant in ordered],
        texts,
        within=Box(LEFT, TOP - 8, WIDTH, BOTTOM),
        keen=len(best),
        taken=_taken([places[variant.name] for variant in best]),
    )
    decimals, drawn = score_decimals(record), []
    for variant, text, label in zip(ordered, texts, labels, strict=True):
        x, y = places[variant.name]
        on_front = variant.name in names
        title = f"{variant.name}: {record.metric} {score_text(variant.mean, decimals=decimals)}, "
        title += (
            f"{measure.text(variant)} {measure.name if measure.key == 'parameters' else ''}".strip()
        )
        parts = [element("title", f"{title}{', on the front' if on_front else ''}")]
        if variant.low is not None and variant.high is not None:
            low, high = up.place(up.held(variant.low)), up.place(up.held(variant.high))
            parts.append(element("line", class_="whisker", x1=x, x2=x, y1=low, y2=high))
        parts.append(element("circle", cx=x, cy=y, r=5.5, class_="full" if on_front else "ring"))
        if label is not None:
            parts.append(element("text", text, x=label.x, y=label.y, text_anchor=label.anchor))
        group = element(
            "g",
            *parts,
            class_=f"point {variant_class(record, variant.name)}",
            data_variant=variant_number(record, variant.name),
        )
        drawn.append(group)
    # The front is drawn last, so that it lies on top.
    return [joined(*drawn[len(best) :]), joined(*drawn[: len(best)])]


# The charts of quality against each cost, side by side; a cost that is the same for all is a
# sentence.


def front_section(record: StudyRecord) -> Markup:
    """The charts and sentences; nothing where fewer than two variants have a score."""
    charts, alike = [], []
    for measure in MEASURES:
        variants = priced(record, measure)
        if len(variants) < 2:
            continue
        if all_alike(variants, measure):
            alike.append(f"{measure.name} ({measure.text(variants[0])})")
            continue
        title = element(
            "figcaption",
            element("b", measure.name.capitalize()),
            element("small", measure.meaning),
        )
        charts.append(element("figure", title, front_chart(record, measure)))
    if not charts and not alike:
        return Markup("")
    words = (
        "A full point is on the front: no variant scores better for as little. A ring is beaten by "
        "another variant; the line through a point is its 95 % interval. The front goes by means, and "
        "neighbours whose intervals overlap may change places."
    )
    parts = []
    if charts:
        parts += [element("p", words, class_="hint"), element("div", *charts, class_="fronts")]
    if alike:
        parts.append(element("p", f"The same for all variants: {', '.join(alike)}.", class_="hint"))
    return joined(*parts)
