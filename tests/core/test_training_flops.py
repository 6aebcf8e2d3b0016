"""FLOPs of training against an independent count of the matrix products that really run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard.core.cost import AttentionShape
from regard.core.counting import count_call
from regard.core.masks import NO_MASK, Causal, Mask, Window
from regard.costs.trace import trace
from regard.costs.workloads import attention_workload
from regard.mechanisms import ScaledDotAttention

BATCH, HEADS = 4, 4


class MatrixProducts(TorchDispatchMode):
    """2·m·n·k of every matrix product; those inside fused attention as its loops execute them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = func.overloadpacket.__name__
        if name in ("mm", "bmm", "addmm", "baddbmm"):
            left, right = args[-2:]
            self.flops += 2 * left.numel() * right.shape[-1]
        elif name == "_scaled_dot_product_flash_attention_for_cpu":
            self.flops += 2 * fused(*args[:2], is_causal=args[4:] == (True,))
        elif name == "_scaled_dot_product_flash_attention_for_cpu_backward":
            self.flops += 5 * fused(*args[1:3], is_causal=args[7])
        else:
            assert "attention" not in name
        return func(*args, **(kwargs or {}))


def fused(query: Tensor, key: Tensor, *, is_causal: bool) -> int:
    """One product of fused attention, in the loops of ATen/native/cpu/FlashAttentionKernel.cpp."""
    batch, heads, query_size, width = query.shape
    kv_size = key.shape[2]
    q_split = 256 if query_size >= 768 else 64 if query_size >= 192 else 32
    pairs = 0
    for m in range(0, query_size, q_split):
        q_block = min(q_split, query_size - m)
        num_keys = min(m + q_block, kv_size) if is_causal else kv_size
        for n in range(0, num_keys, 512):
            pairs += q_block * min(512, kv_size - n)
    return 2 * batch * heads * pairs * width


def tensors(length: int, width: int) -> list[Tensor]:
    return [torch.randn(BATCH, HEADS, length, width, requires_grad=True) for _ in range(3)]


def executed(call: Any, leaves: list[Tensor]) -> int:
    with MatrixProducts() as products:
        output = call()
        torch.autograd.grad(output, leaves, torch.ones_like(output))
    return products.flops


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("width", [16, 64], ids=["fused", "in blocks if causal"])
@pytest.mark.parametrize("length", [64, 128, 256, 512, 1000])
def test_training_flops_are_those_executed(length: int, width: int, causal: bool) -> None:
    mechanism, mask = ScaledDotAttention(), Causal() if causal else NO_MASK
    inputs = tensors(length, width)
    flops = executed(lambda: mechanism(*inputs, mask), inputs)
    assert count_call(lambda: mechanism(*inputs, mask), backward=True).matmul_flops == flops
    shape = AttentionShape(
        batch_size=BATCH,
        num_heads=HEADS,
        query_length=length,
        key_length=length,
        key_dim=width,
        value_dim=width,
        causal=causal,
    )
    cost = mechanism.cost(shape)
    assert cost.matmul_flops + cost.backward_matmul_flops == flops
    assert trace(attention_workload("scaled_dot", shape, "train", {})).matmul_flops == flops


@pytest.mark.parametrize("length", [100, 300])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize(
    "mask",
    [Causal(), Causal() & Mask(lengths=torch.tensor([100, 70, 65, 1])), Window(9), NO_MASK],
    ids=["causal", "causal and padded", "window", "full"],
)
def test_masks_and_dropout(length: int, dropout: float, mask: Mask) -> None:
    mechanism, inputs = ScaledDotAttention(), tensors(length, 32)
    call = lambda: mechanism(*inputs, mask, dropout=dropout)  # noqa: E731
    counted = count_call(call, backward=True)
    assert counted.matmul_flops == executed(call, inputs)
