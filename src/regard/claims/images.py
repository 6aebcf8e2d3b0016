"""The ConvNet: what changes its number of parameters, its learning rate, and what makes it overfit.

Counts are those of models on torch's meta device. Claims about accuracy train small ConvNets on the
embedded digits (`experiments/images.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import torch

from regard.claims.engine import (
    claim,
    count_parameters,
    curve_figure,
    line,
    verdict_over,
)
from regard.claims.experiments.images import (
    RATES,
    accuracies_by_rate,
    gaps_by_size,
)
from regard.core.batches import ImageSpec
from regard.core.records.claim import Curve, CurveFigure, Finding
from regard.models.classifiers.convnet import ConvNet
from regard.studies.statistics.paired import (
    SeedComparison,
    SeedPair,
    VariantOverSeeds,
    compare_over_seeds,
)

VARIANTS: dict[str, dict[str, object]] = {
    "pooled, padded": {},
    "pooled, unpadded": {"padding": 0},
    "strided, padded": {"downsampling": "stride"},
}
TRAINED_RANGES = {"seeds": (1, 20), "steps": (1, 5000)}


@claim(
    statement="Dropping the pooling raises the parameter count of the ConvNet.",
    formula="stride 2 instead of 2×2 pooling: the first linear layer has 16·side² inputs either way",
    source="course notes: CNN parameter counts",
    proof="counted",
    known_false=True,
    ranges={"side": (10, 128), "classes": (1, 1000)},
)
def removing_pooling_adds_parameters(*, side: int = 28, classes: int = 4) -> Finding:
    counted = image_parameters(side=side, classes=classes)
    pooled, strided = counted["pooled, padded"], counted["strided, padded"]
    return Finding(
        verdict="holds" if strided > pooled else "fails",
        reason=f"For {side} × {side} images, with a padded first convolution: {pooled:,} parameters with "
        f"pooling, {strided:,} with stride 2 instead.",
        values={"pooled": pooled, "strided": strided},
        figure=_parameters_figure(classes=classes),
        counter_example=f"{side} × {side}: {pooled:,} with pooling, {strided:,} without.",
    )


@claim(
    statement="The smaller count with pooling comes from missing padding in the first convolution.",
    formula="(16·6² − 16·5²) · 320 = 56,320 = 224,892 − 168,572",
    source="course notes: CNN parameter counts (corrected)",
    proof="counted",
    ranges=dict.fromkeys(("with_pooling", "without_pooling"), (0, 10**9)),
)
def missing_padding_removes_parameters(
    *, with_pooling: int = 168_572, without_pooling: int = 224_892
) -> Finding:
    counted = image_parameters()
    explained = (
        counted["pooled, unpadded"] == with_pooling
        and counted["strided, padded"] == without_pooling
    )
    same = counted["pooled, padded"] == counted["strided, padded"]
    summary = "; ".join(f"{name}: {count:,}" for name, count in counted.items())
    return Finding(
        verdict="holds" if explained and same else "fails",
        reason=f"{summary}. The counts {with_pooling:,} and {without_pooling:,} are "
        f"{'' if explained else 'not '}those of the pooled network without padding and of the "
        "strided one.",
        values=counted,
        figure=_parameters_figure(classes=4),
        counter_example=summary,
    )


def image_parameters(*, side: int = 28, classes: int = 4) -> dict[str, int]:
    """Parameters of three variants of the ConvNet for grey images."""
    with torch.device("meta"):
        return {
            name: count_parameters(
                ConvNet(source=ImageSpec(1, side, side), outputs=classes, **options)  # type: ignore[arg-type]
            )
            for name, options in VARIANTS.items()
        }


def _parameters_figure(*, classes: int) -> CurveFigure:
    sides = range(20, 37)
    counts = [image_parameters(side=side, classes=classes) for side in sides]
    return curve_figure(
        "Parameters by image size",
        ("image side", "parameters"),
        *(
            line(name, sides, [count[name] for count in counts], dashed=name == "pooled, padded")
            for name in VARIANTS
        ),
        marks=((28.0, "28"),),
    )


@claim(
    statement="Of the learning rates 0.1, 0.01 and 0.001, 0.01 is best for the ConvNet.",
    formula="validation accuracy with 0.01 > with 0.1, 0.001",
    source="course notes: training a CNN",
    proof="measured",
    trained=True,
    ranges=TRAINED_RANGES,
)
def learning_rate_of_one_hundredth_is_best(*, seeds: int = 5, steps: int = 500) -> Finding:
    comparisons = {
        optimizer: compare_over_seeds(by_rate, lower_is_better=False)
        for optimizer, by_rate in accuracies_by_rate(seeds=seeds, steps=steps).items()
    }
    best = [name for name, of_rates in comparisons.items() if is_best(of_rates, "0.01")]
    summary = ". ".join(
        f"{name}: {means_text(of_rates)}; {pairs_text(of_rates, with_variant='0.01')}"
        for name, of_rates in comparisons.items()
    )
    return Finding(
        verdict=verdict_over(best, comparisons),
        reason=f"Mean validation accuracy (%) on the digits after {steps} steps at a constant rate, over "
        f"{seeds} seeds. {summary}. Intervals are simultaneous over the rates of an optimizer.",
        values={
            f"{name}, {variant.variant}": variant.mean
            for name, of_rates in comparisons.items()
            for variant in of_rates.variants
        },
        figure=curve_figure(
            "Validation accuracy by learning rate, with 95 % intervals over seeds",
            ("learning rate", "accuracy (%)"),
            *(interval_line(name, RATES, of_rates) for name, of_rates in comparisons.items()),
            log="x",
        ),
        condition=f"the optimizer is {' or '.join(best)}",
        counter_example=f"Not shown: {summary}.",
    )


def is_best(comparison: SeedComparison, variant: str) -> bool:
    """Whether a variant is significantly better than every other."""
    verdicts = [
        pair.verdict == ("better" if pair.first == variant else "worse")
        for pair in comparison.pairs
        if variant in (pair.first, pair.second)
    ]
    return all(verdicts)


@claim(
    statement="More parameters overfit.",
    formula="training − validation accuracy grows with the number of parameters",
    source="course notes: overfitting; Belkin et al. 2019 describe the fall beyond interpolation",
    proof="measured",
    trained=True,
    ranges=TRAINED_RANGES,
)
def more_parameters_overfit(*, seeds: int = 5, steps: int = 300) -> Finding:
    gaps = gaps_by_size(seeds=seeds, steps=steps)
    comparisons = {
        examples: compare_over_seeds(by_size, lower_is_better=True)
        for examples, by_size in gaps.items()
    }
    steps_in_size = {
        f"{examples} examples, from {pair.first} to {pair.second} parameters": pair
        for examples, of_sizes in comparisons.items()
        for pair in neighbours(of_sizes)
    }
    grown = [step for step, pair in steps_in_size.items() if pair.verdict == "better"]
    fallen = [step for step, pair in steps_in_size.items() if pair.verdict == "worse"]
    summary = "; ".join(
        f"{examples} examples: {means_text(of_sizes)}" for examples, of_sizes in comparisons.items()
    )
    return Finding(
        verdict=verdict_over(grown, steps_in_size),
        reason=f"Mean gap (points) of ConvNets after {steps} steps of AdamW without dropout, over {seeds} "
        f"seeds. {summary}. From one size to the next it grows in {len(grown)} and falls in {len(fallen)} "
        f"of {len(steps_in_size)} cases; intervals are simultaneous over the sizes.",
        values=_gap_values(comparisons),
        figure=_gap_figure(comparisons),
        condition="there are "
        + "; ".join(f"{step} ({difference(steps_in_size[step])})" for step in grown),
        counter_example="; ".join(
            f"{step}: {difference(pair)}"
            for step, pair in steps_in_size.items()
            if step not in grown
        ),
    )


@claim(
    statement="Overfitting is largest on little data, whatever the number of parameters.",
    formula="training − validation accuracy falls with the number of examples",
    source="course notes: overfitting",
    proof="measured",
    trained=True,
    ranges=TRAINED_RANGES,
)
def little_data_overfit(*, seeds: int = 5, steps: int = 300) -> Finding:
    gaps = gaps_by_size(seeds=seeds, steps=steps)
    sizes = list(next(iter(gaps.values())))
    comparisons = {
        size: compare_over_seeds(
            {f"{examples} examples": by_size[size] for examples, by_size in gaps.items()},
            lower_is_better=True,
        )
        for size in sizes
    }
    # Fewer examples come first: each step to more must be an improvement.
    falling = [
        size
        for size, of_examples in comparisons.items()
        if all(pair.verdict == "worse" for pair in neighbours(of_examples))
    ]
    summary = "; ".join(
        f"{size} parameters: {means_text(of_examples)} "
        f"({', '.join(difference(pair) for pair in neighbours(of_examples))})"
        for size, of_examples in comparisons.items()
    )
    by_examples = {
        examples: compare_over_seeds(by_size, lower_is_better=True)
        for examples, by_size in gaps.items()
    }
    return Finding(
        verdict=verdict_over(falling, sizes),
        reason=f"Mean gap (points) of ConvNets after {steps} steps of AdamW without dropout, over {seeds} "
        f"seeds, and differences between neighbours with simultaneous intervals. {summary}.",
        values=_gap_values(by_examples),
        figure=_gap_figure(by_examples),
        condition=f"the model has {' or '.join(falling)} parameters",
        counter_example=f"Not shown: {summary}.",
    )


def neighbours(comparison: SeedComparison) -> list[SeedPair]:
    """The pairs of variants that follow each other."""
    names = [variant.variant for variant in comparison.variants]
    wanted = set(pairwise(names))
    return [pair for pair in comparison.pairs if (pair.first, pair.second) in wanted]


def means_text(comparison: SeedComparison) -> str:
    """Every variant with its mean."""
    return ", ".join(f"{each.variant} {each.mean:.1f}" for each in comparison.variants)


def pairs_text(comparison: SeedComparison, *, with_variant: str) -> str:
    """The verdicts and differences of all pairs with a variant."""
    return "; ".join(
        f"{pair.sentence()} ({difference(pair)})"
        for pair in comparison.pairs
        if with_variant in (pair.first, pair.second)
    )


def difference(pair: SeedPair) -> str:
    """The second mean minus the first, with its simultaneous interval."""
    interval = pair.simultaneous_interval
    bounds = "" if interval is None else f" [{-interval.high:+.1f}, {-interval.low:+.1f}]"
    return f"{-pair.difference:+.1f}{bounds}"


def interval_line(label: str, x: tuple[float, ...], comparison: SeedComparison) -> Curve:
    """The means of variants over x, with their 95 % intervals."""
    bounds = [_interval(variant) for variant in comparison.variants]
    return line(
        label,
        x,
        [variant.mean for variant in comparison.variants],
        low=[low for low, _ in bounds],
        high=[high for _, high in bounds],
    )


def _interval(variant: VariantOverSeeds) -> tuple[float, float]:
    return variant.interval or (variant.mean, variant.mean)


def _gap_values(comparisons: Mapping[int, SeedComparison]) -> dict[str, float]:
    return {
        f"{examples} examples, {variant.variant} parameters": variant.mean
        for examples, of_sizes in comparisons.items()
        for variant in of_sizes.variants
    }


def _gap_figure(comparisons: Mapping[int, SeedComparison]) -> CurveFigure:
    return curve_figure(
        "Training minus validation accuracy, with 95 % intervals over seeds",
        ("parameters", "gap (points)"),
        *(
            interval_line(
                f"{examples} examples",
                tuple(float(each.variant.replace(",", "")) for each in of_sizes.variants),
                of_sizes,
            )
            for examples, of_sizes in comparisons.items()
        ),
        log="x",
    )
