"""Study page: question and verdict, evidence, reproducibility; also of runs compared afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from markupsafe import Markup

from regard.core.formatting import percent_text, rate_text, weight_text
from regard.core.records.image import ImageRecord
from regard.core.records.sound import SoundRecord
from regard.core.records.study import AttentionExample, PairVerdict, StudyRecord, VariantRecord
from regard.views.charts.heatmap import (
    Matrix,
    alignment_map,
    colour_ramp,
    largest,
    mean_map,
    weight_limit,
    weight_ramp,
)
from regard.views.charts.image import (
    attention_chart,
    attention_ramp,
    image_chart,
    limit_of,
)
from regard.views.charts.intervals import interval_axis, interval_row
from regard.views.charts.sound import (
    alignment_chart,
    alignment_panel,
    audio_uri,
    sound_chart,
)
from regard.views.charts.study import (
    AXES,
    agreement_rows,
    all_equal,
    difference_interval,
    difference_scale,
    learning_curves,
    pareto_chart,
    score_interval,
    score_scale,
    verdict_map,
    with_cost,
)
from regard.views.charts.variants import (
    TOO_FEW_SEEDS,
    Question,
    Variants,
    missing_text,
    pairing_text,
    seeds_text,
    shared_text,
)
from regard.views.pages.render import render_page

SECTIONS = {
    "differences": "Not equal between the runs",
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
# Up to this many pairs are all shown; four variants have six.
MAX_SHOWN_PAIRS = 6
# Heatmaps of many variants: those of the best ones.
MAX_HEATMAPS = 12


def study_page(record: StudyRecord) -> str:
    """The study as self-contained HTML; empty sections are omitted."""
    v = Variants(record)
    pairs = {question: _pairs(v, question) for question in ("method", "models")}
    costs = {measure: found for measure in v.measures if len(found := with_cost(v, measure)) > 1}
    equal = [measure for measure, found in costs.items() if all_equal(found, measure)]
    pareto = [(one, pareto_chart(v, one)) for one in costs if one not in equal]
    curves = [(axis, chart) for axis in AXES if (chart := learning_curves(v, axis))]
    agreement_scale, agreement = agreement_rows(v)
    on_items = any(variant.primary.item_low is not None for variant in record.variants)
    other_pairs, other_which = _other_pairs(v)
    contents = {
        "differences": record.differences,
        "variants": record.variants,
        "method": pairs["method"],
        "models": pairs["models"],
        "metrics": v.scored and (on_items or record.metrics[1:]),
        "pareto": costs,
        "curves": curves,
        "items": record.disagreements,
        "attention": record.attention_examples or record.attention_note,
        "agreement": agreement or record.agreement_source,
        "problems": any(run.state == "failed" for run in record.runs),
        "repeat": True,
    }
    return render_page(
        "study.html",
        record=record,
        v=v,
        kind="study" if record.is_study else "report",
        sections={name: title for name, title in SECTIONS.items() if contents[name]},
        columns=_columns(v),
        scale=score_scale(v),
        interval_axis=interval_axis,
        interval_row=interval_row,
        score_interval=score_interval,
        problems=partial(_problems, record),
        pair_groups=pairs,
        verdict_map=verdict_map,
        pairing_text=pairing_text,
        on_items=on_items,
        seeds_text=seeds_text(record),
        other_pairs=other_pairs,
        other_which=other_which,
        pareto=pareto,
        equal_costs=[f"{one.name} ({one.text(costs[one][0])})" for one in equal],
        curves=curves,
        attention=[_attention(v, example) for example in record.attention_examples],
        has_images=any(example.image for example in record.attention_examples),
        has_sounds=any(example.sound for example in record.attention_examples),
        agreement=agreement,
        agreement_scale=agreement_scale,
        options=list(dict.fromkeys(name for one in v.settings.values() for name in one)),
    )


class Column(NamedTuple):
    """A column of the variant table; `key` selects how a cell is drawn, `style` its class."""

    key: str
    heading: str
    meaning: str
    text: Callable[[VariantRecord], str]
    number: Callable[[VariantRecord], Any]
    style: str = ""


def _columns(v: Variants) -> list[Column]:
    """The columns after the name and the plot that some variant has a value for."""
    record, primary = v.record, v.record.primary
    mean = f"mean over seeds on {record.split}, with its 95 % confidence interval"
    if not record.is_finished:
        mean = seeds_text(record)
    meaning = "; ".join(filter(None, [mean, primary.note]))
    columns = [
        Column("score", primary.heading, meaning, str, lambda one: _known(one.mean), "score"),
        Column(
            "verdict",
            "against baseline",
            "of the method, over seeds",
            str,
            lambda one: v.against_baseline(one.name) or "",
            "verdict-cell",
        ),
        Column(
            "agreement",
            "agreement",
            "of the attention with known alignments",
            lambda one: "–" if one.agreement is None else percent_text(one.agreement),
            lambda one: _known(one.agreement),
        ),
        *(Column(one.name, one.name, one.meaning, one.text, one.number) for one in v.measures),
        Column(
            "shared",
            "shared initial parameters",
            "parameters with the initial values of the baseline, per seed",
            shared_text,
            lambda one: _known(one.shared_initialisation),
        ),
        Column(
            "rate",
            "learning rate",
            "the selected one",
            lambda one: "–" if one.learning_rate is None else rate_text(one.learning_rate),
            lambda one: _known(one.learning_rate),
        ),
    ]
    is_compared = record.is_finished and v.baseline is not None and len(record.variants) > 1
    return [
        column
        for column in columns
        if column.key == "score"
        or (is_compared and column.key == "verdict")
        or (column.key != "verdict" and any(column.number(one) != "" for one in record.variants))
    ]


def _known(number: float | None) -> float | str:
    return "" if number is None else number


def _problems(record: StudyRecord, variant: VariantRecord) -> str:
    return "; ".join(filter(None, [missing_text(record, variant.name), variant.problems]))


class Pairs(NamedTuple):
    """The comparisons for one question, and how they are shown; `matrix` is "table", "map" or empty."""

    shown: list[PairVerdict]
    others: list[PairVerdict]
    caption: str
    matrix: str
    axis: Markup
    row: Callable[[PairVerdict], Markup]
    with_detectable: bool
    with_flops: bool
    too_few_seeds: bool


def _pairs(v: Variants, question: Question) -> Pairs | None:
    """All pairs if they are few, else those with the baseline; None if no pair was compared."""
    record = v.record
    pairs = record.verdicts_of(question)
    if not pairs:
        return None
    shown, others, caption, matrix = pairs, [], "", ""
    if len(pairs) > MAX_SHOWN_PAIRS:
        name = v.baseline.name if v.baseline else ""
        shown = [pair for pair in pairs if name in (pair.first, pair.second)]
        others = [pair for pair in pairs if name not in (pair.first, pair.second)]
        caption = f"Pairs with the baseline, {name}"
        if {pair.verdict for pair in pairs} != {TOO_FEW_SEEDS}:
            matrix = "map" if v.is_many else "table"
    # Of many variants, a few extreme pairs would compress the plots of those that are shown.
    scale = difference_scale(shown if v.is_many and shown else pairs)
    return Pairs(
        shown=shown,
        others=others,
        caption=caption,
        matrix=matrix,
        axis=interval_axis(scale),
        row=lambda pair: interval_row(difference_interval(record, pair), scale, at=0.0),
        with_detectable=any(pair.detectable_difference is not None for pair in pairs),
        with_flops=any(pair.flops_ratio is not None for pair in pairs),
        too_few_seeds=any(pair.verdict == TOO_FEW_SEEDS for pair in pairs),
    )


def _other_pairs(v: Variants) -> tuple[list[tuple[str, str]], str]:
    """Pairs that were compared by the other metrics; of many, those with the baseline."""
    metric = v.record.metric
    pairs = list(
        dict.fromkeys((one.first, one.second) for one in v.record.verdicts if one.metric != metric)
    )
    if len(pairs) <= MAX_SHOWN_PAIRS or v.baseline is None:
        return pairs, ""
    shown = [pair for pair in pairs if v.baseline.name in pair]
    return shown, ", pairs with the baseline (the record has all)"


def _attention(v: Variants, example: AttentionExample) -> dict[str, Any]:
    """One heatmap per variant for the same source, best variant first, all on one scale."""
    names = [one.name for one in v.ranked if one.name in {**example.alignments, **example.images}]
    if v.is_many:
        best = [name for name in names if name in v.named]
        names = best[:MAX_HEATMAPS]
    if example.image:
        return _image(example, example.image, names)
    means = {name: mean_map(example.alignments[name]) for name in names}
    if example.sound:
        return _sound(example, example.sound, means)
    limit, signed = weight_limit(list(means.values()))
    charts = []
    for name in names:
        record = example.alignments[name]
        # The maps may already be means over heads.
        single = sum(map(len, record.maps.values())) == 1 and "mean" not in next(iter(record.maps))
        note = "" if single else "mean over heads and layers"
        charts.append((name, alignment_map(record, means[name], limit=limit, name=name), note))
    widest = max((len(example.alignments[name].source_tokens) for name in names), default=1)
    ramp = colour_ramp(weight_text(limit), signed=signed)
    found: dict[str, Any] = {"input": example.input, "charts": charts, "widest": widest}
    return {**found, "ramp": ramp}


def _image(example: AttentionExample, image: ImageRecord, names: list[str]) -> dict[str, Any]:
    """The image once, and the mean weights of every variant over it, all on one scale."""
    shown = {name: example.images[name] for name in names}
    means = [each.mean_attention() for each in shown.values()]
    return {
        "input": example.input,
        "image": image,
        "reference": next((each.reference for each in shown.values()), None),
        "picture": image_chart(image),
        "charts": [
            (
                name,
                attention_chart(each, image, limit=limit_of(means), is_mean=True, key=name),
                f"{each.label} ({percent_text(each.probabilities[each.label])})",
            )
            for name, each in shown.items()
        ],
        "ramp": attention_ramp(means),
    }


def _sound(
    example: AttentionExample, sound: SoundRecord, means: Mapping[str, Matrix]
) -> dict[str, Any]:
    """The spectrogram once, and the weights of every variant on the same time axis."""
    weights = [row for matrix in means.values() for row in matrix]
    limit = largest(weights)
    records = {name: example.alignments[name] for name in means}
    return {
        "input": example.input,
        "sound": sound,
        "reference": next((each.reference for each in records.values()), ""),
        "audio": audio_uri(sound),
        "spectrogram": sound_chart(sound, key=example.input),
        "charts": [
            (
                name,
                alignment_chart(
                    each, sound, limit=limit, with_spectrogram=False, key=f"{example.input}{name}"
                ),
                f"{alignment_panel(each).name}: {each.prediction or '(empty)'}",
            )
            for name, each in records.items()
        ],
        "ramp": weight_ramp(weights, limit=limit),
    }
