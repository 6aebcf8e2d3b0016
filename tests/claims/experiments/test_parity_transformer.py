"""The machine for PARITY, by hand and against the whole of its layers."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from regard.claims.experiments.parity_transformer import (
    HIT,
    SAID,
    ParityMachine,
    at_lengths,
    placed,
)


def whole_layers(machine: ParityMachine, bits: Tensor) -> Tensor:
    """What START ends with if every place goes through every layer, as in any Transformer."""
    lengths = torch.full((len(bits),), bits.shape[1])
    x = placed(bits, lengths)
    x = x + machine.counting(x)
    x = x + machine.hitting(x)
    return (x + machine.comparing(x))[:, 0, SAID]


def test_reading_by_start_alone_is_the_whole_transformer() -> None:
    machine = ParityMachine()
    for length in (1, 2, 7, 31):
        bits = torch.randint(0, 2, (5, length), generator=torch.Generator().manual_seed(length))
        scores = machine(bits, torch.full((5,), length))
        torch.testing.assert_close(scores[:, 0], whole_layers(machine, bits))


def test_the_place_that_is_hit_is_the_number_of_ones() -> None:
    machine = ParityMachine()
    bits = torch.tensor([[1, 0, 1, 0, 0]])  # two ones, six places with START
    x = placed(bits, torch.tensor([5]))
    x = x + machine.counting(x)
    hits = (x + machine.hitting(x))[0, :, HIT]
    torch.testing.assert_close(hits, torch.tensor([0, 0, 1 / 6, 0, 0, 0], dtype=torch.float64))


def test_every_string_of_up_to_ten_bits_is_right() -> None:
    machine = ParityMachine()
    for length in range(1, 11):
        bits = torch.tensor(list(product((0, 1), repeat=length)))
        said = machine(bits, torch.full((len(bits),), length)).argmax(dim=-1)
        assert torch.equal(said, bits.sum(dim=-1) % 2)


def test_padding_changes_nothing() -> None:
    machine = ParityMachine()
    bits = torch.tensor([[1, 1, 1]])
    padded = torch.tensor([[1, 1, 1, 0, 0]])
    torch.testing.assert_close(machine(padded, torch.tensor([3])), machine(bits, torch.tensor([3])))


def test_the_margin_by_hand() -> None:
    """One bit, two places: e² / (e² + e⁻²) of a half, less what the other head reads, twice."""
    (run,) = at_lengths((1,))
    even = torch.tensor([2.0, -2.0]).softmax(dim=0)
    assert run.margin == pytest.approx(2 * 0.5 * float(even[0] - even[1]))
    assert (run.strings, run.wrong) == (9, 0)
