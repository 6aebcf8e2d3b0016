"""Page of one run: learning curves, scores beside baselines, items, attention, cost, reproducibility."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from regard.core.formatting import (
    flat_settings,
    interval_text,
    percent_text,
    printable,
    score_text,
    truncate,
    weight_text,
)
from regard.core.records.attention import AlignmentRecord
from regard.core.records.document import DocumentRecord
from regard.core.records.image import ClassifiedImage
from regard.core.records.run import RunRecord, RunScore, SplitRecord
from regard.core.records.study import MetricRecord
from regard.views.charts import image as pictures
from regard.views.charts.deletion import deletion_chart, deletion_sentence, deletion_verdict
from regard.views.charts.document import prediction_sentence, weight_views
from regard.views.charts.heatmap import (
    alignment_map,
    colour_ramp,
    largest,
    mean_panels,
    weight_limit,
    weight_ramp,
)
from regard.views.charts.intervals import interval_axis, interval_row
from regard.views.charts.run import (
    confusion_chart,
    learning_curve_charts,
    reliability_chart,
    score_rows,
)
from regard.views.charts.sound import (
    alignment_chart,
    alignment_panel,
    audio_uri,
    hop_panel,
    hops_chart,
)
from regard.views.charts.trees import tree_chart
from regard.views.pages.document import MAX_WORDS, document_sentences
from regard.views.pages.render import render_page
from regard.views.text.run import alignment_sentence, cost_facts, run_headline

SECTIONS = {
    "scores": "Scores",
    "curves": "Learning curves",
    "errors": "Errors and calibration",
    "items": "Items",
    "attention": "Attention",
    "features": "Feature maps",
    "cost": "Cost",
    "settings": "Settings",
    "repeat": "Reproducibility",
}


def run_page(record: RunRecord, *, refresh_seconds: int | None = None) -> str:
    """The run as self-contained HTML; with `refresh_seconds` the browser loads it again and again."""
    curves = learning_curve_charts(record)
    attention = _attention(record)
    features = [_titled(each) for each in _images(record, with_attention=False)]
    aligned = {each.name: each.alignment for each in record.splits if each.alignment}
    with_errors = [split for split in record.splits if split.confusion or split.calibration]
    contents = {
        "scores": any(split.scores for split in record.splits),
        "curves": curves,
        "errors": with_errors,
        "items": record.examples or record.best_items or record.worst_items,
        "attention": attention or aligned or any(split.deletion for split in record.splits),
        "features": features,
        "cost": True,
        "settings": record.settings,
        "repeat": record.reproducibility or record.files,
    }
    return render_page(
        "run.html",
        record=record,
        refresh_seconds=refresh_seconds,
        sections={name: title for name, title in SECTIONS.items() if contents[name]},
        headline=run_headline(record),
        score_tables=[_score_table(record, split) for split in record.splits if split.scores],
        curves=curves,
        errors=[
            (
                split.name,
                confusion_chart(split.confusion) if split.confusion else Markup(),
                reliability_chart(split.calibration) if split.calibration else Markup(),
            )
            for split in with_errors
        ],
        item_metric=record.metric_named(record.item_metric),
        attention=attention,
        features=features,
        has_images=bool(record.images),
        has_sounds=any("sound" in pane for pane in attention),
        alignment_sentence=alignment_sentence(record),
        aligned=aligned,
        deletions=[
            (
                split.name,
                f"{deletion_sentence(split.deletion)} {deletion_verdict(split.deletion)}",
                deletion_chart(split.deletion),
            )
            for split in record.splits
            if split.deletion
        ],
        facts=cost_facts(record),
        settings=flat_settings(record.settings),
    )


def _score_table(record: RunRecord, split: SplitRecord) -> dict[str, Any]:
    """The run and its baselines, with a plot of the primary metric and every score."""
    metrics = [record.metric_named(name) for name in split.scores]
    scale, intervals = score_rows(record, split)
    rows = []
    for row in intervals:
        scores = {
            name: RunScore(value=value) for name, value in split.baselines.get(row.name, {}).items()
        }
        scores = split.scores if row.name == record.model else scores
        cells = [(metric.heading, *_cell(metric, scores.get(metric.name))) for metric in metrics]
        plot = interval_row(row.interval, scale)
        rows.append({"name": row.name, "plot": plot, "cells": cells})
    return {
        "split": split,
        "metrics": metrics,
        "primary": record.primary,
        "axis": interval_axis(scale),
        "rows": rows,
    }


def _cell(metric: MetricRecord, score: RunScore | None) -> tuple[str, str]:
    """A score and its interval as text."""
    if score is None:
        return "–", ""
    text = score_text(score.value, decimals=metric.digits)
    return text, interval_text(score.low, score.high, decimals=metric.digits)


def _attention(record: RunRecord) -> list[dict[str, Any]]:
    """Panes by input: alignments (the mean over heads), documents or trees of the best checkpoint."""
    shown: list[AlignmentRecord | DocumentRecord] = [*record.alignments, *record.documents]
    panes = [_sound(one, key=str(number)) for number, one in enumerate(shown) if one.sound]
    panes += [_alignment(one) for one in record.alignments if not one.sound]
    for document in record.documents:
        if document.sound:
            continue
        drawn = min(len(document.tokens), MAX_WORDS)
        sentences = document_sentences(document, weight_views(document)[:1], drawn=drawn)
        label = f"{printable(document.label)}, {prediction_sentence(document)}"
        panes.append({"title": document.title, "label": label, "sentences": sentences})
    panes += _images(record, with_attention=True)
    panes += [{"title": tree.title, "charts": [("", tree_chart(tree))]} for tree in record.trees]
    return [_titled(pane) for pane in panes]


def _titled(pane: dict[str, Any]) -> dict[str, Any]:
    return {**pane, "title": truncate(printable(pane["title"]), 60)}


def _images(record: RunRecord, *, with_attention: bool) -> list[dict[str, Any]]:
    return [
        _image(one, key=str(number))
        for number, one in enumerate(record.images)
        if bool(one.attention) == with_attention
    ]


def _image(record: ClassifiedImage, *, key: str) -> dict[str, Any]:
    """An image with the attention over it, or the feature maps of a ConvNet."""
    image, features = record.image, record.feature_maps
    assert image is not None
    maps = list(pictures.shown_maps(record).values()) if record.attention else []
    return {
        "title": image.name,
        "image": image,
        "reference": record.reference,
        "prediction": f"{record.label} ({percent_text(record.probabilities[record.label])})",
        "probabilities": pictures.probabilities_text(record),
        "correct": None if record.reference is None else record.label == record.reference,
        "label": pictures.hops_text(record) if maps else "",
        "ramp": pictures.attention_ramp(maps) if maps else "",
        "chart": pictures.attention_chart(record, image, key=key)
        if maps
        else pictures.image_chart(image),
        "scale": pictures.scale_text(features) if features else "",
        "features": pictures.feature_maps_chart(features, image) if features else "",
    }


def _sound(record: AlignmentRecord | DocumentRecord, *, key: str) -> dict[str, Any]:
    """A recording with the attention over it."""
    sound = record.sound
    assert sound is not None
    if isinstance(record, AlignmentRecord):
        panel, chart = alignment_panel(record), alignment_chart(record, sound, key=key)
        said, chance = record.prediction, ""
    else:
        panel, chart = hop_panel(record), hops_chart(record, sound, key=key)
        said, chance = record.label, f" ({percent_text(record.probabilities[record.label])})"
    return {
        "title": sound.name,
        "sound": sound,
        "audio": audio_uri(sound),
        "reference": record.reference,
        "prediction": f"{said}{chance}",
        "correct": said.split() == record.reference.split() if record.reference else None,
        "label": panel.name,
        "chart": chart,
        "ramp": weight_ramp(panel.weights, limit=largest(panel.weights)),
    }


def _alignment(record: AlignmentRecord) -> dict[str, Any]:
    panels = mean_panels(record)
    limit, signed = weight_limit([panel.weights for panel in panels])
    charts = [
        (one.name, alignment_map(record, one.weights, limit=limit, name=one.name)) for one in panels
    ]
    ramp = colour_ramp(weight_text(limit), signed=signed)
    widest = len(record.source_tokens)
    return {"title": record.title, "charts": charts, "ramp": ramp, "widest": widest}
