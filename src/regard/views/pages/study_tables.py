"""The table of a study's variants: scores drawn on one axis, then the figures, the best variant first.

On a narrow screen a row becomes a card; each figure then carries its heading with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from regard.core.records.study import Disagreement, StudyRecord, StudyRunRecord, VariantRecord
from regard.views.charts.axes import Scale
from regard.views.charts.intervals import (
    HEIGHT,
    dot_row,
    grid_lines,
    row_picture,
    shared_scale,
    tick_row,
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
from regard.views.pages.pairwise_table import verdict_against, verdict_mark
from regard.views.text.numbers import duration_text, spaced

AXIS_HEIGHT = 26.0


def variant_table(record: StudyRecord) -> Markup:
    """All variants; one without a score says what went wrong."""
    scale = score_scale(record)
    columns = _columns(record)
    headings = [
        element("th", "variant", scope="col"),
        element("th", _axis(record, scale), scope="col", class_="drawn-cell"),
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
    """The axis of the scores that all variants share; None where no variant has one."""
    dots = [score for variant in record.variants for _, score in seed_scores(record, variant.name)]
    dots += [variant.mean for variant in record.variants if variant.mean is not None]
    intervals = [(variant.low, variant.high) for variant in record.variants]
    if start is None or end is None:
        return shared_scale(dots, intervals)
    return shared_scale(dots, intervals, start=start, end=end)


def score_marks(
    record: StudyRecord, variant: VariantRecord, scale: Scale, *, middle: float
) -> Markup:
    """The row of one variant: a dot a seed, the mean and its interval."""
    decimals = score_decimals(record)
    dots = [
        (f"{variant.name}, seed {seed}: {score_text(score, decimals=decimals)}", score)
        for seed, score in seed_scores(record, variant.name)
    ]
    marks = dot_row(
        scale, middle=middle, mean=variant.mean, low=variant.low, high=variant.high, dots=dots
    )
    return element(
        "g",
        marks,
        class_=variant_class(record, variant.name),
        data_variant=variant_number(record, variant.name),
    )


def _columns(record: StudyRecord) -> list[tuple[str, str]]:
    """Headings and what they mean, without the name and the chart."""
    found = [(record.metric, f"mean over seeds on {record.part}, with its 95 % interval")]
    if baseline_of(record) and len(record.variants) > 1:
        found.append(("against baseline", "of the method, over seeds"))
    found += [(name, f"mean over seeds on {record.part}") for name in _other_scores(record)]
    if any(variant.agreement is not None for variant in record.variants):
        found.append(("agreement", "of the attention with known alignments"))
    found += [(measure.name, measure.meaning) for measure in MEASURES]
    if any(variant.learning_rate is not None for variant in record.variants):
        found.append(("learning rate", "the one that counts"))
    return found


def _other_scores(record: StudyRecord) -> list[str]:
    names = dict.fromkeys(name for variant in record.variants for name in variant.scores)
    return [name for name in names if name != record.metric]


def _axis(record: StudyRecord, scale: Scale | None) -> Markup:
    better = "lower is better" if record.lower_is_better else "higher is better"
    words = element("span", f"{record.metric}, {better}", class_="axis-name")
    if scale is None:
        return words
    return joined(words, row_picture(tick_row(scale, below=AXIS_HEIGHT - 6), height=AXIS_HEIGHT))


def _row(
    record: StudyRecord, variant: VariantRecord, scale: Scale | None, columns: list[tuple[str, str]]
) -> Markup:
    decimals, baseline = score_decimals(record), baseline_of(record)
    drawn = Markup("")
    if scale is not None:
        written = f"{variant.name}: {record.metric} {score_text(variant.mean, decimals=decimals)}"
        within = interval_text(variant.low, variant.high, decimals=decimals)
        drawn = row_picture(
            grid_lines(scale, top=0.0, bottom=HEIGHT, at=baseline.mean if baseline else None),
            score_marks(record, variant, scale, middle=HEIGHT / 2),
            aria_label=f"{written}, 95 % interval {within}" if within else written,
        )
    figures = _figures(record, variant)
    cells = [
        element("td", figures[heading], data_label=heading, class_=_class(heading, record))
        for heading, _ in columns
    ]
    return element(
        "tr",
        _name(record, variant),
        element("td", drawn, class_="drawn-cell"),
        *cells,
        class_="baseline" if variant.is_baseline else None,
    )


def _class(heading: str, record: StudyRecord) -> str | None:
    if heading == record.metric:
        return "score"
    return "verdict-cell" if heading == "against baseline" else None


def _figures(record: StudyRecord, variant: VariantRecord) -> dict[str, Markup]:
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
        else verdict_mark(verdict_against(record, variant.name)),
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
    note = element("small", variant.trouble, class_="trouble") if variant.trouble else Markup("")
    return element("th", variant_label(record, variant.name), tag, note, scope="row")


def _failed(variant: VariantRecord, record: StudyRecord, columns: list[tuple[str, str]]) -> Markup:
    tag = element("span", "baseline", class_="tag") if variant.is_baseline else Markup("")
    return element(
        "tr",
        element("th", variant_label(record, variant.name), tag, scope="row"),
        element(
            "td",
            element("b", "✗ no score"),
            f": {variant.trouble}" if variant.trouble else "",
            colspan=len(columns) + 1,
            class_="trouble",
        ),
        class_="failed-variant",
    )


# What each variant of a study sets, option by option.


def settings_table(record: StudyRecord) -> Markup:
    """What each variant sets, an option a column."""
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


def flat_settings(settings: Mapping[str, Any], *, before: str = "") -> dict[str, str]:
    """Options by their whole names, values as text.

    >>> flat_settings({"model": {"mechanism": "dot", "heads": 4}, "seed": None})
    {'model.mechanism': 'dot', 'model.heads': '4', 'seed': 'null'}
    """
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat_settings(value, before=f"{before}{name}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            found[f"{before}{name}"] = text
    return found


# All runs of a study in a table, and those that failed or are missing with what went wrong.


def run_table(record: StudyRecord) -> Markup:
    """A row a run, in the order of the study."""
    rates = any(run.learning_rate is not None for run in record.runs)
    names = list(dict.fromkeys(name for run in record.runs for name in run.scores))
    texts = ["variant", "seed", *(["learning rate", "counts"] if rates else []), "state", *names]
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
        cells += [rate, "yes" if run.counts else "no"]
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
        class_=None if run.state == "finished" else "trouble",
    )


def trouble_list(record: StudyRecord) -> Markup:
    """The runs without a score, each with its reason; nothing where all finished."""
    bad = [run for run in record.runs if run.state != "finished"]
    if not bad:
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
            for run in bad
        ),
        class_="troubles",
    )


# Items that some variants get right and others wrong: who wrote what, the same outputs together.


SHOWN = 10


def disagreement_table(record: StudyRecord) -> Markup:
    """The first items; the others are opened on demand."""
    first, rest = record.disagreements[:SHOWN], record.disagreements[SHOWN:]
    if not first:
        return Markup("")
    more = Markup("")
    if rest:
        summary = element("summary", f"{counted(len(rest), 'item')} more")
        more = element("details", summary, _table(record, rest))
    return joined(_table(record, first), more)


def _table(record: StudyRecord, items: Sequence[Disagreement]) -> Markup:
    headings = [element("th", text, scope="col") for text in ("source", "right", "written by")]
    return element(
        "table",
        element("thead", element("tr", *headings)),
        element("tbody", *(_disagreement_row(record, item) for item in items)),
        class_="cards items",
    )


def _disagreement_row(record: StudyRecord, item: Disagreement) -> Markup:
    answers = [element("span", answer, class_="output") for answer in item.answers]
    return element(
        "tr",
        element("th", item.source, scope="row"),
        element("td", *_between(answers, " or "), data_label="right"),
        element("td", element("ul", *_outputs(record, item))),
    )


def _outputs(record: StudyRecord, item: Disagreement) -> list[Markup]:
    """A line for each output, the right ones first, then those that most variants wrote."""
    writers: dict[tuple[bool, str], list[str]] = {}
    for variant, output in item.predicted.items():
        writers.setdefault((variant in item.right, output), []).append(variant)
    ordered = sorted(writers.items(), key=lambda each: (not each[0][0], -len(each[1])))
    return [
        element(
            "li",
            element(
                "span",
                element("span", "✓" if is_right else "✗", aria_hidden="true"),
                element("span", "right:" if is_right else "wrong:", class_="unseen-text"),
                class_="right" if is_right else "wrong",
            ),
            element("span", output or "(nothing)", class_="output"),
            element(
                "span",
                *(variant_label(record, variant) for variant in variants),
                class_="writers",
            ),
        )
        for (is_right, output), variants in ordered
    ]


def _between(parts: Sequence[Markup], text: str) -> list[str]:
    return [piece for part in parts for piece in (part, text)][:-1]
