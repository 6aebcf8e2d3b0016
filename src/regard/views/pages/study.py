"""The page of a study: the question and the verdict, then what they rest on, then how to repeat it."""

from __future__ import annotations

import re
from pathlib import Path

from regard.core.atomic_write import write_whole
from regard.core.records.study import StudyRecord, VariantRecord
from regard.views.charts.heatmap import attention_columns
from regard.views.charts.intervals import agreement_chart, grid_lines, tick_row
from regard.views.charts.learning_curves import AXES, curves_chart
from regard.views.charts.pareto import MEASURES, front_chart, front_section
from regard.views.charts.variants import (
    baseline_of,
    counted,
    interval_text,
    score_decimals,
    score_text,
    scored,
    shortened_name,
    variant_label,
)
from regard.views.pages.html import Markup, asset, chooser, element, joined, page
from regard.views.pages.pairwise_table import NO_CLAIM, pair_tables
from regard.views.pages.study_tables import (
    disagreement_table,
    run_table,
    score_marks,
    score_scale,
    settings_table,
    trouble_list,
    variant_table,
)

SECTIONS = {
    "variants": "The variants",
    "method": "The method, over seeds",
    "models": "These models, on other items",
    "front": "Quality against cost",
    "curves": "How they learned",
    "items": "Where they disagree",
    "attention": "What they read",
    "agreement": "Agreement with known alignments",
    "trouble": "What went wrong",
    "repeat": "How to repeat it",
}


def study_page(record: StudyRecord) -> str:
    """The text of an HTML file that shows all of a study; what it has nothing of is left out."""
    contents = {
        "variants": _variants(record),
        "method": _method(record),
        "models": _models(record),
        "front": front_section(record),
        "curves": _curves(record),
        "items": _items(record),
        "attention": _attention(record),
        "agreement": _agreement(record),
        "trouble": _trouble(record),
        "repeat": _repeat(record),
    }
    there = {anchor: content for anchor, content in contents.items() if content}
    main = element("main", *(_section(anchor, content) for anchor, content in there.items()))
    foot = element("footer", element("p", "Made by regard. One file, and it fetches nothing."))
    return page(
        title=record.question or record.name,
        body=[_headline(record, list(there)), main, foot],
        kind="study",
    )


def _headline(record: StudyRecord, anchors: list[str]) -> Markup:
    links = [element("a", SECTIONS[anchor], href=f"#{anchor}") for anchor in anchors]
    return element(
        "header",
        element("p", f"regard study · {record.name}", class_="kicker"),
        element("h1", record.question or record.name),
        element("div", *(element("p", text) for text in record.headline), class_="verdicts-lead"),
        element("p", _in_one_line(record), class_="given"),
        element("nav", *links, aria_label="Sections"),
        class_="headline study",
    )


def _in_one_line(record: StudyRecord) -> Markup:
    better = "lower" if record.lower_is_better else "higher"
    parts = [
        f"{counted(len(record.variants), 'variant')} × {counted(len(record.seeds), 'seed')}",
        f"{record.task}, {counted(record.items, 'item')} of {record.part}",
        f"{record.metric}, {better} is better",
        *(text.rstrip(".") for text in (record.budget, record.tries, record.matched) if text),
    ]
    return joined(*(element("span", part) for part in parts))


def _section(anchor: str, content: Markup) -> Markup:
    heading = element("h2", SECTIONS[anchor], id=f"{anchor}-heading")
    return element("section", heading, content, id=anchor, aria_labelledby=f"{anchor}-heading")


def _variants(record: StudyRecord) -> Markup:
    if not record.variants:
        return Markup("")
    several = len(record.seeds) > 1
    words = (
        "A dot is a seed, the bar their mean, the line its 95 % interval"
        if several
        else ("A dot is the run of the one seed, so there is no interval")
    )
    held = (
        "; the broken line is the baseline"
        if len(record.variants) > 1 and baseline_of(record)
        else ""
    )
    return joined(element("p", f"{words}{held}.", class_="hint"), variant_table(record))


def _method(record: StudyRecord) -> Markup:
    tables = pair_tables(record, holds_for="method")
    if not tables:
        return Markup("")
    only = any(pair.verdict == NO_CLAIM for pair in record.verdicts if pair.holds_for == "method")
    asked = (
        "Would a method be better with other seeds too? A paired t test over the "
        f"{counted(len(record.seeds), 'seed')}, p adjusted by Holm for all pairs; intervals are "
        "95 % for each pair alone."
    )
    answer = (
        " That is too few for any claim about a method: what follows holds for these runs only."
        if only
        else " Differences inside the grey band would probably have been missed, so “cannot "
        "tell apart” is not “equal”."
    )
    return joined(element("p", f"{asked}{answer}"), tables)


def _models(record: StudyRecord) -> Markup:
    tables = pair_tables(record, holds_for="models")
    if not tables:
        return Markup("")
    asked = element(
        "p",
        "Would these very models, as they were trained, score better on other items like the "
        f"{counted(record.items, 'item')} of {record.part}? A paired bootstrap over items, p "
        "adjusted by Holm; intervals are 95 % for each pair alone. It says nothing of what another "
        "training would give.",
    )
    return joined(asked, tables)


def _curves(record: StudyRecord) -> Markup:
    panes = [
        (axis.name, _scrolled(chart, f"Learning curves by {axis.name}"))
        for axis in AXES
        if (chart := curves_chart(record, axis))
    ]
    if not panes:
        return Markup("")
    words = f"{record.metric} on the part held out for development, as training went on."
    seeds = " Thick: the mean over seeds; thin: each seed." if len(record.seeds) > 1 else ""
    names = [element("li", variant_label(record, variant.name)) for variant in scored(record)]
    return joined(
        element("p", f"{words}{seeds}", class_="hint"),
        chooser(panes, key="axis", asks="against"),
        element("ul", *names, class_="curve-names"),
    )


def _items(record: StudyRecord) -> Markup:
    table = disagreement_table(record)
    if not table:
        return Markup("")
    words = (
        "Items that some variants get right (✓) and others wrong (✗), as written with the first seed."
        if any(item.right for item in record.disagreements)
        else "Items on which the variants' own scores lie farthest apart, as written with the first seed."
    )
    return joined(element("p", words, class_="hint"), table)


def _attention(record: StudyRecord) -> Markup:
    panes = [(each.source, attention_columns(record, each)) for each in record.pictures]
    if not panes:
        return Markup("")
    words = "How much of each source token was read while each output token was written."
    return joined(element("p", words, class_="hint"), chooser(panes, key="source", asks="reading"))


def _agreement(record: StudyRecord) -> Markup:
    chart = agreement_chart(record)
    if not chart:
        told = record.agreement_source
        return element("p", f"There is none: {told}", class_="hint") if told else Markup("")
    source = f" ({record.agreement_source})" if record.agreement_source else ""
    words = (
        "The share of phones whose largest attention lies on the letters that known alignments give "
        "them, each variant being given the right phones so far; of several heads the one that agrees "
        f"best on validation is taken{source}."
    )
    return joined(element("p", words), chart)


def _trouble(record: StudyRecord) -> Markup:
    troubles = trouble_list(record)
    if not troubles:
        return Markup("")
    return joined(
        element(
            "p",
            "Runs without a score. ",
            element("code", "regard study"),
            " takes them up again.",
            class_="hint",
        ),
        troubles,
    )


def _repeat(record: StudyRecord) -> Markup:
    facts = [
        joined(
            element("dt", name),
            element("dd", element("code", text) if name == "command" else text),
        )
        for name, text in record.facts.items()
    ]
    parts = [element("dl", *facts, class_="meanings facts")] if facts else []
    settings = settings_table(record)
    if settings:
        parts.append(element("details", element("summary", "What each variant sets"), settings))
    if record.runs:
        several = len(record.runs) > 1
        summary = element("summary", f"All {len(record.runs)} runs" if several else "The run")
        parts.append(element("details", summary, run_table(record)))
    return joined(*parts)


def _scrolled(content: Markup, label: str) -> Markup:
    return element("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)


# The charts of a study as SVG files: those of its page, on white, with the colours of the light
# page.
#
# The files hold no variables of a style sheet, which programs for drawing and typesetting do not
# know.


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
    """The scores of all variants on one axis, the best first; nothing where no variant has one."""
    scale = score_scale(record, start=LEFT + 12, end=RIGHT - 12)
    variants = scored(record)
    if scale is None:
        return Markup("")
    bottom, baseline = TOP + ROW * len(variants), baseline_of(record)
    better = "lower is better" if record.lower_is_better else "higher is better"
    seeds = "" if len(record.seeds) == 1 else "; dots: seeds, bar: mean, line: 95 % interval"
    held = f"; broken: {baseline.name}" if baseline and len(variants) > 1 else ""
    return element(
        "svg",
        element("text", f"{record.metric} on {record.part}, {better}{seeds}{held}", x=12, y=22),
        tick_row(scale, below=TOP - 8),
        grid_lines(scale, top=TOP, bottom=bottom, at=baseline.mean if baseline else None),
        *(
            _row(record, variant, TOP + ROW * (place + 0.5))
            for place, variant in enumerate(variants)
        ),
        *(
            score_marks(record, variant, scale, middle=TOP + ROW * (place + 0.5))
            for place, variant in enumerate(variants)
        ),
        viewBox=f"0 0 {WIDTH:.0f} {bottom + 14:.0f}",
        class_="chart dots",
        role="img",
        aria_label=f"{record.metric} of {len(variants)} variants",
    )


def _row(record: StudyRecord, variant: VariantRecord, middle: float) -> Markup:
    decimals = score_decimals(record)
    within = interval_text(variant.low, variant.high, decimals=decimals)
    score = score_text(variant.mean, decimals=decimals)
    figures = f"{score}  ({within})" if within else score
    name = shortened_name(variant.name, LONGEST_NAME)
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
    charts = sheet[sheet.index(".variant-0") : sheet.index(END_OF_CHARTS)]
    ruled = re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]], charts)
    return f".sheet {{ fill: #ffffff; }}\n{ruled}"
