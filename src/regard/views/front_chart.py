"""Quality against cost: a point an arm, with the front of arms that no other beats for as little.

An arm on the front is a full point and the front a line; the others are rings. The line through a point
is the 95 % interval of its score.
"""

from __future__ import annotations

from itertools import pairwise

from regard.core.study_record import ArmRecord, StudyRecord
from regard.views.chart_scale import Scale, scale_around, tick_text
from regard.views.chart_ticks import tick_across, tick_down
from regard.views.cost_measures import Measure, all_alike, front, priced, unit_for
from regard.views.dot_row import shared_scale
from regard.views.label_places import Box, label_places
from regard.views.markup import Markup, element, joined
from regard.views.study_arms import (
    arm_class,
    arm_number,
    score_decimals,
    score_text,
    shortened_name,
)

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
