"""Tables of a study: variants with their scores, settings, runs, failures and disagreements.

On a narrow screen a row of the variant table becomes a card with labelled values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from regard.core.records.study import (
    Disagreement,
    MetricRecord,
    ScoreRecord,
    StudyRecord,
    StudyRunRecord,
    VariantRecord,
)
from regard.views.charts.axes import Scale
from regard.views.charts.intervals import (
    HEIGHT,
    SIDE,
    WIDTH,
    axis_heading,
    grid_lines,
    interval_plot,
    interval_scale,
    row_svg,
    with_interval,
)
from regard.views.charts.pareto import MEASURES
from regard.views.charts.variants import (
    baseline_of,
    counted,
    interval_text,
    missing_text,
    ranked,
    score_text,
    scored,
    seed_scores,
    seeds_text,
    shared_text,
    variant_class,
    variant_label,
    variant_number,
)
from regard.views.pages.html import Markup, element, heading, joined, row, scrolled, table
from regard.views.pages.pairwise_table import verdict_against, verdict_icon
from regard.views.text.numbers import duration_text, spaced

SHARED_INITIALISATION = "shared initial parameters"


def variant_table(record: StudyRecord) -> Markup:
    """All variants, best first; those without a score show the problem."""
    scale = score_scale(record)
    columns = _columns(record)
    name = f"{record.primary.label}, {record.primary.direction}"
    headings = [
        "variant",
        axis_heading(element("span", name, class_="axis-name"), scale),
        *(heading(text, title=title, class_=_class(text, record)) for text, title in columns),
    ]
    rows = [
        _row(record, variant, scale, columns)
        if variant.mean is not None
        else _failed(variant, record, columns)
        for variant in ranked(record)
    ]
    return table(headings, rows, class_="cards variants")


def score_scale(
    record: StudyRecord, *, start: float = SIDE, end: float = WIDTH - SIDE
) -> Scale | None:
    """The common scale of all scores; None without scores."""
    dots = [score for variant in record.variants for _, score in seed_scores(record, variant.name)]
    dots += [variant.mean for variant in record.variants if variant.mean is not None]
    intervals = [(variant.low, variant.high) for variant in record.variants]
    return interval_scale(dots, intervals, start=start, end=end)


def score_interval_plot(
    record: StudyRecord, variant: VariantRecord, scale: Scale, *, middle: float
) -> Markup:
    """Interval plot of one variant: one dot per seed, the mean and its interval."""
    decimals = record.primary.digits
    dots = [
        (f"{variant.name}, seed {seed}: {score_text(score, decimals=decimals)}", score)
        for seed, score in seed_scores(record, variant.name)
    ]
    plot = interval_plot(
        scale, middle=middle, mean=variant.mean, low=variant.low, high=variant.high, dots=dots
    )
    return element(
        "g",
        plot,
        class_=variant_class(record, variant.name),
        data_variant=variant_number(record, variant.name),
    )


def _columns(record: StudyRecord) -> list[tuple[str, str]]:
    """Headings and their meanings, without the name and the chart."""
    meaning = f"mean over seeds on {record.split}, with its 95 % confidence interval"
    if not record.is_finished:
        meaning = seeds_text(record)
    found = [(record.primary.heading, "; ".join(filter(None, [meaning, record.primary.note])))]
    if record.is_finished and baseline_of(record) and len(record.variants) > 1:
        found.append(("against baseline", "of the method, over seeds"))
    if any(variant.agreement is not None for variant in record.variants):
        found.append(("agreement", "of the attention with known alignments"))
    found += [(measure.name, measure.meaning) for measure in MEASURES]
    if any(variant.shared_initialisation is not None for variant in record.variants):
        found.append(
            (SHARED_INITIALISATION, "parameters with the initial values of the baseline, per seed")
        )
    if any(variant.learning_rate is not None for variant in record.variants):
        found.append(("learning rate", "the selected one"))
    return found


def _row(
    record: StudyRecord, variant: VariantRecord, scale: Scale | None, columns: list[tuple[str, str]]
) -> Markup:
    decimals, baseline = record.primary.digits, baseline_of(record)
    chart = Markup("")
    if scale is not None:
        label = f"{variant.name}: {record.metric} {score_text(variant.mean, decimals=decimals)}"
        within = interval_text(variant.low, variant.high, decimals=decimals)
        chart = row_svg(
            grid_lines(scale, top=0.0, bottom=HEIGHT, at=baseline.mean if baseline else None),
            score_interval_plot(record, variant, scale, middle=HEIGHT / 2),
            aria_label=f"{label}, 95 % interval {within}" if within else label,
        )
    values = _values(record, variant)
    cells = [
        element("td", values[text], data_label=text, class_=_class(text, record))
        for text, _ in columns
    ]
    return row(
        _name(record, variant),
        element("td", chart, class_="chart-cell"),
        *cells,
        class_="baseline" if variant.is_baseline else None,
    )


def _class(column: str, record: StudyRecord) -> str | None:
    return {record.primary.heading: "score", "against baseline": "verdict-cell"}.get(column)


def _values(record: StudyRecord, variant: VariantRecord) -> dict[str, str]:
    agreement, rate = variant.agreement, variant.learning_rate
    return {
        record.primary.heading: score_cell(variant.primary, record.primary),
        "against baseline": "–"
        if variant.is_baseline
        else verdict_icon(verdict_against(record, variant.name)),
        "agreement": "–" if agreement is None else f"{100 * agreement:.0f} %",
        "learning rate": "–" if rate is None else f"{rate:g}",
        SHARED_INITIALISATION: shared_text(variant),
        **{measure.name: measure.text(variant) for measure in MEASURES},
    }


def score_cell(score: ScoreRecord, metric: MetricRecord, *, items: bool = False) -> Markup:
    """Mean and interval over seeds, if there is one; with `items` also the interval over items."""
    within = interval_text(score.low, score.high, decimals=metric.digits)
    parts: list[str] = [with_interval(score_text(score.mean, decimals=metric.digits), within)]
    if items and score.item_low is not None:
        of_items = interval_text(score.item_low, score.item_high, decimals=metric.digits)
        parts += [" ", element("small", f"items {of_items}")]
    return joined(*parts)


def metric_table(record: StudyRecord) -> Markup:
    """Every metric of every variant, best variant first, with intervals over seeds and over items."""
    heads = [heading(metric.heading, title=metric.note) for metric in record.metrics]
    rows = [
        row(
            _name(record, variant),
            *(
                element(
                    "td",
                    score_cell(variant.scores[metric.name], metric, items=True),
                    data_label=metric.heading,
                )
                for metric in record.metrics
            ),
        )
        for variant in scored(record)
    ]
    return table(["variant", *heads], rows, class_="cards metrics")


def _name(record: StudyRecord, variant: VariantRecord) -> Markup:
    tag = element("span", "baseline", class_="tag") if variant.is_baseline else ""
    # Without a score, the problems have a cell of their own.
    shown = _problems(record, variant) if variant.mean is not None else ""
    note = element("small", shown, class_="problems") if shown else ""
    return joined(variant_label(record, variant.name), tag, note)


def _failed(variant: VariantRecord, record: StudyRecord, columns: list[tuple[str, str]]) -> Markup:
    reason = f": {problems}" if (problems := _problems(record, variant)) else ""
    problem = joined(
        element("b", "no score yet" if variant.name in record.missing else "✗ no score"), reason
    )
    cell = element("td", problem, colspan=len(columns) + 1, class_="problems")
    return row(_name(record, variant), cell, class_="failed-variant")


def _problems(record: StudyRecord, variant: VariantRecord) -> str:
    return "; ".join(filter(None, [missing_text(record, variant.name), variant.problems]))


def settings_table(record: StudyRecord) -> Markup:
    """Settings of each variant, one column per option."""
    by_variant = {variant.name: flat_settings(variant.settings) for variant in record.variants}
    names = list(dict.fromkeys(name for settings in by_variant.values() for name in settings))
    if not names:
        return Markup("")
    rows = [
        row(variant_label(record, variant), *(settings.get(name, "") for name in names))
        for variant, settings in by_variant.items()
    ]
    return scrolled(table(["variant", *names], rows, class_="plain"), "Settings")


def flat_settings(settings: Mapping[str, Any], *, prefix: str = "") -> dict[str, str]:
    """Nested settings as dotted names, values as text.

    >>> flat_settings({"model": {"mechanism": "dot", "heads": 4}, "seed": None})
    {'model.mechanism': 'dot', 'model.heads': '4', 'seed': 'null'}
    """
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat_settings(value, prefix=f"{prefix}{name}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            found[f"{prefix}{name}"] = text
    return found


def run_table(record: StudyRecord) -> Markup:
    """One row per run, in the order of the study."""
    rates = any(run.learning_rate is not None for run in record.runs)
    texts = ["variant", "seed", *(["learning rate", "selected"] if rates else []), "state"]
    texts += [metric.heading for metric in record.metrics]
    texts += [f"{record.primary.heading} on validation", "steps", "time"]
    texts += ["evaluations", "evaluation time", "folder"]
    rows = [_run_row(record, run, rates=rates) for run in record.runs]
    return scrolled(table(texts, rows, class_="plain"), "Runs")


def _run_row(record: StudyRecord, run: StudyRunRecord, *, rates: bool) -> Markup:
    cells = [str(run.seed)]
    if rates:
        rate = "–" if run.learning_rate is None else f"{run.learning_rate:g}"
        cells += [rate, "yes" if run.selected else "no"]
    cells.append(run.state)
    cells += [
        score_text(run.scores.get(metric.name), decimals=metric.digits) for metric in record.metrics
    ]
    cells += [
        score_text(run.validation_scores.get(record.metric), decimals=record.primary.digits),
        spaced(run.steps),
        _duration(run.seconds),
        str(run.evaluations),
        _duration(run.evaluation_seconds),
    ]
    return row(
        variant_label(record, run.variant),
        *cells,
        element("td", element("code", run.key)),
        class_=None if run.state == "finished" else "problems",
    )


def _duration(seconds: float) -> str:
    return duration_text(seconds) if seconds > 0 else "–"


def failure_list(record: StudyRecord) -> Markup:
    """Failed runs with their reasons; empty if there are none."""
    found = []
    for run in record.runs:
        if run.state == "failed":
            rate = f", learning rate {run.learning_rate:g}" if run.learning_rate else ""
            text = f", seed {run.seed}{rate}: {run.reason}"
            found.append(element("li", variant_label(record, run.variant), text))
    return element("ul", *found, class_="failures") if found else Markup("")


# Items shown before a collapsed list.
SHOWN = 10


def disagreement_table(record: StudyRecord) -> Markup:
    """Items on which variants disagree; all but the first ones are collapsed."""
    first, rest = record.disagreements[:SHOWN], record.disagreements[SHOWN:]
    if not first:
        return Markup("")
    more = Markup("")
    if rest:
        summary = element("summary", f"{counted(len(rest), 'item')} more")
        more = element("details", summary, _disagreements(record, rest))
    return joined(_disagreements(record, first), more)


def _disagreements(record: StudyRecord, items: Sequence[Disagreement]) -> Markup:
    rows = [_disagreement_row(record, item) for item in items]
    return table(["input", "reference", "predictions"], rows, class_="cards items")


def _disagreement_row(record: StudyRecord, item: Disagreement) -> Markup:
    references = [element("span", text, class_="output") for text in item.references]
    return row(
        item.input,
        element("td", Markup(" or ".join(references)), data_label="reference"),
        element("td", element("ul", *_predictions(record, item))),
    )


def _predictions(record: StudyRecord, item: Disagreement) -> list[Markup]:
    """One line per distinct prediction, correct ones first, then by number of variants."""
    variants_of: dict[tuple[bool, str], list[str]] = {}
    for variant, output in item.predictions.items():
        variants_of.setdefault((variant in item.correct, output), []).append(variant)
    ordered = sorted(variants_of.items(), key=lambda each: (not each[0][0], -len(each[1])))
    return [
        element(
            "li",
            element(
                "span",
                element("span", "✓" if is_correct else "✗", aria_hidden="true"),
                element("span", "correct:" if is_correct else "wrong:", class_="visually-hidden"),
                class_="correct" if is_correct else "wrong",
            ),
            element("span", output or "(empty)", class_="output"),
            element(
                "span", *(variant_label(record, variant) for variant in variants), class_="writers"
            ),
        )
        for (is_correct, output), variants in ordered
    ]
