"""Tables of a study: variants with their scores, settings, runs, failures and disagreements.

On a narrow screen a row of the variant table becomes a card with labelled values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from regard.core.records.study import Disagreement, StudyRecord, StudyRunRecord, VariantRecord
from regard.views.charts.axes import Scale
from regard.views.charts.intervals import (
    HEIGHT,
    grid_lines,
    interval_plot,
    interval_scale,
    row_svg,
    tick_labels,
)
from regard.views.charts.pareto import MEASURES
from regard.views.charts.variants import (
    baseline_of,
    counted,
    interval_text,
    ranked,
    score_decimals,
    score_text,
    seed_scores,
    variant_class,
    variant_label,
    variant_number,
)
from regard.views.pages.html import Markup, element, joined
from regard.views.pages.pairwise_table import verdict_against, verdict_icon
from regard.views.text.numbers import duration_text, spaced

AXIS_HEIGHT = 26.0


def variant_table(record: StudyRecord) -> Markup:
    """All variants, best first; those without a score show the problem."""
    scale = score_scale(record)
    columns = _columns(record)
    headings = [
        element("th", "variant", scope="col"),
        element("th", _axis(record, scale), scope="col", class_="chart-cell"),
        *(
            element("th", heading, scope="col", title=title, class_=_class(heading, record))
            for heading, title in columns
        ),
    ]
    rows = [
        _row(record, variant, scale, columns)
        if variant.mean is not None
        else _failed(variant, record, columns)
        for variant in ranked(record)
    ]
    return element(
        "table",
        element("thead", element("tr", *headings)),
        element("tbody", *rows),
        class_="cards variants",
    )


def score_scale(
    record: StudyRecord, *, start: float | None = None, end: float | None = None
) -> Scale | None:
    """The common scale of all scores; None without scores."""
    dots = [score for variant in record.variants for _, score in seed_scores(record, variant.name)]
    dots += [variant.mean for variant in record.variants if variant.mean is not None]
    intervals = [(variant.low, variant.high) for variant in record.variants]
    if start is None or end is None:
        return interval_scale(dots, intervals)
    return interval_scale(dots, intervals, start=start, end=end)


def score_interval_plot(
    record: StudyRecord, variant: VariantRecord, scale: Scale, *, middle: float
) -> Markup:
    """Interval plot of one variant: one dot per seed, the mean and its interval."""
    decimals = score_decimals(record)
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
    found = [
        (record.metric, f"mean over seeds on {record.split}, with its 95 % confidence interval")
    ]
    if baseline_of(record) and len(record.variants) > 1:
        found.append(("against baseline", "of the method, over seeds"))
    found += [(name, f"mean over seeds on {record.split}") for name in _other_scores(record)]
    if any(variant.agreement is not None for variant in record.variants):
        found.append(("agreement", "of the attention with known alignments"))
    found += [(measure.name, measure.meaning) for measure in MEASURES]
    if any(variant.learning_rate is not None for variant in record.variants):
        found.append(("learning rate", "the selected one"))
    return found


def _other_scores(record: StudyRecord) -> list[str]:
    names = dict.fromkeys(name for variant in record.variants for name in variant.scores)
    return [name for name in names if name != record.metric]


def _axis(record: StudyRecord, scale: Scale | None) -> Markup:
    better = "lower is better" if record.lower_is_better else "higher is better"
    name = element("span", f"{record.metric}, {better}", class_="axis-name")
    if scale is None:
        return name
    return joined(name, row_svg(tick_labels(scale, below=AXIS_HEIGHT - 6), height=AXIS_HEIGHT))


def _row(
    record: StudyRecord, variant: VariantRecord, scale: Scale | None, columns: list[tuple[str, str]]
) -> Markup:
    decimals, baseline = score_decimals(record), baseline_of(record)
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
        element("td", values[heading], data_label=heading, class_=_class(heading, record))
        for heading, _ in columns
    ]
    return element(
        "tr",
        _name(record, variant),
        element("td", chart, class_="chart-cell"),
        *cells,
        class_="baseline" if variant.is_baseline else None,
    )


def _class(heading: str, record: StudyRecord) -> str | None:
    if heading == record.metric:
        return "score"
    return "verdict-cell" if heading == "against baseline" else None


def _values(record: StudyRecord, variant: VariantRecord) -> dict[str, Markup]:
    decimals = score_decimals(record)
    within = interval_text(variant.low, variant.high, decimals=decimals)
    found = {
        record.metric: joined(
            element("b", score_text(variant.mean, decimals=decimals)),
            " ",
            element("small", within or "no interval"),
        ),
        "against baseline": joined("–")
        if variant.is_baseline
        else verdict_icon(verdict_against(record, variant.name)),
        "agreement": joined(
            "–" if variant.agreement is None else f"{100 * variant.agreement:.0f} %"
        ),
        "learning rate": joined(
            "–" if variant.learning_rate is None else f"{variant.learning_rate:g}"
        ),
    }
    for name in _other_scores(record):
        score = variant.scores.get(name)
        found[name] = joined("–" if score is None else f"{score:.4g}".replace("-", "−"))
    for measure in MEASURES:
        found[measure.name] = joined(measure.text(variant))
    return found


def _name(record: StudyRecord, variant: VariantRecord) -> Markup:
    tag = element("span", "baseline", class_="tag") if variant.is_baseline else Markup("")
    note = element("small", variant.problems, class_="problems") if variant.problems else Markup("")
    return element("th", variant_label(record, variant.name), tag, note, scope="row")


def _failed(variant: VariantRecord, record: StudyRecord, columns: list[tuple[str, str]]) -> Markup:
    tag = element("span", "baseline", class_="tag") if variant.is_baseline else Markup("")
    return element(
        "tr",
        element("th", variant_label(record, variant.name), tag, scope="row"),
        element(
            "td",
            element("b", "✗ no score"),
            f": {variant.problems}" if variant.problems else "",
            colspan=len(columns) + 1,
            class_="problems",
        ),
        class_="failed-variant",
    )


def settings_table(record: StudyRecord) -> Markup:
    """Settings of each variant, one column per option."""
    by_variant = {variant.name: flat_settings(variant.settings) for variant in record.variants}
    names = list(dict.fromkeys(name for settings in by_variant.values() for name in settings))
    if not names:
        return Markup("")
    rows = [
        element(
            "tr",
            element("th", variant_label(record, variant), scope="row"),
            *(element("td", settings.get(name, "")) for name in names),
        )
        for variant, settings in by_variant.items()
    ]
    heads = [element("th", text, scope="col") for text in ("variant", *names)]
    table = element(
        "table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="plain"
    )
    return element(
        "div", table, class_="scroll", tabindex="0", role="region", aria_label="Settings"
    )


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
    names = list(dict.fromkeys(name for run in record.runs for name in run.scores))
    texts = ["variant", "seed", *(["learning rate", "selected"] if rates else []), "state", *names]
    texts += [f"{record.metric} on validation", "steps", "time", "folder"]
    table = element(
        "table",
        element("thead", element("tr", *(element("th", text, scope="col") for text in texts))),
        element("tbody", *(_run_row(record, run, names, rates=rates) for run in record.runs)),
        class_="plain",
    )
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label="Runs")


def _run_row(record: StudyRecord, run: StudyRunRecord, names: list[str], *, rates: bool) -> Markup:
    decimals = score_decimals(record)
    cells = [str(run.seed)]
    if rates:
        rate = "–" if run.learning_rate is None else f"{run.learning_rate:g}"
        cells += [rate, "yes" if run.selected else "no"]
    cells.append(run.state)
    cells += [score_text(run.scores.get(name), decimals=decimals) for name in names]
    cells += [
        score_text(run.validation_scores.get(record.metric), decimals=decimals),
        spaced(run.steps),
        duration_text(run.seconds) if run.seconds > 0 else "–",
    ]
    return element(
        "tr",
        element("th", variant_label(record, run.variant), scope="row"),
        *(element("td", cell) for cell in cells),
        element("td", element("code", run.key)),
        class_=None if run.state == "finished" else "problems",
    )


def failure_list(record: StudyRecord) -> Markup:
    """Runs without a score with their reasons; empty if all finished."""
    failed = [run for run in record.runs if run.state != "finished"]
    if not failed:
        return Markup("")
    return element(
        "ul",
        *(
            element(
                "li",
                variant_label(record, run.variant),
                f", seed {run.seed}"
                + (f", learning rate {run.learning_rate:g}" if run.learning_rate else ""),
                f": {run.state}" + (f", {run.reason}" if run.reason else ""),
            )
            for run in failed
        ),
        class_="failures",
    )


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
        more = element("details", summary, _table(record, rest))
    return joined(_table(record, first), more)


def _table(record: StudyRecord, items: Sequence[Disagreement]) -> Markup:
    headings = [element("th", text, scope="col") for text in ("input", "reference", "predictions")]
    return element(
        "table",
        element("thead", element("tr", *headings)),
        element("tbody", *(_disagreement_row(record, item) for item in items)),
        class_="cards items",
    )


def _disagreement_row(record: StudyRecord, item: Disagreement) -> Markup:
    references = [element("span", text, class_="output") for text in item.references]
    return element(
        "tr",
        element("th", item.input, scope="row"),
        element("td", *_between(references, " or "), data_label="reference"),
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
                "span",
                *(variant_label(record, variant) for variant in variants),
                class_="writers",
            ),
        )
        for (is_correct, output), variants in ordered
    ]


def _between(parts: Sequence[Markup], text: str) -> list[str]:
    return [piece for part in parts for piece in (part, text)][:-1]
