"""Study page and its figure files: question and verdict, evidence, reproducibility."""

from __future__ import annotations

from pathlib import Path

from regard.core.records.study import StudyRecord, VariantRecord
from regard.views.charts.axes import truncate
from regard.views.charts.figure_file import write_figure
from regard.views.charts.heatmap import attention_columns
from regard.views.charts.intervals import agreement_chart, grid_lines, tick_labels
from regard.views.charts.learning_curves import AXES, curves_chart
from regard.views.charts.pareto import MEASURES, pareto_chart, pareto_section
from regard.views.charts.variants import (
    baseline_of,
    counted,
    interval_text,
    pairing_text,
    score_text,
    scored,
    seeds_text,
    variant_label,
)
from regard.views.pages.html import (
    Markup,
    element,
    footer,
    joined,
    page,
    scrolled,
    section,
    svg,
    tabs,
)
from regard.views.pages.pairwise_table import TOO_FEW_SEEDS, other_metrics_table, pair_tables
from regard.views.pages.study_tables import (
    disagreement_table,
    failure_list,
    metric_table,
    run_table,
    score_interval_plot,
    score_scale,
    settings_table,
    variant_table,
)

SECTIONS = {
    "variants": "Variants",
    "method": "Methods, compared over seeds",
    "models": "Trained models, compared over items",
    "metrics": "Every metric",
    "pareto": "Score against cost",
    "curves": "Learning curves",
    "items": "Disagreements",
    "attention": "Attention",
    "agreement": "Agreement with known alignments",
    "problems": "Failed runs",
    "repeat": "Reproducibility",
}


def study_page(record: StudyRecord) -> str:
    """The study as self-contained HTML; empty sections are omitted."""
    contents = {
        "variants": _variants(record),
        "method": _method(record),
        "models": _models(record),
        "metrics": _metrics(record),
        "pareto": pareto_section(record),
        "curves": _curves(record),
        "items": _items(record),
        "attention": _attention(record),
        "agreement": _agreement(record),
        "problems": _problems(record),
        "repeat": _repeat(record),
    }
    present = {anchor: content for anchor, content in contents.items() if content}
    main = element(
        "main", *(section(anchor, SECTIONS[anchor], content) for anchor, content in present.items())
    )
    body = [_headline(record, list(present)), main, footer("Made by regard.")]
    return page(title=record.question or record.name, body=body, kind="study")


def _headline(record: StudyRecord, anchors: list[str]) -> Markup:
    links = [element("a", SECTIONS[anchor], href=f"#{anchor}") for anchor in anchors]
    return element(
        "header",
        element("p", f"regard study · {record.name}", class_="kicker"),
        element("h1", record.question or record.name),
        element("div", *(element("p", text) for text in record.headline), class_="verdicts-lead"),
        element("p", _setup(record), class_="study-facts"),
        element("nav", *links, aria_label="Sections"),
        class_="headline study",
    )


def _setup(record: StudyRecord) -> Markup:
    parts = [
        f"{counted(len(record.variants), 'variant')} × {counted(len(record.seeds), 'seed')}"
        if record.is_finished
        else seeds_text(record),
        f"{record.task}, {counted(record.items, 'item')} of {record.split}",
        f"{record.primary.label}, {record.primary.direction}",
        *(text.rstrip(".") for text in (record.budget, record.tuning, record.matched) if text),
    ]
    return joined(*(element("span", part) for part in parts))


def _variants(record: StudyRecord) -> Markup:
    if not record.variants:
        return Markup("")
    hint = "Dots: seeds; bar: mean; line: 95 % confidence interval"
    if not record.is_finished:
        hint = (
            f"Dots: seeds; bar: mean. The study is {seeds_text(record)}; in the order of the study"
        )
    elif len(record.seeds) == 1:
        hint = "Dot: the only seed, so there is no interval"
    baseline = "; dashed: baseline" if len(record.variants) > 1 and baseline_of(record) else ""
    return joined(element("p", f"{hint}{baseline}.", class_="hint"), variant_table(record))


def _method(record: StudyRecord) -> Markup:
    tables = pair_tables(record, holds_for="method")
    if not tables:
        return Markup("")
    too_few = any(pair.verdict == TOO_FEW_SEEDS for pair in record.verdicts_of("method"))
    test = (
        "Is a method better with other seeds too? Paired t-test over "
        f"{counted(len(record.seeds), 'seed')}, p-values with Holm correction over all pairs; "
        "95 % confidence intervals of each pair."
    )
    note = (
        " These are too few seeds for a claim about a method: the results hold for these runs only."
        if too_few
        else " Differences inside the grey band would probably be missed: “inconclusive” does not mean "
        "“equal”."
    )
    paired = element("p", pairing_text(record), class_="hint") if record.pairing else ""
    return joined(element("p", f"{test}{note}"), tables, paired)


def _models(record: StudyRecord) -> Markup:
    tables = pair_tables(record, holds_for="models")
    if not tables:
        return Markup("")
    test = element(
        "p",
        "Do these trained models score better on other items like the "
        f"{counted(record.items, 'item')} of {record.split}? Paired bootstrap over items, p-values with "
        "Holm correction; 95 % confidence intervals of each pair. It does not cover the variance of "
        "training.",
    )
    return joined(test, tables)


def _metrics(record: StudyRecord) -> Markup:
    on_items = any(variant.primary.item_low is not None for variant in record.variants)
    if not scored(record) or not (on_items or record.metrics[1:]):
        return Markup("")
    hint = (
        "Mean over seeds, ↓ lower or ↑ higher is better, with 95 % confidence intervals over seeds"
    )
    hint += " and, for these trained models together, over items." if on_items else "."
    if not record.is_finished:
        hint = f"The study is {seeds_text(record)}; ↓ lower or ↑ higher is better."
    elif record.metrics[1:]:
        hint += (
            f" {record.metric} was chosen beforehand and decides. The others are secondary: p-values have "
            "Holm correction within each metric, not across them, so with many metrics some verdict may "
            "be due to chance."
        )
    notes = [f"{metric.name}: {metric.note}." for metric in record.metrics if metric.note]
    return joined(
        element("p", hint),
        metric_table(record),
        element("p", " ".join(notes), class_="hint") if notes else Markup(""),
        other_metrics_table(record),
    )


def _curves(record: StudyRecord) -> Markup:
    panes = [
        (axis.name, scrolled(chart, f"Learning curves by {axis.name}"))
        for axis in AXES
        if (chart := curves_chart(record, axis))
    ]
    if not panes:
        return Markup("")
    hint = f"{record.primary.label} on validation during training."
    seeds = " Thick: mean over seeds; thin: each seed." if len(record.seeds) > 1 else ""
    names = [element("li", variant_label(record, variant.name)) for variant in scored(record)]
    return joined(
        element("p", f"{hint}{seeds}", class_="hint"),
        tabs(panes, key="axis", label="against"),
        element("ul", *names, class_="curve-names"),
    )


def _items(record: StudyRecord) -> Markup:
    table = disagreement_table(record)
    if not table:
        return Markup("")
    hint = (
        "Items that some variants predict correctly (✓) and others do not (✗), with the first seed."
        if any(item.correct for item in record.disagreements)
        else "Items with the largest differences in score between variants, with the first seed."
    )
    return joined(element("p", hint, class_="hint"), table)


def _attention(record: StudyRecord) -> Markup:
    panes = [(each.input, attention_columns(record, each)) for each in record.attention_examples]
    if not panes:
        return Markup("")
    hint = "Attention weights over the source tokens for each generated token."
    return joined(element("p", hint, class_="hint"), tabs(panes, key="source", label="source"))


def _agreement(record: StudyRecord) -> Markup:
    chart = agreement_chart(record)
    if not chart:
        reason = record.agreement_source
        return element("p", f"Not available: {reason}", class_="hint") if reason else Markup("")
    source = f" ({record.agreement_source})" if record.agreement_source else ""
    hint = (
        "Fraction of phones whose largest attention weight is on the letters of the known alignment, with "
        f"teacher forcing; of several heads, the one that agrees best on validation{source}."
    )
    return joined(element("p", hint), chart)


def _problems(record: StudyRecord) -> Markup:
    failures = failure_list(record)
    if not failures:
        return Markup("")
    return joined(
        element(
            "p",
            "Runs that ended without a score. ",
            element("code", "regard study"),
            " runs them again.",
            class_="hint",
        ),
        failures,
    )


def _repeat(record: StudyRecord) -> Markup:
    facts = [
        joined(
            element("dt", name), element("dd", element("code", text) if name == "command" else text)
        )
        for name, text in record.reproducibility.items()
    ]
    parts = [element("dl", *facts, class_="meanings facts")] if facts else []
    settings = settings_table(record)
    if settings:
        parts.append(element("details", element("summary", "Settings of each variant"), settings))
    if record.runs:
        several = len(record.runs) > 1
        summary = element("summary", f"All {len(record.runs)} runs" if several else "The run")
        parts.append(element("details", summary, run_table(record)))
    return joined(*parts)


WIDTH, ROW, TOP, LEFT, RIGHT, MAX_NAME_LENGTH = 720.0, 30.0, 54.0, 190.0, 540.0, 26


def write_figures(record: StudyRecord, folder: Path) -> list[Path]:
    """Write every non-empty chart as SVG, and remove the others; returns the paths."""
    charts = {"scores": scores_chart(record)}
    charts |= {f"pareto-{measure.key}": pareto_chart(record, measure) for measure in MEASURES}
    curves = {axis.key: curves_chart(record, axis) for axis in AXES}
    charts |= {"curves" if key == "steps" else f"curves-{key}": curves[key] for key in curves}
    written = []
    for name, chart in charts.items():
        path = folder / f"{name}.svg"
        if chart:
            write_figure(chart, path=path)
            written.append(path)
        else:
            path.unlink(missing_ok=True)
    return written


def scores_chart(record: StudyRecord) -> Markup:
    """Interval plot of the scores of all variants, best first; empty without scores."""
    scale = score_scale(record, start=LEFT + 12, end=RIGHT - 12)
    variants = scored(record)
    if scale is None:
        return Markup("")
    bottom, baseline = TOP + ROW * len(variants), baseline_of(record)
    seeds = "" if len(record.seeds) == 1 else "; dots: seeds, bar: mean, line: 95 % interval"
    if not record.is_finished:
        seeds = f"; {seeds_text(record)}"
    reference = f"; dashed: {baseline.name}" if baseline and len(variants) > 1 else ""
    title = f"{record.primary.label} on {record.split}, {record.primary.direction}"
    return svg(
        element("text", f"{title}{seeds}{reference}", x=12, y=22),
        tick_labels(scale, below=TOP - 8),
        grid_lines(scale, top=TOP, bottom=bottom, at=baseline.mean if baseline else None),
        *(
            _row(record, variant, TOP + ROW * (index + 0.5))
            for index, variant in enumerate(variants)
        ),
        *(
            score_interval_plot(record, variant, scale, middle=TOP + ROW * (index + 0.5))
            for index, variant in enumerate(variants)
        ),
        width=WIDTH,
        height=bottom + 14,
        class_="chart interval-plot",
        aria_label=f"{record.metric} of {len(variants)} variants",
    )


def _row(record: StudyRecord, variant: VariantRecord, middle: float) -> Markup:
    decimals = record.primary.digits
    within = interval_text(variant.low, variant.high, decimals=decimals)
    score = score_text(variant.mean, decimals=decimals)
    text = f"{score}  ({within})" if within else score
    name = truncate(variant.name, MAX_NAME_LENGTH)
    return joined(
        element("text", name, x=LEFT - 8, y=middle + 4, text_anchor="end"),
        element("text", text, x=RIGHT + 8, y=middle + 4),
    )
