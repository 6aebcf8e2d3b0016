"""Attention weights of every mechanism against hand-computed values."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.core.masks import Causal
from regard.mechanisms.kernels.elu import EluAttention
from regard.mechanisms.kernels.power_series import PolynomialAttention, TaylorAttention
from regard.mechanisms.kernels.taylor_window import TaylorWindowAttention
from regard.mechanisms.recurrences.decay import GatedAttention, RetentionAttention
from regard.mechanisms.recurrences.delta import DeltaAttention
from regard.mechanisms.scores.additive import AdditiveAttention
from regard.mechanisms.scores.dot_product import (
    DotAttention,
    GeneralAttention,
    ScaledDotAttention,
    WindowAttention,
)
from regard.mechanisms.scores.synthesizer import (
    DenseSynthesizer,
    FactorisedSynthesizer,
    LocationAttention,
    RandomSynthesizer,
)

LOG_3 = math.log(3.0)


def heads(rows: list[list[float]]) -> Tensor:
    """Rows of numbers as one head of one example."""
    return torch.tensor(rows, dtype=torch.float64)[None, None]


def close(weights: Tensor, rows: list[list[float]]) -> None:
    torch.testing.assert_close(weights, heads(rows))


def test_dot() -> None:
    # Scores 0 and log 3, so weights 1 : 3.
    close(DotAttention().weights(heads([[LOG_3]]), heads([[0.0], [1.0]])), [[0.25, 0.75]])


def test_scaled_dot() -> None:
    query, key = heads([[2 * LOG_3, 0, 0, 0]]), heads([[0, 0, 0, 0], [1, 0, 0, 0]])
    close(ScaledDotAttention().weights(query, key), [[0.25, 0.75]])


def test_general() -> None:
    mechanism = GeneralAttention(query_dim=1, key_dim=2).double()
    mechanism.bilinear.data = torch.tensor([[[0.0, LOG_3]]], dtype=torch.float64)
    close(mechanism.weights(heads([[1.0]]), heads([[5, 0], [0, 1]])), [[0.25, 0.75]])


def test_additive() -> None:
    mechanism = AdditiveAttention(query_dim=1, key_dim=1, hidden_dim=1).double()
    mechanism.query_weight.data.fill_(1.0)
    mechanism.key_weight.data.fill_(1.0)
    # tanh(0) = 0 and tanh(50) = 1.
    mechanism.score_vector.data.fill_(LOG_3)
    close(mechanism.weights(heads([[20.0]]), heads([[-20.0], [30.0]])), [[0.25, 0.75]])


def test_location() -> None:
    mechanism = LocationAttention(query_dim=1, max_length=5).double()
    mechanism.projection.data = torch.tensor([[[0.0, LOG_3, 9, 9, 9]]], dtype=torch.float64)
    close(mechanism.weights(heads([[1.0]]), heads([[7.0], [-7.0]])), [[0.25, 0.75]])


def test_window() -> None:
    weights = WindowAttention(radius=1).weights(heads([[0.0]] * 3), heads([[0.0]] * 3), Causal())
    close(weights, [[1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]])


def test_dense_synthesizer() -> None:
    mechanism = DenseSynthesizer(query_dim=1, hidden_dim=1, max_length=2).double()
    mechanism.hidden_weight.data.fill_(1.0)
    mechanism.hidden_bias.data.fill_(-1.0)
    mechanism.output_weight.data = torch.tensor([[[0.0, LOG_3]]], dtype=torch.float64)
    mechanism.output_bias.data = torch.tensor([[[LOG_3, 0.0]]], dtype=torch.float64)
    # relu(2 − 1) = 1: scores log 3 and log 3. relu(0 − 1) = 0: scores log 3 and 0.
    close(
        mechanism.weights(heads([[2.0], [0.0]]), heads([[0.0], [0.0]])), [[0.5, 0.5], [0.75, 0.25]]
    )


def test_random_synthesizer() -> None:
    mechanism = RandomSynthesizer(max_length=3).double()
    mechanism.table.data.zero_()
    mechanism.table.data[0, 1, 1] = LOG_3
    close(
        mechanism.weights(heads([[7.0], [7.0]]), heads([[1.0], [2.0]])), [[0.5, 0.5], [0.25, 0.75]]
    )


def test_factorised_synthesizer() -> None:
    mechanism = FactorisedSynthesizer(rank=1, max_length=3).double()
    mechanism.row_factors.data = torch.tensor([[[0.0], [LOG_3], [0]]], dtype=torch.float64)
    mechanism.column_factors.data = torch.tensor([[[0.0], [1.0], [0]]], dtype=torch.float64)
    close(
        mechanism.weights(heads([[7.0], [7.0]]), heads([[1.0], [2.0]])), [[0.5, 0.5], [0.25, 0.75]]
    )


def test_elu() -> None:
    # φ(1) = 2; φ(0) = 1 and φ(2) = 3.
    close(EluAttention().weights(heads([[1.0]]), heads([[0.0], [2.0]])), [[0.25, 0.75]])


def test_taylor() -> None:
    mechanism = TaylorAttention(key_dim=1, num_terms=3, scale=1.0)
    # 1 + 0 + 0 = 1 and 1 + 2 + 2 = 5.
    close(mechanism.weights(heads([[1.0]]), heads([[0.0], [2.0]])), [[1 / 6, 5 / 6]])


def test_polynomial() -> None:
    mechanism = PolynomialAttention(key_dim=1, power=3, constant=1.0)
    # (0 + 1)³ = 1 and (1 + 1)³ = 8; an odd power may be negative: (−2 + 1)³ = −1.
    close(mechanism.weights(heads([[1.0]]), heads([[0.0], [1.0]])), [[1 / 9, 8 / 9]])
    close(mechanism.weights(heads([[1.0]]), heads([[-2.0], [1.0]])), [[-1 / 7, 8 / 7]])


def test_retention() -> None:
    weights = RetentionAttention().weights(heads([[1.0]] * 3), heads([[1.0]] * 3), Causal())
    decay = 31 / 32
    close(weights, [[1, 0, 0], [decay, 1, 0], [decay**2, decay, 1]])


def test_gated() -> None:
    log_decay = torch.tensor([0.9, 0.5, 0.25], dtype=torch.float64).log()[None, None, :, None]
    weights = GatedAttention().weights(
        heads([[1.0]] * 3), heads([[1.0]] * 3), Causal(), log_decay=log_decay
    )
    close(weights, [[1, 0, 0], [0.5, 1, 0], [0.125, 0.25, 1]])


def test_delta() -> None:
    key = heads([[3.0, 0.0], [5.0, 0.0], [0.0, 1.0]])
    strength = torch.ones(1, 1, 3, 1, dtype=torch.float64)
    root = 2**0.5
    weights = DeltaAttention().weights(
        heads([[root, 0], [root, 0], [root, root]]), key, Causal(), strength=strength
    )
    # The second key has the direction of the first, so it replaces the first value.
    close(weights, [[1, 0, 0], [0, 1, 0], [0, 1, 1]])


def test_taylor_window() -> None:
    mechanism = TaylorWindowAttention(key_dim=1, radius=1, num_terms=2)
    weights = mechanism.weights(heads([[1.0]] * 3), heads([[2.0], [0.0], [LOG_3]]), Causal())
    # The last query: 1 + 2 beyond the window, then exp(0) and exp(log 3) in it.
    close(weights[:, :, 2:], [[3 / 7, 1 / 7, 3 / 7]])
