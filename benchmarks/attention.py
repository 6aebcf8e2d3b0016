"""Attention mechanisms: speed and memory, batch 1, 8 heads, float32, one thread, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.measurement import (
    Measurement,
    forward_and_backward,
    median_seconds,
    peak_elements,
    random_leaf,
)
from regard.core.cost import AttentionShape
from regard.core.masks import Causal
from regard.core.mechanism import Mechanism
from regard.layers.multi_head import MultiHead
from regard.mechanisms import MECHANISMS, build_mechanism

HEADS = 8
HEAD_DIM = 64
SERIES_DIM = 16

causal_sdpa = partial(functional.scaled_dot_product_attention, is_causal=True)


class PlainSelfAttention(nn.Module):
    """Hand-written multi-head attention on PyTorch's fused kernel."""

    def __init__(self, model_dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.inputs = nn.Linear(model_dim, 3 * model_dim)
        self.output = nn.Linear(model_dim, model_dim)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.inputs(x).view(batch, length, 3, self.num_heads, width // self.num_heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        context = functional.scaled_dot_product_attention(query, key, value)
        return self.output(context.transpose(1, 2).reshape(batch, length, width))


def multi_head() -> Iterator[Measurement]:
    """Our layer against a hand-written one."""
    model_dim = HEADS * HEAD_DIM
    ours, plain = (
        MultiHead(model_dim=model_dim, num_heads=HEADS),
        PlainSelfAttention(model_dim, HEADS),
    )
    for length in (128, 512, 2048):
        x = random_leaf(1, length, model_dim)
        calls = [forward_and_backward(m, [x], list(m.parameters())) for m in (ours, plain)]
        mine, theirs = median_seconds(calls, repeats=15 if length < 2000 else 9)
        label = f"multi-head scaled dot, time / hand-written, n = {length}"
        yield Measurement(label, mine / theirs, 1.05, larger_is_better=False)


def compare_with_causal_sdpa(
    name: str, mechanism: Mechanism, *, width: int, thresholds: dict[int, float]
) -> Iterator[Measurement]:
    """A causal mechanism against PyTorch's causal fused kernel, at each length with a threshold."""
    mask = Causal()
    for length, threshold in thresholds.items():
        inputs = [random_leaf(1, HEADS, length, width) for _ in range(3)]
        calls = [
            forward_and_backward(lambda q, k, v: mechanism(q, k, v, mask), inputs),
            forward_and_backward(causal_sdpa, inputs),
        ]
        ours, theirs = median_seconds(calls, repeats=21 if length < 2000 else 5)
        label = f"causal {name}, times faster than causal SDPA, n = {length}"
        detail = f"({ours * 1e3:.1f} ms against {theirs * 1e3:.1f} ms)"
        yield Measurement(label, theirs / ours, threshold, larger_is_better=True, detail=detail)


def speed() -> Iterator[Measurement]:
    """Every causal mechanism with a speed threshold."""
    sizes = {"query_dim": HEAD_DIM, "key_dim": HEAD_DIM}
    yield from compare_with_causal_sdpa(
        "scaled dot",
        build_mechanism("scaled_dot", **sizes),
        width=HEAD_DIM,
        thresholds={256: 1.0, 512: 1.0},
    )
    yield from compare_with_causal_sdpa(
        "elu + 1",
        build_mechanism("elu", **sizes),
        width=HEAD_DIM,
        thresholds={384: 1.0, 512: 1.0, 1024: 3.0, 4096: 8.0, 8192: 15.0},
    )
    taylor = build_mechanism("taylor", query_dim=SERIES_DIM, key_dim=SERIES_DIM, num_terms=3)
    yield from compare_with_causal_sdpa(
        f"Taylor K = 3, width {SERIES_DIM},",
        taylor,
        width=SERIES_DIM,
        thresholds={4096: 3.3, 8192: 5.5},
    )
    window = build_mechanism("window", **sizes, radius=128)
    yield from compare_with_causal_sdpa(
        "window r = 128", window, width=HEAD_DIM, thresholds={8192: 10.0}
    )


def linear_mechanisms() -> Iterator[tuple[str, Mechanism, int]]:
    """Every mechanism whose declared FLOPs are linear in the length."""
    for name in MECHANISMS:
        width = MECHANISMS[name].head_dim
        mechanism = build_mechanism(
            name, query_dim=width, key_dim=width, num_heads=HEADS, max_length=1
        )
        short, long = (
            mechanism.cost(
                AttentionShape(
                    num_heads=HEADS,
                    query_length=length,
                    key_length=length,
                    key_dim=width,
                    value_dim=width,
                    causal=True,
                )
            ).matmul_flops
            for length in (4096, 8192)
        )
        if long <= 2.3 * short:
            yield name, mechanism, width


def growth() -> Iterator[Measurement]:
    """Time and memory when the length doubles."""
    mask = Causal()
    for name, mechanism, width in linear_mechanisms():
        calls = []
        for length in (4096, 8192):
            inputs = [random_leaf(1, HEADS, length, width) for _ in range(3)]
            gates = {
                gate.name: gate.activation(
                    torch.randn(1, HEADS, length, width if gate.width == "key_dim" else 1)
                )
                for gate in mechanism.gates
            }
            calls.append(forward_and_backward(partial(_attend, mechanism, mask, gates), inputs))
        short, long = median_seconds(calls, repeats=3)
        detail = f"({short * 1e3:.0f} → {long * 1e3:.0f} ms)"
        label = f"{name}: time, n = 8192 / n = 4096"
        yield Measurement(label, long / short, 2.3, larger_is_better=False, detail=detail)
        few, many = (peak_elements(call) for call in calls)
        label = f"{name}: peak memory, n = 8192 / n = 4096"
        detail = f"({few * 4 / 2**20:.0f} → {many * 4 / 2**20:.0f} MiB)"
        yield Measurement(label, many / few, 2.3, larger_is_better=False, detail=detail)


def _attend(
    mechanism: Mechanism, mask: Causal, gates: dict[str, Tensor], q: Tensor, k: Tensor, v: Tensor
) -> Tensor:
    output: Tensor = mechanism(q, k, v, mask, **gates)
    return output


def additive_memory() -> Iterator[Measurement]:
    """The additive score must not store a hidden vector for every query–key pair."""
    length = 2048
    mechanism = build_mechanism("additive", query_dim=HEAD_DIM, key_dim=HEAD_DIM)
    inputs = [random_leaf(1, 1, length, HEAD_DIM) for _ in range(3)]
    call = forward_and_backward(mechanism, inputs, list(mechanism.parameters()))
    naive = length * length * HEAD_DIM
    peak = peak_elements(call)
    label = f"additive: peak memory / (n_q·n_k·hidden), n = {length}"
    detail = f"({peak * 4 / 2**20:.0f} MiB of {naive * 4 / 2**20:.0f})"
    yield Measurement(label, peak / naive, 0.2, larger_is_better=False, detail=detail)


BENCHMARKS: dict[str, Callable[[], Iterator[Measurement]]] = {
    "multi-head": multi_head,
    "speed": speed,
    "growth": growth,
    "additive-memory": additive_memory,
}
