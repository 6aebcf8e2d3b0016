"""Traces: fake and real runs give the same record."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.core.cost import AttentionShape
from regard.costs.trace import MODES, Mode, trace
from regard.costs.workloads import attention_workload, module_workload

SHAPE = AttentionShape(
    num_heads=2, query_length=48, key_length=48, key_dim=8, value_dim=8, causal=True
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["scaled_dot", "elu", "delta"])
def test_fake_and_real_tensors_give_the_same_trace(name: str, mode: Mode) -> None:
    workload = attention_workload(name, SHAPE, mode)
    fake, real = trace(workload), trace(workload, real=True)
    assert (fake.matmul_flops, fake.transcendental_ops) == (
        real.matmul_flops,
        real.transcendental_ops,
    )
    assert fake.calls == real.calls
    assert (fake.name, fake.mode) == (name, mode)


def test_training_a_linear_layer_takes_three_matmuls() -> None:
    def build() -> tuple[nn.Module, list[torch.Tensor]]:
        return nn.Linear(8, 16, bias=False), [torch.randn(4, 8)]

    forward, train = (trace(module_workload("mine", mode, build)) for mode in ("forward", "train"))
    assert forward.matmul_flops == 2 * 4 * 8 * 16
    assert train.matmul_flops == 3 * forward.matmul_flops


def test_a_data_dependent_module_is_traced_on_real_tensors() -> None:
    class DataDependent(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ x if x.numpy().sum() < 0 else x @ x @ x

    def build() -> tuple[nn.Module, list[torch.Tensor]]:
        return DataDependent(), [torch.ones(4, 4)]

    assert trace(module_workload("mine", "forward", build)).matmul_flops == 2 * 2 * 4**3
