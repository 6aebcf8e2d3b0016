"""Quality against cost: a point an arm, with the front of arms that no other beats for as little.

An arm on the front is a full point and the front a line; the others are rings. The line through a point
is the 95 % interval of its score.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from regard.core.records.study import ArmRecord, StudyRecord
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
    arm_class,
    arm_number,
    score_decimals,
    score_text,
    scored,
    shortened_name,
)
from regard.views.pages.html import Markup, element, joined
from regard.views.text.numbers import bytes_text, duration_text, humanised

# What an arm of a study may cost: each measure with its words, its number and its units.


# Figures that differ by less than this are one figure to a reader.
ALIKE = 1.005


class Measure(NamedTuple):
    """`units` are names and sizes, the smallest first; a chart takes the largest that fits."""

    key: str
    name: str
    meaning: str
    number: Callable[[ArmRecord], float]
    written: Callable[[float], str]
    units: tuple[tuple[str, float], ...]

    def text(self, arm: ArmRecord) -> str:
        """The figure of an arm; a dash where it is not known."""
        number = self.number(arm)
        return self.written(number) if number > 0 else "–"


_DECIMAL = (("", 1.0), ("thousand", 1e3), ("million", 1e6), ("10⁹", 1e9), ("10¹²", 1e12))

MEASURES = (
    Measure(
        "operations",
        "operations",
        "of one training, as the cost formulas count them",
        lambda arm: arm.operations or 0.0,
        lambda number: humanised(round(number)),
        (*_DECIMAL, ("10¹⁵", 1e15)),
    ),
    Measure(
        "time",
        "time",
        "of one training where it was run, evaluations included",
        lambda arm: arm.seconds or 0.0,
        duration_text,
        (("s", 1.0), ("minutes", 60.0), ("hours", 3600.0)),
    ),
    Measure(
        "memory",
        "memory",
        "of the largest step, with weights and moments",
        lambda arm: float(arm.peak_bytes),
        lambda number: bytes_text(round(number)),
        (("bytes", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30)),
    ),
    Measure(
        "parameters",
        "parameters",
        "numbers that are trained",
        lambda arm: float(arm.parameters),
        lambda number: humanised(round(number)),
        _DECIMAL,
    ),
)


def unit_for(measure: Measure, largest: float) -> tuple[str, float]:
    """The largest unit of which the number has at least two."""
    fitting = [unit for unit in measure.units if largest >= 2 * unit[1]]
    return fitting[-1] if fitting else measure.units[0]


def priced(record: StudyRecord, measure: Measure) -> list[ArmRecord]:
    """The arms that have a score and this figure, the best first."""
    return [arm for arm in scored(record) if measure.number(arm) > 0]


def all_alike(arms: list[ArmRecord], measure: Measure) -> bool:
    """Whether the figures are the same for a reader."""
    numbers = [measure.number(arm) for arm in arms]
    return max(numbers) < ALIKE * min(numbers)


def front(record: StudyRecord, measure: Measure) -> list[ArmRecord]:
    """The arms that no other beats in score without costing more, from cheap to dear."""
    sign = 1 if record.lower_is_better else -1
    cheap_first = sorted(
        priced(record, measure), key=lambda arm: (measure.number(arm), sign * (arm.mean or 0.0))
    )
    found: list[ArmRecord] = []
    for arm in cheap_first:
        if not found or sign * (arm.mean or 0.0) < sign * (found[-1].mean or 0.0):
            found.append(arm)
    return found


WIDTH, HEIGHT = 470.0, 360.0
LEFT, RIGHT, TOP, BOTTOM = 50.0, 456.0, 34.0, 312.0
LONGEST_LABEL = 22
# Costs that lie further apart than this are drawn on a logarithmic scale.
FAR_APART = 8.0


def front_chart(record: StudyRecord, measure: Measure) -> Markup:
    """The chart; nothing where there are not two arms whose costs differ."""
    arms = priced(record, measure)
    if len(arms) < 2 or all_alike(arms, measure):
        return Markup("")
    numbers = [measure.number(arm) for arm in arms]
    unit, size = unit_for(measure, max(numbers))
    across = scale_around(
        [number / size for number in numbers],
        start=LEFT,
        end=RIGHT,
        logarithmic=max(numbers) > FAR_APART * min(numbers),
        air=0.08,
    )
    up = shared_scale(
        [arm.mean or 0.0 for arm in arms],
        [(arm.low, arm.high) for arm in arms],
        start=BOTTOM,
        end=TOP,
    )
    assert up is not None
    best = front(record, measure)
    places = {
        arm.name: (across.place(measure.number(arm) / size), up.place(arm.mean or 0.0))
        for arm in arms
    }
    stairs = [places[arm.name] for arm in best]
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
        *_points(record, measure, arms, best=best, places=places, up=up),
        viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}",
        class_="chart front-chart",
        role="img",
        aria_label=f"{record.metric} against {measure.name}. On the front: "
        f"{', '.join(arm.name for arm in best)}.",
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
    arms: list[ArmRecord],
    *,
    best: list[ArmRecord],
    places: dict[str, tuple[float, float]],
    up: Scale,
) -> list[Markup]:
    names = {arm.name for arm in best}
    ordered = [*best, *(arm for arm in arms if arm.name not in names)]
    texts = [shortened_name(arm.name, LONGEST_LABEL) for arm in ordered]
    labels = label_places(
        [places[arm.name] for arm in ordered],
        texts,
        within=Box(LEFT, TOP - 8, WIDTH, BOTTOM),
        keen=len(best),
        taken=_taken([places[arm.name] for arm in best]),
    )
    decimals, drawn = score_decimals(record), []
    for arm, text, label in zip(ordered, texts, labels, strict=True):
        x, y = places[arm.name]
        on_front = arm.name in names
        title = f"{arm.name}: {record.metric} {score_text(arm.mean, decimals=decimals)}, "
        title += (
            f"{measure.text(arm)} {measure.name if measure.key == 'parameters' else ''}".strip()
        )
        parts = [element("title", f"{title}{', on the front' if on_front else ''}")]
        if arm.low is not None and arm.high is not None:
            low, high = up.place(up.held(arm.low)), up.place(up.held(arm.high))
            parts.append(element("line", class_="whisker", x1=x, x2=x, y1=low, y2=high))
        parts.append(element("circle", cx=x, cy=y, r=5.5, class_="full" if on_front else "ring"))
        if label is not None:
            parts.append(element("text", text, x=label.x, y=label.y, text_anchor=label.anchor))
        group = element(
            "g",
            *parts,
            class_=f"point {arm_class(record, arm.name)}",
            data_arm=arm_number(record, arm.name),
        )
        drawn.append(group)
    # The front is drawn last, so that it lies on top.
    return [joined(*drawn[len(best) :]), joined(*drawn[: len(best)])]


# The charts of quality against each cost, side by side; a cost that is the same for all is a
# sentence.


def front_section(record: StudyRecord) -> Markup:
    """The charts and sentences; nothing where fewer than two arms have a score."""
    charts, alike = [], []
    for measure in MEASURES:
        arms = priced(record, measure)
        if len(arms) < 2:
            continue
        if all_alike(arms, measure):
            alike.append(f"{measure.name} ({measure.text(arms[0])})")
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
        "A full point is on the front: no arm scores better for as little. A ring is beaten by "
        "another arm; the line through a point is its 95 % interval. The front goes by means, and "
        "neighbours whose intervals overlap may change places."
    )
    parts = []
    if charts:
        parts += [element("p", words, class_="hint"), element("div", *charts, class_="fronts")]
    if alike:
        parts.append(element("p", f"The same for all arms: {', '.join(alike)}.", class_="hint"))
    return joined(*parts)
