"""The charts of a study as SVG files: those of its page, on white, with the colours of the light page.

The files hold no variables of a style sheet, which programs for drawing and typesetting do not know.
"""

from __future__ import annotations

import re
from pathlib import Path

from regard.core.study_record import ArmRecord, StudyRecord
from regard.core.whole_file import write_whole
from regard.views.arm_table import score_marks, score_scale
from regard.views.cost_measures import MEASURES
from regard.views.dot_row import grid_lines, tick_row
from regard.views.front_chart import front_chart
from regard.views.markup import Markup, element, joined
from regard.views.page import asset
from regard.views.study_arms import (
    baseline_of,
    interval_text,
    score_decimals,
    score_text,
    scored,
    shortened_name,
)
from regard.views.study_curves import AXES, curves_chart

NAMESPACE = "http://www.w3.org/2000/svg"
# Where the style sheet of the page goes on to what is around the charts.
END_OF_CHARTS = "/* The page around the charts."
FONTS = {"sans": "Helvetica, Arial, sans-serif"}
# The chart of scores: names, rows, figures.
WIDTH, ROW, TOP, LEFT, RIGHT, LONGEST_NAME = 720.0, 30.0, 54.0, 190.0, 540.0, 26


def write_figures(record: StudyRecord, folder: Path) -> list[Path]:
    """Write every chart that the study has something for; the paths of the files, in that order."""
    charts = {"scores": scores_chart(record)}
    charts |= {f"front-{measure.key}": front_chart(record, measure) for measure in MEASURES}
    curves = {axis.key: curves_chart(record, axis) for axis in AXES}
    charts |= {"curves" if key == "steps" else f"curves-{key}": curves[key] for key in curves}
    written = []
    for name, chart in charts.items():
        if chart:
            path = folder / f"{name}.svg"
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, standalone(chart).encode())
            written.append(path)
    return written


def scores_chart(record: StudyRecord) -> Markup:
    """The scores of all arms on one axis, the best first; nothing where no arm has one."""
    scale = score_scale(record, start=LEFT + 12, end=RIGHT - 12)
    arms = scored(record)
    if scale is None:
        return Markup("")
    bottom, baseline = TOP + ROW * len(arms), baseline_of(record)
    better = "lower is better" if record.lower_is_better else "higher is better"
    seeds = "" if len(record.seeds) == 1 else "; dots: seeds, bar: mean, line: 95 % interval"
    held = f"; broken: {baseline.name}" if baseline and len(arms) > 1 else ""
    return element(
        "svg",
        element("text", f"{record.metric} on {record.part}, {better}{seeds}{held}", x=12, y=22),
        tick_row(scale, below=TOP - 8),
        grid_lines(scale, top=TOP, bottom=bottom, at=baseline.mean if baseline else None),
        *(_row(record, arm, TOP + ROW * (place + 0.5)) for place, arm in enumerate(arms)),
        *(
            score_marks(record, arm, scale, middle=TOP + ROW * (place + 0.5))
            for place, arm in enumerate(arms)
        ),
        viewBox=f"0 0 {WIDTH:.0f} {bottom + 14:.0f}",
        class_="chart dots",
        role="img",
        aria_label=f"{record.metric} of {len(arms)} arms",
    )


def _row(record: StudyRecord, arm: ArmRecord, middle: float) -> Markup:
    decimals = score_decimals(record)
    within = interval_text(arm.low, arm.high, decimals=decimals)
    score = score_text(arm.mean, decimals=decimals)
    figures = f"{score}  ({within})" if within else score
    name = shortened_name(arm.name, LONGEST_NAME)
    return joined(
        element("text", name, x=LEFT - 8, y=middle + 4, text_anchor="end"),
        element("text", figures, x=RIGHT + 8, y=middle + 4),
    )


def standalone(chart: Markup) -> str:
    """A chart of the page as the text of an SVG file."""
    found = re.search(r'viewBox="0 0 (\S+) (\S+)"', chart)
    assert found is not None
    width, height = found.groups()
    opening = f'<svg xmlns="{NAMESPACE}" width="{width}" height="{height}"'
    ground = element("rect", class_="sheet", width=width, height=height)
    head = joined(element("style", Markup(_style())), ground)
    end = chart.index(">") + 1
    return f"{opening}{chart[len('<svg') : end]}{head}{chart[end:]}\n"


def _style() -> str:
    """The rules for charts, with the colours in the place of their names."""
    sheet = asset("study.css")
    # The colours of the dark page stand after those of the light one.
    light = [asset("page.css").partition("@media")[0], sheet.partition("@media")[0]]
    colours = dict(re.findall(r"--([\w-]+): ([^;]+);", "".join(light))) | FONTS
    colours |= {"ground": "#ffffff", "card": "#ffffff"}
    charts = sheet[sheet.index(".arm-0") : sheet.index(END_OF_CHARTS)]
    ruled = re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]], charts)
    return f".sheet {{ fill: #ffffff; }}\n{ruled}"
