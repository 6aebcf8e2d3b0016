"""Pairwise comparisons of a study: verdicts with icons, a matrix of all pairs, and tables of differences.

A study asks two questions of each pair: over seeds about the method, and over items about the trained
models. With many variants only the pairs with the baseline are shown; the others are collapsed. Verdicts
have an icon and text, never a colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from regard.core.records.study import MetricRecord, PairVerdict, StudyRecord, ratio_text
from regard.views.charts.axes import Scale, truncate
from regard.views.charts.intervals import (
    HEIGHT,
    axis_heading,
    grid_lines,
    interval_plot,
    interval_scale,
    row_svg,
    with_interval,
)
from regard.views.charts.variants import (
    baseline_of,
    counted,
    interval_text,
    p_text,
    score_text,
    scored,
    variant_label,
)
from regard.views.pages.html import Markup, element, heading, joined, row, scrolled, table

Question = Literal["method", "models"]
"""What a verdict is about: the method, over seeds, or the trained models, over items."""

TOO_FEW_SEEDS = "too few seeds"
ICONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "better": ("▲", "better"),
        "worse": ("▼", "worse"),
        "inconclusive": ("≈", "inconclusive"),
        "same scores": ("=", "inconclusive"),
        TOO_FEW_SEEDS: ("·", "few-seeds"),
    }
)
OPPOSITE = MappingProxyType({"better": "worse", "worse": "better"})


def icon_of(verdict: str) -> str:
    """The icon of a verdict."""
    return ICONS.get(verdict, ("?", ""))[0]


def verdict_class(verdict: str) -> str:
    """CSS class of a verdict."""
    return f"verdict verdict-{ICONS.get(verdict, ('?', 'few-seeds'))[1]}"


def verdict_icon(verdict: str | None) -> Markup:
    """Icon and text of a verdict; a dash if the pair was not compared."""
    if verdict is None:
        return element("span", "–")
    return element(
        "span",
        element("span", icon_of(verdict), aria_hidden="true"),
        f" {verdict}",
        class_=verdict_class(verdict),
    )


def verdict_between(
    record: StudyRecord, first: str, second: str, *, holds_for: Question
) -> tuple[str, PairVerdict] | None:
    """The verdict on `first` against `second`, in either order of the stored pair."""
    for pair in record.verdicts_of(holds_for):
        if (pair.first, pair.second) == (first, second):
            return pair.verdict, pair
        if (pair.first, pair.second) == (second, first):
            return OPPOSITE.get(pair.verdict, pair.verdict), pair
    return None


def verdict_against(record: StudyRecord, name: str) -> str | None:
    """The verdict on a variant against the baseline, over seeds."""
    baseline = baseline_of(record)
    if baseline is None:
        return None
    found = verdict_between(record, name, baseline.name, holds_for="method")
    return found[0] if found else None


MAX_HEADING_LENGTH = 26


def pair_matrix(record: StudyRecord, *, holds_for: Question) -> Markup:
    """Matrix of verdicts, row against column, best variant first."""
    variants = [variant.name for variant in scored(record)]
    heads = [
        heading(element("span", truncate(name, MAX_HEADING_LENGTH), title=name))
        for name in variants
    ]
    rows = []
    for first in variants:
        cells = [_cell(record, first, second, holds_for=holds_for) for second in variants]
        rows.append(row(variant_label(record, first), *cells))
    legend = [
        element("span", f"{icon_of(verdict)} {verdict}", class_=verdict_class(verdict))
        for verdict in ("better", "worse", "inconclusive", "same scores")
        if verdict != "same scores" or any(pair.verdict == verdict for pair in record.verdicts)
    ]
    keys = Markup(", ".join(legend))
    hint = element("p", "Row against column: ", keys, ".", class_="hint matrix-key")
    matrix = table([element("td", "row is …"), *heads], rows, class_="matrix verdicts")
    return joined(hint, scrolled(matrix, "All pairs"))


def _cell(record: StudyRecord, first: str, second: str, *, holds_for: Question) -> Markup:
    if first == second:
        return element("td", class_="diagonal")
    found = verdict_between(record, first, second, holds_for=holds_for)
    if found is None:
        return element("td", element("span", "not compared", class_="visually-hidden"))
    verdict, pair = found
    text = f"{first} against {second}: {verdict}"
    decimals = record.primary.digits
    sign = 1 if pair.first == first else -1
    difference = score_text(sign * pair.difference, decimals=decimals, signed=True)
    return element(
        "td",
        element("span", icon_of(verdict), aria_hidden="true"),
        element("span", text, class_="visually-hidden"),
        class_=verdict_class(verdict),
        title=f"{text}, difference {difference}, p {p_text(pair.adjusted_p)}",
    )


# Up to this many pairs are all shown; four variants have six.
MAX_SHOWN_PAIRS = 6


def pair_tables(record: StudyRecord, *, holds_for: Question) -> Markup:
    """All comparisons for one question; empty if no pair was compared."""
    pairs = record.verdicts_of(holds_for)
    if not pairs:
        return Markup("")
    scale = _scale(pairs)
    if len(pairs) <= MAX_SHOWN_PAIRS:
        return _table(record, pairs, scale, caption="")
    baseline = baseline_of(record)
    name = baseline.name if baseline else ""
    shown = [pair for pair in pairs if name in (pair.first, pair.second)]
    others = [pair for pair in pairs if name not in (pair.first, pair.second)]
    parts = []
    if shown:
        parts.append(_table(record, shown, scale, caption=f"Pairs with the baseline, {name}"))
    if {pair.verdict for pair in pairs} != {TOO_FEW_SEEDS}:
        parts.append(pair_matrix(record, holds_for=holds_for))
    if others:
        rest = "other " if shown else ""
        parts.append(
            element(
                "details",
                element("summary", f"The {rest}{counted(len(others), 'pair')}"),
                _table(record, others, scale, caption=""),
            )
        )
    return joined(*parts)


def _scale(pairs: Sequence[PairVerdict]) -> Scale | None:
    return interval_scale(
        [0.0, *(pair.difference for pair in pairs)], [(pair.low, pair.high) for pair in pairs]
    )


def _table(
    record: StudyRecord, pairs: Sequence[PairVerdict], scale: Scale | None, *, caption: str
) -> Markup:
    with_detectable = any(pair.detectable_difference is not None for pair in pairs)
    with_flops = any(pair.flops_ratio is not None for pair in pairs)
    left, right = "first is better", "second is better"
    if not record.lower_is_better:
        left, right = right, left
    ends = element("span", f"← {left}"), element("span", f"{right} →")
    headings = [
        "verdict",
        axis_heading(element("span", *ends, class_="axis-name axis-ends"), scale),
        heading("difference", title="score of the first minus score of the second"),
        heading("p", title="p-value with Holm correction over all pairs"),
    ]
    if with_detectable:
        headings.append(heading("detectable", title="smallest detectable difference"))
    if with_flops:
        title = "training FLOPs of the first over those of the second"
        headings.append(heading("FLOPs ratio", title=title))
    rows = [
        _row(record, pair, scale, with_detectable=with_detectable, with_flops=with_flops)
        for pair in pairs
    ]
    return table(headings, rows, class_="cards pairs", caption=caption)


def _row(
    record: StudyRecord,
    pair: PairVerdict,
    scale: Scale | None,
    *,
    with_detectable: bool,
    with_flops: bool,
) -> Markup:
    decimals = record.primary.digits
    difference = score_text(pair.difference, decimals=decimals, signed=True)
    within = interval_text(pair.low, pair.high, decimals=decimals, signed=True)
    # With too few seeds a small p-value would be misleading.
    p = "–" if pair.verdict == TOO_FEW_SEEDS else p_text(pair.adjusted_p)
    verdict = element(
        "th",
        element("span", icon_of(pair.verdict), aria_hidden="true", class_="verdict-icon"),
        element("span", pair.sentence),
        scope="row",
        class_=verdict_class(pair.verdict),
    )
    chart = Markup("")
    if scale is not None:
        chart = row_svg(
            _undetectable_band(pair, scale),
            grid_lines(scale, top=0.0, bottom=HEIGHT, at=0.0),
            interval_plot(
                scale,
                middle=HEIGHT / 2,
                mean=None,
                low=pair.low,
                high=pair.high,
                dots=[(f"{pair.first} minus {pair.second}: {difference}", pair.difference)],
            ),
            aria_label=f"difference {difference}" + (f", 95 % interval {within}" if within else ""),
        )
    cells = [
        element("td", chart, class_="chart-cell"),
        element("td", with_interval(difference, within), data_label="difference"),
        element("td", p, data_label="p (Holm)"),
    ]
    if with_detectable:
        text = score_text(pair.detectable_difference, decimals=decimals)
        cells.append(element("td", text, data_label="detectable"))
    if with_flops:
        text = "–" if pair.flops_ratio is None else ratio_text(pair.flops_ratio)
        cells.append(element("td", text, data_label="FLOPs ratio"))
    return element("tr", verdict, *cells)


def _undetectable_band(pair: PairVerdict, scale: Scale) -> Markup:
    """The band of differences too small to detect."""
    if pair.detectable_difference is None or pair.verdict == TOO_FEW_SEEDS:
        return Markup("")
    left, right = (
        scale.position(scale.clamp(side * pair.detectable_difference)) for side in (-1, 1)
    )
    return element(
        "rect", class_="undetectable", x=left, y=3, width=right - left, height=HEIGHT - 6
    )


def other_metrics_table(record: StudyRecord) -> Markup:
    """Verdicts by the other metrics, pairs × metrics; of many pairs, those with the baseline."""
    others = record.metrics[1:]
    found = {
        (pair.metric, pair.holds_for, pair.first, pair.second): pair for pair in record.verdicts
    }
    pairs = list(dict.fromkeys(key[2:] for key in found if key[0] != record.metric))
    baseline = baseline_of(record)
    few = len(pairs) <= MAX_SHOWN_PAIRS or baseline is None
    shown = [pair for pair in pairs if few or (baseline and baseline.name in pair)]
    if not shown:
        return Markup("")
    rows = [
        row(
            f"{first} against {second}",
            *(
                element(
                    "td",
                    *(
                        _small_verdict(found.get((metric.name, holds_for, first, second)), metric)
                        for holds_for in ("method", "models")
                    ),
                    data_label=metric.heading,
                )
                for metric in others
            ),
        )
        for first, second in shown
    ]
    heads = [heading(metric.heading, title=metric.note) for metric in others]
    verdicts = table(["pair", *heads], rows, class_="cards metrics")
    which = "" if few else ", pairs with the baseline (the record has all)"
    return element("details", element("summary", f"Verdicts by the other metrics{which}"), verdicts)


def _small_verdict(pair: PairVerdict | None, metric: MetricRecord) -> Markup:
    """One line of a cell: over seeds or over items, icon and difference."""
    if pair is None:
        return Markup("")
    within = interval_text(pair.low, pair.high, decimals=metric.digits, signed=True)
    p = "" if pair.verdict == TOO_FEW_SEEDS else f", p {p_text(pair.adjusted_p)}"
    over = "seeds" if pair.holds_for == "method" else "items"
    return element(
        "small",
        f"{over} ",
        element("span", icon_of(pair.verdict), aria_hidden="true"),
        element("span", f" {pair.verdict} ", class_="visually-hidden"),
        f" {score_text(pair.difference, decimals=metric.digits, signed=True)}",
        class_=verdict_class(pair.verdict),
        title=f"{pair.sentence}{f', {within}' if within else ''}{p}",
    )
