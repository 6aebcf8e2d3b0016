"""Cost model: predicted against measured time, memory and crossover lengths, at random shapes.

Each random shape is traced, predicted and run. Errors are |predicted / measured − 1|; memory is the
growth of a separate process that keeps no freed memory. The machine is calibrated again after every few
shapes, because the speed of shared hosts changes within minutes.
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

from benchmarks.measurement import Measurement
from regard.core.batches import TokenInput
from regard.core.cost import AttentionShape
from regard.costs.calibration import Calibration, calibrate
from regard.costs.measure import measured_seconds, peaks_in_child
from regard.costs.predict import EstimateByLength, crossover, predict
from regard.costs.trace import MODES, Mode, Run, Workload, trace
from regard.costs.workloads import (
    LAYERS,
    SELF_ATTENTION,
    attention_workload,
    build_for_shape,
    layer_workload,
)
from regard.layers.cost import SequenceShape
from regard.mechanisms import MECHANISMS
from regard.models import build_model

SEED = 0
# Upper limit of a random shape, so that all of them run in a few minutes.
MAX_POSITIONS = 16384
LARGE_BYTES = 16 << 20
VOCABULARY = 2000
SHAPES_PER_CALIBRATION = 21


class RandomWorkload(NamedTuple):
    """A workload with its label in the table; `recipe` builds it, in another process too."""

    group: str
    label: str
    recipe: Callable[[], Workload]


def costs() -> Iterator[Measurement]:
    """All measurements, on all threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    try:
        yield from _measurements()
    finally:
        torch.set_num_threads(before)


def _measurements() -> Iterator[Measurement]:
    yield from _time_measurements()
    yield from _memory_measurements()
    yield from _crossover_measurements()


def _time_measurements() -> Iterator[Measurement]:
    ratios: dict[str, list[float]] = defaultdict(list)
    repeat_ratios: list[float] = []
    workloads = list(_random_workloads(random.Random(SEED)))
    random.Random(SEED).shuffle(
        workloads
    )  # so that a slow phase does not affect one mechanism only
    calibration_seconds = []
    for first in range(0, len(workloads), SHAPES_PER_CALIBRATION):
        selected = workloads[first : first + SHAPES_PER_CALIBRATION]
        calibration = calibrate()
        calibration_seconds.append(calibration.elapsed_seconds)
        predictions = [predict(trace(one.recipe()), calibration).seconds for one in selected]
        once = [measured_seconds(one.recipe()) for one in selected]
        again = [measured_seconds(one.recipe()) for one in selected]
        for (group, label, _), predicted, *both in zip(
            selected, predictions, once, again, strict=True
        ):
            measured = min(both)
            repeat_ratios.append(both[1] / both[0])
            ratios[group].append(predicted / measured)
            print(
                f"  {label:64} predicted {predicted * 1e3:9.3f} ms  measured {measured * 1e3:9.3f} ms"
                f"  ratio {predicted / measured:5.2f}",
                flush=True,
            )
    changes = [abs(ratio - 1) for ratio in repeat_ratios]
    print(
        "  two measurements of the same shapes, half a minute apart, differ by"
        f" {median(changes):.1%} (median), {quantiles(changes, n=10)[-1]:.1%} (90th percentile)"
    )
    yield Measurement(
        "calibration: seconds (median)",
        median(calibration_seconds),
        30.0,
        larger_is_better=False,
        detail=f"(of {len(calibration_seconds)})",
    )
    print("  median and largest error by group")
    for group, found in sorted(ratios.items()):
        errors = [abs(ratio - 1) for ratio in found]
        print(f"  {group:28} {median(errors):6.1%} {max(errors):7.1%}  of {len(errors)}")
    errors = [abs(ratio - 1) for found in ratios.values() for ratio in found]
    detail = f"({len(errors)} shapes)"
    yield Measurement(
        "predicted time: median error", median(errors), 0.15, larger_is_better=False, detail=detail
    )
    ninetieth = quantiles(errors, n=10)[-1]
    yield Measurement(
        "predicted time: 90th percentile", ninetieth, 0.35, larger_is_better=False, detail=detail
    )


def _random_workloads(draw: random.Random) -> Iterator[RandomWorkload]:
    for name in MECHANISMS:
        for mode in MODES:
            for _ in range(2):
                yield _attention(name, mode, draw)
    for name in LAYERS:
        for mode in MODES[:2]:
            for _ in range(2):
                yield _layer(name, mode, draw)
    for name in ("transformer", "recurrent"):
        for _ in range(4):
            yield _training_step(name, draw)


def _attention(name: str, mode: Mode, draw: random.Random) -> RandomWorkload:
    narrow = MECHANISMS[name].head_dim < 64
    width = draw.choice([8, 12, 16] if narrow else [16, 24, 32, 48, 64])
    heads, batch = draw.choice([1, 2, 4, 8]), draw.choice([1, 2, 4])
    length = round(2 ** draw.uniform(6, 11))
    if name == "additive":
        length = min(length, 500)
    length = min(length, MAX_POSITIONS // (batch * heads))
    # Its masks do not depend on its sizes.
    capabilities = build_for_shape(name, _shape(1, 1, 1, 8, causal=True)).capabilities
    causal = capabilities.requires_causal or draw.random() < 0.5
    shape = _shape(batch, heads, length, width, causal=causal)
    label = f"{batch}×{heads} heads, n={length}, d={width}{', causal' if causal else ''}"
    recipe = partial(attention_workload, name, shape, mode)
    return RandomWorkload(name, f"{name}, {mode}: {label}", recipe)


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


def _layer(name: str, mode: Mode, draw: random.Random) -> RandomWorkload:
    width, batch = draw.choice([96, 128, 192, 256, 384]), draw.choice([1, 4, 8, 16])
    shape = SequenceShape(batch_size=batch, length=round(2 ** draw.uniform(4, 8)))
    label = f"{name}, {mode}: {batch} rows, n={shape.length}, width {width}"
    prepare = partial(layer_workload, name, shape, mode, model_dim=width, num_heads=4)
    return RandomWorkload(name, label, prepare)


def _training_step(name: str, draw: random.Random) -> RandomWorkload:
    """A whole training step: forward, loss, backward, optimizer."""
    width, layers = draw.choice([96, 128, 192, 256]), draw.choice([1, 2, 3])
    batch, length = draw.choice([8, 16, 32]), draw.choice([12, 20, 28, 40])
    sizes: dict[str, Any] = {
        "transformer": {"model_dim": width, "num_layers": layers, "feed_forward_dim": 4 * width},
        "recurrent": {"hidden_dim": width, "embedding_dim": width, "num_layers": layers},
    }
    if name == "recurrent":
        sizes[name] |= {"attention_style": "luong", "mechanism": "dot"}

    label = f"{name}: a training step, {layers} layers of {width}, {batch}×{length} tokens"
    recipe = partial(training_step, name, batch=batch, length=length, options=sizes[name])
    return RandomWorkload(f"{name} (step)", label, recipe)


def training_step(name: str, *, batch: int, length: int, options: dict[str, Any]) -> Workload:
    """A model's step on workloads tokens."""

    def prepare() -> Run:
        model: Any = build_model(name, source=VOCABULARY, target_vocabulary=VOCABULARY, **options)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        source = torch.randint(4, VOCABULARY, (batch, length))
        source_input = TokenInput(source, torch.full((batch,), length))

        def run() -> None:
            logits = model(source_input, source)
            F.cross_entropy(logits.flatten(0, 1), source.flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()

        run()  # the optimizer allocates its moments at the first step
        return run

    return Workload(name, "train", prepare)


def _memory_measurements() -> Iterator[Measurement]:
    """Only peaks so large that pages and small allocations do not matter."""
    large = []
    for workload in _random_workloads(random.Random(SEED)):
        traced = trace(workload.recipe())
        if traced.mode != "decode" and traced.peak_bytes >= LARGE_BYTES:
            large.append((workload, traced.peak_bytes))
    errors = []
    peaks = peaks_in_child(workload.recipe for workload, _ in large)
    for (workload, predicted), measured in zip(large, peaks, strict=True):
        if not isinstance(measured, int):
            print(
                f"  {workload.label}: {measured or 'peak memory is not available on this system'}"
            )
            continue
        errors.append(abs(predicted / measured - 1))
        print(
            f"  {workload.label:64} predicted {predicted / 2**20:7.1f} MiB"
            f"  measured {measured / 2**20:7.1f} MiB  ratio {predicted / measured:5.2f}",
            flush=True,
        )
    if not errors:
        return
    detail = f"({len(errors)} shapes)"
    yield Measurement(
        "predicted memory: median error",
        median(errors),
        0.10,
        larger_is_better=False,
        detail=detail,
    )


def _crossover_measurements() -> Iterator[Measurement]:
    calibration = calibrate()
    for other, width in (("elu", 64), ("taylor", 16), ("polynomial", 16)):
        yield _crossover_ratio(
            f"scaled_dot / {other}",
            partial(_one, "scaled_dot", width=width),
            partial(_one, other, width=width),
            calibration,
        )
    yield _crossover_ratio(
        "self-attention / LSTM",
        lambda length: layer_workload(
            "lstm", SequenceShape(length=length, batch_size=8), "train", model_dim=256
        ),
        lambda length: layer_workload(
            SELF_ATTENTION,
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


def _crossover_ratio(
    label: str,
    first: Callable[[int], Workload],
    second: Callable[[int], Workload],
    calibration: Calibration,
    *,
    reverse: bool = False,
) -> Measurement:
    """Ratio of predicted and measured crossover length, as 1 or more."""
    if reverse:
        first, second = second, first

    def predicted(make: Callable[[int], Workload]) -> Callable[[int], float]:
        return lambda length: EstimateByLength(make, calibration).at(length).seconds or 0.0

    def measured(make: Callable[[int], Workload]) -> Callable[[int], float]:
        return lambda length: measured_seconds(make(length))

    lengths = (32, 64, 128, 181, 256, 362, 512, 724, 1024, 1448, 2048, 4096)
    expected = crossover(predicted(first), predicted(second), lengths)
    found = crossover(measured(first), measured(second), lengths)
    if expected is None or found is None:
        factor = 1.0 if expected == found else float("inf")
    else:
        factor = max(expected / found, found / expected)
    return Measurement(
        f"crossover {label}: predicted / measured",
        factor,
        1.5,
        larger_is_better=False,
        detail=f"(predicted n = {expected}, measured n = {found})",
    )
