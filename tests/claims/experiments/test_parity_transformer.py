"""The PARITY Transformer: hand-checked features, all short strings, and equality with its full layers."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from regard.claims.experiments.parity_transformer import (
    HIT,
    OUTPUT,
    ParityTransformer,
    evaluate_lengths,
    token_features,
)


def full_layers(model: ParityTransformer, bits: Tensor) -> Tensor:
    """Output at START if all positions go through all layers."""
    lengths = torch.full((len(bits),), bits.shape[1])
    x = token_features(bits, lengths)
    x = x + model.count_attention(x)
    x = x + model.hit_feed_forward(x)
    return (x + model.parity_attention(x))[:, 0, OUTPUT]


def test_output_equals_the_full_layers() -> None:
    model = ParityTransformer()
    for length in (1, 2, 7, 31):
        bits = torch.randint(0, 2, (5, length), generator=torch.Generator().manual_seed(length))
        scores = model(bits, torch.full((5,), length))
        torch.testing.assert_close(scores[:, 0], full_layers(model, bits))


def test_hit_position_is_the_number_of_ones() -> None:
    model = ParityTransformer()
    bits = torch.tensor([[1, 0, 1, 0, 0]])  # two ones, six positions with START
    x = token_features(bits, torch.tensor([5]))
    x = x + model.count_attention(x)
    hits = (x + model.hit_feed_forward(x))[0, :, HIT]
    torch.testing.assert_close(hits, torch.tensor([0, 0, 1 / 6, 0, 0, 0], dtype=torch.float64))


def test_all_strings_of_up_to_ten_bits() -> None:
    model = ParityTransformer()
    for length in range(1, 11):
        bits = torch.tensor(list(product((0, 1), repeat=length)))
        predicted = model(bits, torch.full((len(bits),), length)).argmax(dim=-1)
        assert torch.equal(predicted, bits.sum(dim=-1) % 2)


def test_padding_changes_nothing() -> None:
    model = ParityTransformer()
    bits = torch.tensor([[1, 1, 1]])
    padded = torch.tensor([[1, 1, 1, 0, 0]])
    torch.testing.assert_close(model(padded, torch.tensor([3])), model(bits, torch.tensor([3])))


def test_margin() -> None:
    """One bit, two positions: ½ · e² / (e² + e⁻²) minus the other head's context, twice."""
    (run,) = evaluate_lengths((1,))
    even = torch.tensor([2.0, -2.0]).softmax(dim=0)
    assert run.margin == pytest.approx(2 * 0.5 * float(even[0] - even[1]))
    assert (run.strings, run.wrong) == (9, 0)
