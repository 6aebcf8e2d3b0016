"""How far each arm's attention agrees with known alignments: a row an arm, on one axis."""

from __future__ import annotations

from regard.core.study_record import ArmRecord, StudyRecord
from regard.views.chart_scale import Scale, scale_around
from regard.views.dot_row import HEIGHT, SIDE, WIDTH, dot_row, grid_lines, row_picture, tick_row
from regard.views.markup import Markup, element, joined
from regard.views.study_arms import arm_class, arm_label, arm_number, interval_text

AXIS_HEIGHT = 26.0


def agreement_chart(record: StudyRecord) -> Markup:
    """The arms of which it is known, the best agreement first; nothing where it is of none."""
    arms = sorted(
        (arm for arm in record.arms if arm.agreement is not None),
        key=lambda arm: -(arm.agreement or 0.0),
    )
    if not arms:
        return Markup("")
    ends = [
        100 * end
        for arm in arms
        for end in (arm.agreement, arm.agreement_low, arm.agreement_high)
        if end is not None
    ]
    held = [min(max(end, 0.0), 100.0) for end in ends]
    around = scale_around(held, start=SIDE, end=WIDTH - SIDE)
    scale = around._replace(high=min(around.high, 100.0))
    axis = joined(
        element("span", "agreement, %", class_="axis-name"),
        row_picture(tick_row(scale, below=AXIS_HEIGHT - 6), height=AXIS_HEIGHT),
    )
    headings = [
        element("th", "arm", scope="col"),
        element("th", axis, scope="col", class_="drawn-cell"),
        element("th", "mean and 95 % interval", scope="col"),
    ]
    return element(
        "table",
        element("thead", element("tr", *headings)),
        element("tbody", *(_row(record, arm, scale) for arm in arms)),
        class_="cards agreement",
    )


def _row(record: StudyRecord, arm: ArmRecord, scale: Scale) -> Markup:
    agreement, low, high = (
        None if share is None else 100 * share
        for share in (arm.agreement, arm.agreement_low, arm.agreement_high)
    )
    assert agreement is not None
    within = interval_text(low, high, decimals=1)
    said = f"{agreement:.1f} %"
    marks = dot_row(
        scale,
        middle=HEIGHT / 2,
        mean=None,
        low=low,
        high=high,
        dots=[(f"{arm.name}: {said}", agreement)],
    )
    drawn = row_picture(
        grid_lines(scale, top=0.0, bottom=HEIGHT),
        element(
            "g", marks, class_=arm_class(record, arm.name), data_arm=arm_number(record, arm.name)
        ),
        aria_label=f"{arm.name}: {said}" + (f", 95 % interval {within}" if within else ""),
    )
    return element(
        "tr",
        element("th", arm_label(record, arm.name), scope="row"),
        element("td", drawn, class_="drawn-cell"),
        element("td", element("b", said), " ", element("small", within)),
    )
