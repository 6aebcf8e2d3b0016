"""Charts of a study: scores, differences, agreement, Pareto charts, learning curves, map of verdicts.

Pareto charts show score against cost: variants on the front are filled points joined by a step line,
dominated ones rings. Learning curves have a thick line for the mean over seeds, thin ones for the seeds. Of
many variants, the best ones and the baseline are named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from regard.core.formatting import counted, interval_text, score_text
from regard.core.records.study import CurvePoint, PairVerdict, StudyRecord, VariantRecord
from regard.views.charts.axes import Scale, fit_scale
from regard.views.charts.figure_file import write_figure
from regard.views.charts.intervals import FigureRow, Interval, interval_chart, interval_scale
from regard.views.charts.plot import Axis, Dot, Line, Plot, plot_chart, quantity_axis
from regard.views.charts.svg import element, svg
from regard.views.charts.variants import (
    MEASURES,
    TOO_FEW_SEEDS,
    CostMeasure,
    Question,
    Variants,
    seeds_text,
)

# Costs within this ratio count as equal; those that differ more than this have a logarithmic axis.
EQUAL_RATIO, LOG_COST_RATIO = 1.005, 8.0
# Scores that span more than this factor get a logarithmic scale.
LOG_SCORE_RATIO = 3.0


def score_scale(variants: Variants) -> Scale | None:
    """The common scale of all scores; None without scores."""
    record = variants.record
    dots = [score for one in record.variants for _, score in variants.seed_scores(one.name)]
    dots += [variant.mean for variant in record.variants if variant.mean is not None]
    return interval_scale(dots, [(variant.low, variant.high) for variant in record.variants])


def score_interval(variants: Variants, variant: VariantRecord) -> Interval:
    """The row of a variant: one dot per seed, the mean and its interval."""
    record, decimals = variants.record, variants.record.primary.digits
    within = interval_text(variant.low, variant.high, decimals=decimals)
    label = f"{variant.name}: {record.metric} {score_text(variant.mean, decimals=decimals)}"
    return Interval(
        f"{label}, 95 % interval {within}" if within else label,
        variant.mean,
        variant.low,
        variant.high,
        dots=[
            (f"{variant.name}, seed {seed}: {score_text(score, decimals=decimals)}", score)
            for seed, score in variants.seed_scores(variant.name)
        ],
        tone=variants.tone(variant.name),
        key=variants.number[variant.name],
    )


def scores_chart(variants: Variants) -> Markup:
    """Interval plot of the scores of all variants, best first; empty without scores."""
    record, scale, baseline = variants.record, score_scale(variants), variants.baseline
    if scale is None:
        return Markup()
    seeds = "" if len(record.seeds) == 1 else "; dots: seeds, bar: mean, line: 95 % interval"
    if not record.is_finished:
        seeds = f"; {seeds_text(record)}"
    reference = f"; dashed: {baseline.name}" if baseline and len(variants.scored) > 1 else ""
    rows = []
    for variant in variants.scored:
        score = score_text(variant.mean, decimals=record.primary.digits)
        within = interval_text(variant.low, variant.high, decimals=record.primary.digits)
        text = f"{score}  ({within})" if within else score
        rows.append(FigureRow(variant.name, score_interval(variants, variant), text))
    return interval_chart(
        rows,
        scale,
        title=f"{record.primary.label} on {record.split}, {record.primary.direction}"
        f"{seeds}{reference}",
        label=f"{record.metric} of {counted(len(rows), 'variant')}",
        at=baseline.mean if baseline else None,
    )


def difference_scale(pairs: Sequence[PairVerdict]) -> Scale | None:
    """The common scale of differences, which includes 0."""
    dots = [0.0, *(pair.difference for pair in pairs)]
    return interval_scale(dots, [(pair.low, pair.high) for pair in pairs])


def difference_interval(record: StudyRecord, pair: PairVerdict) -> Interval:
    """The row of a pair; the band has the differences too small to detect."""
    decimals = record.primary.digits
    difference = score_text(pair.difference, decimals=decimals, signed=True)
    within = interval_text(pair.low, pair.high, decimals=decimals, signed=True)
    return Interval(
        f"difference {difference}" + (f", 95 % interval {within}" if within else ""),
        None,
        pair.low,
        pair.high,
        dots=[(f"{pair.first} minus {pair.second}: {difference}", pair.difference)],
        band=None if pair.verdict == TOO_FEW_SEEDS else pair.detectable_difference,
        is_solid=True,
    )


def agreement_rows(variants: Variants) -> tuple[Scale | None, list[tuple[VariantRecord, Interval]]]:
    """Agreement in percent with known alignments, best first; in the order of an unfinished study."""
    found = [one for one in variants.record.variants if one.agreement is not None]
    if variants.record.is_finished:
        found.sort(key=lambda variant: -(variant.agreement or 0.0))
    rows, ends = [], []
    for variant in found:
        mean, low, high = (
            None if value is None else 100 * value
            for value in (variant.agreement, variant.agreement_low, variant.agreement_high)
        )
        assert mean is not None
        within = interval_text(low, high, decimals=1)
        text = f"{variant.name}: {score_text(mean, decimals=1)} %"
        interval = Interval(
            text + (f", 95 % interval {within}" if within else ""),
            None,
            low,
            high,
            dots=[(text, mean)],
            tone=variants.tone(variant.name),
            key=variants.number[variant.name],
            is_solid=True,
        )
        rows.append((variant, interval))
        ends += [min(max(end, 0.0), 100.0) for end in (mean, low, high) if end is not None]
    if not rows:
        return None, []
    around = fit_scale(ends, start=12.0, end=288.0)
    return around._replace(high=min(around.high, 100.0)), rows


def with_cost(variants: Variants, measure: CostMeasure) -> list[VariantRecord]:
    """Variants that have a score and this cost, best first; none before the study is finished."""
    found = variants.scored if variants.record.is_finished else []
    return [variant for variant in found if measure.number(variant) > 0]


def all_equal(found: Sequence[VariantRecord], measure: CostMeasure) -> bool:
    """Whether all variants have the same cost, within `EQUAL_RATIO`."""
    numbers = [measure.number(variant) for variant in found]
    return max(numbers) < EQUAL_RATIO * min(numbers)


def pareto_front(variants: Variants, measure: CostMeasure) -> list[VariantRecord]:
    """Variants that no other dominates in score and cost, by ascending cost."""
    sign = 1 if variants.record.lower_is_better else -1

    def point(variant: VariantRecord) -> tuple[float, float]:
        return measure.number(variant), sign * (variant.mean or 0.0)

    found: list[VariantRecord] = []
    for variant in sorted(with_cost(variants, measure), key=point):
        # Of variants with the same cost and score, none dominates the other.
        if (
            not found
            or point(variant)[1] < point(found[-1])[1]
            or point(variant) == point(found[-1])
        ):
            found.append(variant)
    return found


def pareto_chart(variants: Variants, measure: CostMeasure) -> Markup:
    """Score against one cost; empty unless at least two variants differ in it."""
    found = with_cost(variants, measure)
    if len(found) < 2 or all_equal(found, measure):
        return Markup()
    record, costs = variants.record, [measure.number(variant) for variant in found]
    log = max(costs) > LOG_COST_RATIO * min(costs)
    up = interval_scale(
        [variant.mean or 0.0 for variant in found],
        [(variant.low, variant.high) for variant in found],
    )
    assert up is not None
    front = pareto_front(variants, measure)
    on_front = {variant.name for variant in front}
    corners = [(measure.number(one), one.mean or 0.0) for one in front]
    steps = corners[:1]
    for (_, y), (next_x, next_y) in pairwise(corners):
        steps += [(next_x, y), (next_x, next_y)]
    dots = []
    for variant in [*front, *(one for one in found if one.name not in on_front)]:
        score = score_text(variant.mean, decimals=record.primary.digits)
        cost = measure.text(variant) + (" parameters" if measure.name == "parameters" else "")
        where = ", on the Pareto front" if variant.name in on_front else ""
        dots.append(
            Dot(
                measure.number(variant),
                variant.mean or 0.0,
                f"{variant.name}: {record.metric} {score}, {cost}{where}",
                label=variant.name if variant.name in variants.named | on_front else "",
                tone=variants.tone(variant.name),
                style="filled" if variant.name in on_front else "ring",
                low=variant.low,
                high=variant.high,
                key=variants.number[variant.name],
            )
        )
    return plot_chart(
        Plot(
            description=f"{record.metric} against {measure.name} with Pareto front: "
            f"{', '.join(variant.name for variant in front)}.",
            x=quantity_axis(measure.name, costs, quantity=measure.quantity, log=log),
            y=Axis(f"{record.primary.label}, {record.primary.direction}", up),
            note=f"best: {'down' if record.lower_is_better else 'up'} and left",
            lines=[Line("", steps, tone="soft", dash=1, title="Pareto front")],
            dots=dots,
            num_priority=len(front),
            width=470.0,
            height=278.0,
        )
    )


class CurveAxis(NamedTuple):
    """The x-axis of a learning curve: a field of its points."""

    name: str
    field: str
    quantity: str

    def value(self, point: CurvePoint) -> float:
        """The value of a point."""
        return float(getattr(point, self.field))


AXES = (
    CurveAxis("steps", "step", "count"),
    CurveAxis("tokens", "tokens", "count"),
    CurveAxis("FLOPs", "flops", "flops"),
    CurveAxis("time", "seconds", "seconds"),
)


def learning_curves(variants: Variants, axis: CurveAxis) -> Markup:
    """Validation score by a resource; empty if no curve has two points or it was not recorded."""
    record, lines, points = variants.record, [], []
    for variant in variants.scored:
        curves = [run.curve for run in variants.runs(variant.name) if len(run.curve) > 1]
        mean, is_named = _mean(curves, axis), variant.name in variants.named
        if not mean:
            continue
        seeds = [[(axis.value(point), point.score) for point in curve] for curve in curves]
        points += [point for curve in seeds for point in curve] if is_named else mean
        last = score_text(mean[-1][1], decimals=record.primary.digits)
        line = Line(
            variant.name if is_named else "",
            mean if is_named else (),
            tone=variants.tone(variant.name) if is_named else "soft",
            dash=variants.dash(variant.name) if is_named else 0,
            thin=(seeds if len(seeds) > 1 else ()) if is_named else [mean],
            title=f"{variant.name}: {last} at the end",
            key=variants.number[variant.name],
        )
        lines.append(line if is_named else line._replace(points=mean[-1:]))
    if not points or max(x for x, _ in points) <= 0:
        return Markup()
    heights = [y for _, y in points]
    log = record.lower_is_better and max(heights) > LOG_SCORE_RATIO * min(heights) > 0
    up = fit_scale(heights, start=0.0, end=1.0, logarithmic=log, padding=0.03)
    return plot_chart(
        Plot(
            description=f"{record.metric} on validation against {axis.name}; the table has the last "
            "scores.",
            x=quantity_axis(
                axis.name, [x for x, _ in points], quantity=axis.quantity, from_zero=True
            ),
            y=Axis(f"{record.primary.label} on validation, {record.primary.direction}", up),
            # The named ones are drawn last, on top.
            lines=sorted(lines, key=lambda line: line.label != ""),
            class_="curves-chart",
        )
    )


def _mean(curves: Sequence[Sequence[CurvePoint]], axis: CurveAxis) -> list[tuple[float, float]]:
    """Mean over seeds at the steps that all of them have."""
    if not curves:
        return []
    by_step = [{point.step: point for point in curve} for curve in curves]
    steps = sorted(set.intersection(*(set(curve) for curve in by_step)))
    return [
        (
            sum(axis.value(curve[step]) for curve in by_step) / len(by_step),
            sum(curve[step].score for curve in by_step) / len(by_step),
        )
        for step in steps
    ]


VERDICT_CODES = {"better": "b", "worse": "w", "inconclusive": "i", "same scores": "i"}
MAP_SIZE = 800.0


def verdict_map(variants: Variants, *, holds_for: Question) -> tuple[Markup, str]:
    """All pairs of many variants, best first, row against column, as one shape per verdict.

    Also the verdicts as a text, row by row, for the script of the page.
    """
    names = [variant.name for variant in variants.scored]
    cell = MAP_SIZE / max(len(names), 1)
    shapes: dict[str, list[str]] = {"b": [], "w": [], "i": []}
    codes = []
    for row, first in enumerate(names):
        for column, second in enumerate(names):
            found = variants.verdict(first, second, holds_for=holds_for)
            code = VERDICT_CODES.get(found[0], ".") if found and row != column else "."
            codes.append(code)
            if code != ".":
                shapes[code].append(f"M{column * cell:.4g} {row * cell:.4g}h1v1h-1z")
    scale = math.floor(10 * cell) / 10
    drawn = [
        element("path", d="".join(path).replace("h1v1h-1", f"h{scale}v{scale}h-{scale}"), class_=c)
        for c, path in (("better", shapes["b"]), ("worse", shapes["w"]), ("same", shapes["i"]))
    ]
    frame = element("rect", class_="pair", width=cell, height=cell, x=-2 * cell, y=0)
    return (
        svg(
            *drawn,
            frame,
            width=MAP_SIZE,
            height=MAP_SIZE,
            class_="chart verdict-map",
            tabindex="0",
            aria_label=f"Verdicts on all pairs of {counted(len(names), 'variant')}, best first: row "
            "against column. Use the arrow keys to move.",
        ),
        "".join(codes),
    )


def write_figures(record: StudyRecord, folder: Path, *, suffix: str = ".svg") -> list[Path]:
    """Write every non-empty chart, as .svg or .png, and remove the others; returns the paths."""
    variants = Variants(record)
    charts = {"scores": scores_chart(variants)}
    charts |= {
        f"pareto-{measure.name.lower()}": pareto_chart(variants, measure) for measure in MEASURES
    }
    for axis in AXES:
        name = "curves" if axis.name == "steps" else f"curves-{axis.name.lower()}"
        charts[name] = learning_curves(variants, axis)
    written = []
    for name, chart in charts.items():
        path = folder / f"{name}{suffix}"
        if chart:
            write_figure(chart, path=path)
            written.append(path)
        else:
            path.unlink(missing_ok=True)
    return written
