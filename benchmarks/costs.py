"""Predicted against measured: time, memory and crossover lengths, at shapes no calibration has seen.

Each drawn shape is traced, predicted and run. Errors are |predicted / measured − 1|; memory is the growth
of a process of its own, which keeps nothing it has freed. The machine is calibrated anew after every few
shapes: where its own pace changes by half within minutes, as on shared hosts, that would be measured else.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median, quantiles
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from benchmarks.measuring import Finding
from regard.core.cost import AttentionShape
from regard.costs.calibration import Calibration, calibrate
from regard.costs.measure import measured_seconds, peaks_in_child
from regard.costs.predict import crossover, predict, price_at
from regard.costs.trace import MODES, Mode, Run, Workload, trace
from regard.costs.workloads import (
    LAYERS,
    attention_workload,
    build_for,
    layer_workload,
    self_attention_workload,
)
from regard.layers.cost import SequenceShape
from regard.mechanisms import MECHANISMS
from regard.models import build_model

SEED = 0
# What a drawn call may hold at most, so that all of them are run in a few minutes.
MOST_POSITIONS = 16384
LARGE_BYTES = 16 << 20
VOCABULARY = 2000
SHAPES_A_CALIBRATION = 21


class Drawn(NamedTuple):
    """What is told of a piece of work in the table, and its recipe, which another process can make too."""

    group: str
    what: str
    recipe: Callable[[], Workload]


def costs() -> Iterator[Finding]:
    """Every bar of the costs, on all threads there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    try:
        yield from _findings()
    finally:
        torch.set_num_threads(before)


def _findings() -> Iterator[Finding]:
    yield from _time_findings()
    yield from _memory_findings()
    yield from _crossover_findings()


def _time_findings() -> Iterator[Finding]:
    ratios: dict[str, list[float]] = defaultdict(list)
    repeated: list[float] = []
    drawn = list(_drawn(random.Random(SEED)))
    random.Random(SEED).shuffle(drawn)  # so that a slow spell does not fall on one mechanism
    took = []
    for first in range(0, len(drawn), SHAPES_A_CALIBRATION):
        some = drawn[first : first + SHAPES_A_CALIBRATION]
        calibration = calibrate()
        took.append(calibration.took_seconds)
        predictions = [predict(trace(one.recipe()), calibration).seconds for one in some]
        once = [measured_seconds(one.recipe()) for one in some]
        again = [measured_seconds(one.recipe()) for one in some]
        for (group, what, _), predicted, *both in zip(some, predictions, once, again, strict=True):
            measured = min(both)
            repeated.append(both[1] / both[0])
            ratios[group].append(predicted / measured)
            print(
                f"  {what:64} predicted {predicted * 1e3:9.3f} ms  measured {measured * 1e3:9.3f} ms"
                f"  ratio {predicted / measured:5.2f}",
                flush=True,
            )
    changes = [abs(ratio - 1) for ratio in repeated]
    print(
        "  the same shapes measured twice, half a minute apart, differ by"
        f" {median(changes):.1%} (median), {quantiles(changes, n=10)[-1]:.1%} (90th percentile)"
    )
    yield Finding(
        "calibration: seconds (median)",
        median(took),
        30.0,
        larger_is_better=False,
        detail=f"(of {len(took)})",
    )
    print("  median and largest error by group")
    for group, found in sorted(ratios.items()):
        errors = [abs(ratio - 1) for ratio in found]
        print(f"  {group:28} {median(errors):6.1%} {max(errors):7.1%}  of {len(errors)}")
    errors = [abs(ratio - 1) for found in ratios.values() for ratio in found]
    detail = f"({len(errors)} shapes)"
    yield Finding(
        "predicted time: median error", median(errors), 0.15, larger_is_better=False, detail=detail
    )
    ninetieth = quantiles(errors, n=10)[-1]
    yield Finding(
        "predicted time: 90th percentile", ninetieth, 0.35, larger_is_better=False, detail=detail
    )


def _drawn(draw: random.Random) -> Iterator[Drawn]:
    for name in MECHANISMS:
        for mode in MODES:
            for _ in range(2):
                yield _attention(name, mode, draw)
    for name in (*LAYERS, "self-attention"):
        for mode in MODES[:2]:
            for _ in range(2):
                yield _layer(name, mode, draw)
    for name in ("transformer", "recurrent"):
        for _ in range(4):
            yield _training_step(name, draw)


def _attention(name: str, mode: Mode, draw: random.Random) -> Drawn:
    narrow = MECHANISMS[name].head_dim < 64
    width = draw.choice([8, 12, 16] if narrow else [16, 24, 32, 48, 64])
    heads, batch = draw.choice([1, 2, 4, 8]), draw.choice([1, 2, 4])
    length = round(2 ** draw.uniform(6, 11))
    if name == "additive":
        length = min(length, 500)
    length = min(length, MOST_POSITIONS // (batch * heads))
    # Which masks it takes does not depend on its sizes.
    needs_past = build_for(name, _shape(1, 1, 1, 8, causal=True)).capabilities.requires_causal
    causal = needs_past or draw.random() < 0.5
    shape = _shape(batch, heads, length, width, causal=causal)
    told = f"{batch}×{heads} heads, n={length}, d={width}{', causal' if causal else ''}"
    return Drawn(name, f"{name}, {mode}: {told}", partial(attention_workload, name, shape, mode))


def _shape(batch: int, heads: int, length: int, width: int, *, causal: bool) -> AttentionShape:
    return AttentionShape(
        batch_size=batch,
        num_heads=heads,
        query_length=length,
        key_length=length,
        key_dim=width,
        value_dim=width,
        causal=causal,
    )


def _layer(name: str, mode: Mode, draw: random.Random) -> Drawn:
    width, batch = draw.choice([96, 128, 192, 256, 384]), draw.choice([1, 4, 8, 16])
    shape = SequenceShape(batch_size=batch, length=round(2 ** draw.uniform(4, 8)))
    told = f"{name}, {mode}: {batch} rows, n={shape.length}, width {width}"
    if name == "self-attention":
        sizes = {"model_dim": width, "num_heads": 4}
        return Drawn(
            name, told, partial(self_attention_workload, "scaled_dot", shape, mode, **sizes)
        )
    return Drawn(name, told, partial(layer_workload, name, shape, mode, model_dim=width))


def _training_step(name: str, draw: random.Random) -> Drawn:
    """A whole step: forward, loss, backward, optimiser."""
    width, layers = draw.choice([96, 128, 192, 256]), draw.choice([1, 2, 3])
    batch, length = draw.choice([8, 16, 32]), draw.choice([12, 20, 28, 40])
    sizes: dict[str, Any] = {
        "transformer": {"model_dim": width, "num_layers": layers, "feed_forward_dim": 4 * width},
        "recurrent": {"hidden_dim": width, "embedding_dim": width, "num_layers": layers},
    }
    if name == "recurrent":
        sizes[name] |= {"wiring": "after", "mechanism": "dot"}

    told = f"{name}: a training step, {layers} layers of {width}, {batch}×{length} tokens"
    recipe = partial(training_step, name, batch=batch, length=length, options=sizes[name])
    return Drawn(f"{name} (step)", told, recipe)


def training_step(name: str, *, batch: int, length: int, options: dict[str, Any]) -> Workload:
    """A model's step on drawn tokens."""

    def prepare() -> Run:
        model: Any = build_model(
            name, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, **options
        )
        optimiser = torch.optim.AdamW(model.parameters(), fused=True)
        source = torch.randint(4, VOCABULARY, (batch, length))
        lengths = torch.full((batch,), length)

        def run() -> None:
            logits = model(source, lengths, source)
            F.cross_entropy(logits.flatten(0, 1), source.flatten()).backward()
            optimiser.step()
            optimiser.zero_grad()

        run()  # the optimiser makes its moments at its first step
        return run

    return Workload(name, "train", prepare)


def _memory_findings() -> Iterator[Finding]:
    """Peaks large enough that a process's pages and small allocations do not matter."""
    large = []
    for drawn in _drawn(random.Random(SEED)):
        traced = trace(drawn.recipe())
        if traced.mode != "decode" and traced.peak_bytes >= LARGE_BYTES:
            large.append((drawn, traced.peak_bytes))
    errors = []
    peaks = peaks_in_child(drawn.recipe for drawn, _ in large)
    for (drawn, predicted), measured in zip(large, peaks, strict=True):
        if not isinstance(measured, int):
            print(f"  {drawn.what}: {measured or 'this system keeps no book of peak memory'}")
            continue
        errors.append(abs(predicted / measured - 1))
        print(
            f"  {drawn.what:64} predicted {predicted / 2**20:7.1f} MiB"
            f"  measured {measured / 2**20:7.1f} MiB  ratio {predicted / measured:5.2f}",
            flush=True,
        )
    if not errors:
        return
    detail = f"({len(errors)} shapes)"
    yield Finding(
        "predicted memory: median error",
        median(errors),
        0.10,
        larger_is_better=False,
        detail=detail,
    )


def _crossover_findings() -> Iterator[Finding]:
    calibration = calibrate()
    for other, width in (("elu", 64), ("taylor", 16), ("polynomial", 16)):
        yield _crossing(
            f"scaled_dot / {other}",
            partial(_one, "scaled_dot", width=width),
            partial(_one, other, width=width),
            calibration,
        )
    yield _crossing(
        "self-attention / LSTM",
        lambda length: layer_workload(
            "lstm", SequenceShape(length=length, batch_size=8), "train", model_dim=256
        ),
        lambda length: self_attention_workload(
            "scaled_dot",
            SequenceShape(length=length, batch_size=8),
            "train",
            model_dim=256,
            num_heads=4,
        ),
        calibration,
        reverse=True,
    )


def _one(name: str, length: int, *, width: int) -> Workload:
    return attention_workload(name, _shape(1, 4, length, width, causal=True), "train")


def _crossing(
    what: str,
    first: Callable[[int], Workload],
    second: Callable[[int], Workload],
    calibration: Calibration,
    *,
    reverse: bool = False,
) -> Finding:
    """How far the predicted crossing lies from the measured one, as a factor of 1 or more."""
    if reverse:
        first, second = second, first

    def predicted(make: Callable[[int], Workload]) -> Callable[[int], float]:
        return lambda length: price_at(make, length, calibration).seconds or 0.0

    def measured(make: Callable[[int], Workload]) -> Callable[[int], float]:
        return lambda length: measured_seconds(make(length))

    lengths = (32, 64, 128, 181, 256, 362, 512, 724, 1024, 1448, 2048, 4096)
    expected = crossover(predicted(first), predicted(second), lengths)
    found = crossover(measured(first), measured(second), lengths)
    if expected is None or found is None:
        factor = 1.0 if expected == found else float("inf")
    else:
        factor = max(expected / found, found / expected)
    return Finding(
        f"crossover {what}: predicted / measured",
        factor,
        1.5,
        larger_is_better=False,
        detail=f"(predicted n = {expected}, measured n = {found})",
    )
