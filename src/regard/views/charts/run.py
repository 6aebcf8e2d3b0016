"""Charts of one run: learning curves, confusion matrix, reliability diagram.

The confusion matrix has one row per true label and one column per predicted label. Cells are shaded by
their fraction of the row, so that rare labels are visible: correct predictions in one colour, errors in
another. The reliability diagram plots accuracy against confidence: a calibrated model lies on the diagonal,
an overconfident one below it; the area of a dot is the number of predictions in its bin (DeGroot & Fienberg
1983; for neural networks, Guo et al. 2017).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from markupsafe import Markup

from regard.core.formatting import counted, integer_text, number_text, percent_text, score_text
from regard.core.records.run import CalibrationRecord, ConfusionRecord, RunRecord, SplitRecord
from regard.views.charts.axes import Scale
from regard.views.charts.deletion import deletion_chart
from regard.views.charts.document import draw_document
from regard.views.charts.figure_file import write_figure
from regard.views.charts.heatmap import draw_alignment, matrix_chart
from regard.views.charts.image import draw_image
from regard.views.charts.intervals import FigureRow, Interval, interval_chart, interval_scale
from regard.views.charts.plot import Axis, Dot, Line, Plot, fitted_axis, plot_chart, quantity_axis
from regard.views.charts.sound import draw_sound
from regard.views.charts.svg import text_block
from regard.views.charts.trees import draw_tree

WIDTH, HEIGHT = 470.0, 230.0
# Values that span more than this factor get a logarithmic scale.
LOG_RATIO = 10.0
LOSS = "loss"
Points = list[tuple[float, float]]


def learning_curve_charts(record: RunRecord) -> dict[str, Markup]:
    """Charts by name: loss, each metric on validation, gradient norm, learning rate; none if empty."""
    steps = [float(point.step) for point in record.training]
    steps += [float(point.step) for point in record.evaluations]
    if not steps or max(steps) <= 0:
        return {}
    epochs = {point.step: point.epoch for point in record.training if point.epoch is not None}
    total = f" ({counted(max(epochs.values()), 'epoch')})" if epochs else ""
    across = quantity_axis(f"steps{total}", [0.0, *steps], quantity="count", from_zero=True)
    best = [] if record.best_step is None else [(float(record.best_step), "best checkpoint")]

    def moment(step: int) -> str:
        known = [epoch for at, epoch in epochs.items() if at >= step]
        return f"step {integer_text(step)}" + (f", epoch {min(known)}" if known else "")

    def chart(name: str, lines: dict[str, Points], direction: str = "") -> Markup:
        values = [y for points in lines.values() for _, y in points]
        log = min(values, default=0.0) > 0 and max(values) > LOG_RATIO * min(values)
        up = fitted_axis(f"{name}, {direction}" if direction else name, values, log=log)
        if up is None:
            return Markup()
        drawn = []
        for number, (label, points) in enumerate(lines.items()):
            few = len(points) <= 40
            titles = [f"{moment(int(x))}: {number_text(y, digits=4)}" for x, y in points]
            shown = label if len(lines) > 1 else ""
            line = Line(shown, points, tone=number, titles=titles if few else (), title=label)
            drawn.append(line)
        last = {label: number_text(points[-1][1], digits=4) for label, points in lines.items()}
        ends = ", ".join(f"{label} {value}" for label, value in last.items())
        return plot_chart(
            Plot(
                description=f"{name} by step; at the end: {ends}.",
                x=across,
                y=up,
                lines=drawn,
                marks=best,
                width=WIDTH,
                height=HEIGHT,
            )
        )

    training = {
        "training": [(float(p.step), p.loss) for p in record.training if p.loss is not None]
    }
    validation = {
        name: [(float(p.step), p.scores[name]) for p in record.evaluations if name in p.scores]
        for name in dict.fromkeys(name for point in record.evaluations for name in point.scores)
    }
    losses = {**training, "validation": validation.pop(LOSS, [])}
    charts = {
        "loss": chart(
            record.metric_named(LOSS).label,
            {name: points for name, points in losses.items() if points},
            "lower is better",
        )
    }
    metrics = {metric.name: metric for metric in record.metrics}
    for name, points in validation.items():
        known = metrics.get(name)
        label, direction = (known.label, known.direction) if known else (name, "")
        charts[name] = chart(f"{label} on validation", {name: points}, direction)
    norms = [(float(p.step), p.gradient_norm) for p in record.training]
    rates = [(float(p.step), p.learning_rate) for p in record.training]
    charts["gradient norm"] = chart(
        "gradient norm", {"gradient norm": [(x, y) for x, y in norms if y is not None]}
    )
    charts["learning rate"] = chart("learning rate", {"learning rate": rates})
    return {name: drawn for name, drawn in charts.items() if drawn}


def score_rows(record: RunRecord, split: SplitRecord) -> tuple[Scale | None, list[FigureRow]]:
    """The run and its baselines by the primary metric, as rows of an interval plot."""
    metric = record.primary
    own, rows = split.scores.get(metric.name), []
    values = {record.model: own.value if own else None}
    values |= {name: scores.get(metric.name) for name, scores in split.baselines.items()}
    for name, value in values.items():
        low, high = (own.low, own.high) if own and name == record.model else (None, None)
        score = score_text(value, decimals=metric.digits)
        text = f"{name}: {metric.name} {score}"
        dots = [] if value is None else [(text, value)]
        tone = 0 if name == record.model else "soft"
        rows.append(
            FigureRow(name, Interval(text, None, low, high, dots, tone, is_solid=True), score)
        )
    known = [value for value in values.values() if value is not None]
    return interval_scale(known, [(own.low, own.high)] if own else []), rows


MIN_CELL, MAX_CELL = 9.0, 50.0


def confusion_chart(record: ConfusionRecord) -> Markup:
    """Confusion matrix with the recall of every label beside its name; numbers where they fit."""
    totals = [sum(row) for row in record.counts]
    fractions = [
        [count / total if total else 0.0 for count in row]
        for row, total in zip(record.counts, totals, strict=True)
    ]
    size = len(record.labels)
    wide = min(max(640 / max(size, 1), MIN_CELL), MAX_CELL)
    rows = [
        f"{label} ({percent_text(fractions[number][number])})" if totals[number] else label
        for number, label in enumerate(record.labels)
    ]

    def title(row: int, column: int) -> str:
        label, total = record.labels[row], integer_text(totals[row])
        said = "correct" if row == column else f"predicted as {record.labels[column]}"
        count = integer_text(record.counts[row][column])
        return f"{label}, {said}: {count} of {total} ({percent_text(fractions[row][column])})"

    errors = sum(totals) - sum(record.counts[number][number] for number in range(size))
    return matrix_chart(
        [
            [each if row == column else -each for column, each in enumerate(of_row)]
            for row, of_row in enumerate(fractions)
        ],
        rows=rows,
        columns=record.labels,
        limit=1.0,
        title=title,
        number=lambda row, column: (
            integer_text(count) if (count := record.counts[row][column]) else ""
        ),
        description=f"Confusion matrix of {counted(size, 'label')}: {counted(errors, 'error')} among "
        f"{counted(sum(totals), 'item')}.",
        cell=(wide, min(wide, 24.0)),
        max_label_length=28,
    )


MAX_RADIUS, MIN_RADIUS = 16.0, 3.0


def _one(number: float) -> str:
    return score_text(number, decimals=1)


def reliability_chart(record: CalibrationRecord) -> Markup:
    """Reliability diagram: accuracy against confidence, with the expected calibration error."""
    most = max((each.items for each in record.bins), default=1)
    dots = []
    for each in record.bins:
        confidence, accuracy = 100 * each.confidence, 100 * each.accuracy
        dots.append(
            Dot(
                confidence,
                accuracy,
                f"{counted(each.items, 'prediction')}: confidence {_one(confidence)} %, "
                f"accuracy {_one(accuracy)} %",
                tone="minus" if accuracy < confidence else "plus",
                style="shaded",
                radius=max(MIN_RADIUS, MAX_RADIUS * math.sqrt(each.items / most)),
                low=min(confidence, accuracy),
                high=max(confidence, accuracy),
            )
        )
    percent = Scale(0.0, 100.0, 0.0, 1.0)
    error = f"expected calibration error {_one(100 * record.error)} points"
    diagonal = Line("", [(0.0, 0.0), (100.0, 100.0)], tone="soft", dash=1, title="calibrated")
    return plot_chart(
        Plot(
            description=f"Reliability diagram: accuracy against confidence; {error}.",
            x=Axis("confidence, %", percent),
            y=Axis("accuracy, %", percent),
            lines=[diagonal],
            dots=dots,
            note=error,
            width=WIDTH,
            height=360.0,
        )
    )


def run_charts(record: RunRecord) -> dict[str, Markup]:
    """Every chart of a run as it is written to a file, by file name."""
    # The name of a plug-in's metric may not be the name of a file.
    charts = {
        "learning-curve-" + re.sub(r"[^\w-]+", "-", name): chart
        for name, chart in learning_curve_charts(record).items()
    }
    for split in record.splits:
        scale, rows = score_rows(record, split)
        if scale is not None:
            label = f"{record.primary.label} on {split.name}, {record.primary.direction}"
            charts[f"scores-{split.name}"] = interval_chart(
                rows, scale, title=label, label=label, at=None
            )
        if split.confusion is not None:
            charts[f"confusion-{split.name}"] = confusion_chart(split.confusion)
        if split.calibration is not None:
            charts[f"reliability-{split.name}"] = reliability_chart(split.calibration)
        if split.deletion is not None:
            charts[f"deletion-{split.name}"] = deletion_chart(split.deletion)
    return charts


def write_run_figures(record: RunRecord, folder: Path, *, suffix: str = ".svg") -> list[Path]:
    """Write every chart of a run, as .svg or .png; returns the paths."""
    written = []
    for name, chart in run_charts(record).items():
        path = folder / f"{name}{suffix}"
        write_figure(text_block(f"{record.name}: {name.replace('-', ' ')}"), chart, path=path)
        written.append(path)
    shown: list[Callable[..., None]] = [
        partial(draw_sound if one.sound else draw_alignment, one) for one in record.alignments
    ]
    shown += [partial(draw_sound if one.sound else draw_document, one) for one in record.documents]
    shown += [partial(draw_tree, one) for one in record.trees]
    shown += [partial(draw_image, one) for one in record.images]
    for number, draw in enumerate(shown, start=1):
        written.append(folder / f"attention-{number}{suffix}")
        draw(path=written[-1])
    return written
