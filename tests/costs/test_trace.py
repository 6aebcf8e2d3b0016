"""Traces: fake and real runs give the same record."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.core.cost import AttentionShape
from regard.costs.trace import MODES, Mode, trace
from regard.costs.workloads import attention_workload, module_workload, traced_module

SHAPE = AttentionShape(
    num_heads=2, query_length=48, key_length=48, key_dim=8, value_dim=8, causal=True
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["scaled_dot", "elu", "delta"])
def test_fake_tensors_tell_what_real_ones_do(name: str, mode: Mode) -> None:
    workload = attention_workload(name, SHAPE, mode)
    fake, real = trace(workload), trace(workload, really=True)
    assert (fake.products, fake.functions) == (real.products, real.functions)
    assert fake.calls == real.calls
    assert (fake.name, fake.mode) == (name, mode)


def test_training_is_forward_and_two_products_more_for_a_linear_layer() -> None:
    def build() -> tuple[nn.Module, list[torch.Tensor]]:
        return nn.Linear(8, 16, bias=False), [torch.randn(4, 8)]

    forward, train = (trace(module_workload("mine", mode, build)) for mode in ("forward", "train"))
    assert forward.products == 2 * 4 * 8 * 16
    assert train.products == 3 * forward.products


def test_a_module_that_asks_for_values_is_traced_while_it_runs() -> None:
    class Asking(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ x if x.numpy().sum() < 0 else x @ x @ x

    def build() -> tuple[nn.Module, list[torch.Tensor]]:
        return Asking(), [torch.ones(4, 4)]

    assert traced_module("mine", "forward", build).products == 2 * 2 * 4**3
