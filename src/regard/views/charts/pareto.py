"""Pareto charts: score against cost, one point per variant, with the Pareto front.

Variants on the front are filled points joined by a step line; dominated variants are rings. The line
through a point is the 95 % confidence interval of its score.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from regard.core.records.study import StudyRecord, VariantRecord
from regard.views.charts.axes import Box, Scale, fit_scale, grid, place_labels, truncate
from regard.views.charts.intervals import interval_scale
from regard.views.charts.variants import score_text, scored, variant_class, variant_number
from regard.views.pages.html import Markup, element, joined, svg
from regard.views.text.numbers import bytes_text, count_text, duration_text

# Costs within this ratio count as equal.
EQUAL_RATIO = 1.005


class CostMeasure(NamedTuple):
    """One kind of cost of a variant; `units` are names and sizes, ascending."""

    key: str
    name: str
    meaning: str
    number: Callable[[VariantRecord], float]
    format_number: Callable[[float], str]
    units: tuple[tuple[str, float], ...]

    def text(self, variant: VariantRecord) -> str:
        """The cost of a variant as text; a dash if unknown."""
        number = self.number(variant)
        return self.format_number(number) if number > 0 else "–"


_DECIMAL = (("", 1.0), ("thousand", 1e3), ("million", 1e6), ("10⁹", 1e9), ("10¹²", 1e12))

MEASURES = (
    CostMeasure(
        "flops",
        "FLOPs",
        "of one training run, counted on a sample of its batches",
        lambda variant: variant.flops or 0.0,
        lambda number: count_text(round(number)),
        (*_DECIMAL, ("10¹⁵", 1e15)),
    ),
    CostMeasure(
        "time",
        "time",
        "wall-clock training time of one run, without evaluations",
        lambda variant: variant.seconds or 0.0,
        duration_text,
        (("s", 1.0), ("minutes", 60.0), ("hours", 3600.0)),
    ),
    CostMeasure(
        "memory",
        "memory",
        "peak of the largest step, with parameters and optimizer state",
        lambda variant: float(variant.peak_bytes),
        lambda number: bytes_text(round(number)),
        (("bytes", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30)),
    ),
    CostMeasure(
        "parameters",
        "parameters",
        "trainable parameters",
        lambda variant: float(variant.parameters),
        lambda number: count_text(round(number)),
        _DECIMAL,
    ),
)


def unit_for(measure: CostMeasure, largest: float) -> tuple[str, float]:
    """The largest unit of which the number is at least two."""
    fitting = [unit for unit in measure.units if largest >= 2 * unit[1]]
    return fitting[-1] if fitting else measure.units[0]


def with_cost(record: StudyRecord, measure: CostMeasure) -> list[VariantRecord]:
    """Variants that have a score and this cost, best first; none before the study is finished."""
    variants = scored(record) if record.is_finished else []
    return [variant for variant in variants if measure.number(variant) > 0]


def all_equal(variants: list[VariantRecord], measure: CostMeasure) -> bool:
    """Whether all variants have the same cost, within `EQUAL_RATIO`."""
    numbers = [measure.number(variant) for variant in variants]
    return max(numbers) < EQUAL_RATIO * min(numbers)


def pareto_front(record: StudyRecord, measure: CostMeasure) -> list[VariantRecord]:
    """Variants that no other dominates in score and cost, by ascending cost."""
    sign = 1 if record.lower_is_better else -1

    def point(variant: VariantRecord) -> tuple[float, float]:
        return measure.number(variant), sign * (variant.mean or 0.0)

    found: list[VariantRecord] = []
    for variant in sorted(with_cost(record, measure), key=point):
        # Of variants with the same cost and score, none dominates the other.
        if (
            not found
            or point(variant)[1] < point(found[-1])[1]
            or point(variant) == point(found[-1])
        ):
            found.append(variant)
    return found


WIDTH, HEIGHT = 470.0, 360.0
LEFT, RIGHT, TOP, BOTTOM = 50.0, 456.0, 34.0, 312.0
MAX_LABEL_LENGTH = 22
# Costs that differ by more than this factor are drawn on a logarithmic scale.
LOG_SCALE_RATIO = 8.0


def pareto_chart(record: StudyRecord, measure: CostMeasure) -> Markup:
    """The chart as SVG; empty unless at least two variants differ in cost."""
    variants = with_cost(record, measure)
    if len(variants) < 2 or all_equal(variants, measure):
        return Markup("")
    numbers = [measure.number(variant) for variant in variants]
    unit, size = unit_for(measure, max(numbers))
    across = fit_scale(
        [number / size for number in numbers],
        start=LEFT,
        end=RIGHT,
        logarithmic=max(numbers) > LOG_SCALE_RATIO * min(numbers),
        padding=0.08,
    )
    up = interval_scale(
        [variant.mean or 0.0 for variant in variants],
        [(variant.low, variant.high) for variant in variants],
        start=BOTTOM,
        end=TOP,
    )
    assert up is not None
    front = pareto_front(record, measure)
    positions = {
        variant.name: (
            across.position(measure.number(variant) / size),
            up.position(variant.mean or 0.0),
        )
        for variant in variants
    }
    where = "down" if record.lower_is_better else "up"
    name = f"{measure.name}, {unit}" if unit else measure.name
    return svg(
        grid(across, up),
        element("text", record.primary.label, class_="unit", x=LEFT - 36, y=TOP - 14),
        element("text", name, class_="unit", x=RIGHT, y=BOTTOM + 40, text_anchor="end"),
        element(
            "text", f"best: {where} and left", class_="unit", x=RIGHT, y=TOP - 14, text_anchor="end"
        ),
        element(
            "path", d=_steps([positions[variant.name] for variant in front]), class_="pareto-front"
        ),
        *_points(record, measure, variants, front=front, positions=positions, up=up),
        width=WIDTH,
        height=HEIGHT,
        class_="chart pareto-chart",
        aria_label=f"{record.metric} against {measure.name} with Pareto front: "
        f"{', '.join(variant.name for variant in front)}.",
    )


def _steps(positions: list[tuple[float, float]]) -> str:
    """The front as a step line."""
    first, *others = positions
    path = f"M{first[0]:.1f} {first[1]:.1f}"
    for x, y in others:
        path += f" H{x:.1f} V{y:.1f}"
    return path


def _front_boxes(positions: list[tuple[float, float]]) -> list[Box]:
    """Bounding boxes of the step line, kept clear of labels."""
    found = []
    for (x, y), (next_x, next_y) in pairwise(positions):
        found.append(Box(x, y - 1, next_x, y + 1))
        found.append(Box(next_x - 1, min(y, next_y), next_x + 1, max(y, next_y)))
    return found


def _points(
    record: StudyRecord,
    measure: CostMeasure,
    variants: list[VariantRecord],
    *,
    front: list[VariantRecord],
    positions: dict[str, tuple[float, float]],
    up: Scale,
) -> list[Markup]:
    names = {variant.name for variant in front}
    ordered = [*front, *(variant for variant in variants if variant.name not in names)]
    texts = [truncate(variant.name, MAX_LABEL_LENGTH) for variant in ordered]
    labels = place_labels(
        [positions[variant.name] for variant in ordered],
        texts,
        within=Box(LEFT, TOP - 8, WIDTH, BOTTOM),
        num_priority=len(front),
        obstacles=_front_boxes([positions[variant.name] for variant in front]),
    )
    decimals, drawn = record.primary.digits, []
    for variant, text, label in zip(ordered, texts, labels, strict=True):
        x, y = positions[variant.name]
        on_front = variant.name in names
        title = f"{variant.name}: {record.metric} {score_text(variant.mean, decimals=decimals)}, "
        title += (
            f"{measure.text(variant)} {measure.name if measure.key == 'parameters' else ''}".strip()
        )
        parts = [element("title", f"{title}{', on the Pareto front' if on_front else ''}")]
        if variant.low is not None and variant.high is not None:
            low, high = up.position(up.clamp(variant.low)), up.position(up.clamp(variant.high))
            parts.append(element("line", class_="whisker", x1=x, x2=x, y1=low, y2=high))
        parts.append(
            element("circle", cx=x, cy=y, r=5.5, class_="on-front" if on_front else "dominated")
        )
        if label is not None:
            parts.append(element("text", text, x=label.x, y=label.y, text_anchor=label.anchor))
        group = element(
            "g",
            *parts,
            class_=f"point {variant_class(record, variant.name)}",
            data_variant=variant_number(record, variant.name),
        )
        drawn.append(group)
    # The front is drawn last, on top.
    return [joined(*drawn[len(front) :]), joined(*drawn[: len(front)])]


def pareto_section(record: StudyRecord) -> Markup:
    """One chart per cost; costs equal for all variants are listed. Empty with fewer than two scores."""
    charts, equal = [], []
    for measure in MEASURES:
        variants = with_cost(record, measure)
        if len(variants) < 2:
            continue
        if all_equal(variants, measure):
            equal.append(f"{measure.name} ({measure.text(variants[0])})")
            continue
        title = element(
            "figcaption",
            element("b", f"{measure.name[0].upper()}{measure.name[1:]}"),
            element("small", measure.meaning),
        )
        charts.append(element("figure", title, pareto_chart(record, measure)))
    if not charts and not equal:
        return Markup("")
    hint = (
        "Filled points are on the Pareto front: no other variant is better at the same or lower cost. "
        "Rings are dominated. The line through a point is its 95 % confidence interval. The front is "
        "computed from means; variants with overlapping intervals may swap."
    )
    parts = []
    if charts:
        parts += [
            element("p", hint, class_="hint"),
            element("div", *charts, class_="pareto-charts"),
        ]
    if equal:
        parts.append(element("p", f"The same for all variants: {', '.join(equal)}.", class_="hint"))
    return joined(*parts)
