"""Against independent computations: PyTorch's fused attention, and O(n²) sums in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from regard.core.masks import NO_MASK, Allowed, Causal, Mask, Padding, Window
from regard.mechanisms.kernels.elu import EluAttention
from regard.mechanisms.kernels.linear_attention import KernelMechanism
from regard.mechanisms.kernels.monomials import monomial_features, num_monomials
from regard.mechanisms.kernels.power_series import PolynomialAttention, TaylorAttention
from regard.mechanisms.kernels.random_features import RandomFeatureAttention
from regard.mechanisms.scores.dot_product import DotAttention, ScaledDotAttention, WindowAttention

BATCH, HEADS, WIDTH = 2, 3, 5
LENGTHS = torch.tensor([131, 97])


Three = tuple[Tensor, Tensor, Tensor]


def draw(length: int, *, scale: float = 1.0) -> Three:
    """Random query, key and value with gradients."""
    generator = torch.Generator().manual_seed(0)
    size = (3, BATCH, HEADS, length, WIDTH)
    drawn = scale * torch.randn(size, dtype=torch.float64, generator=generator)
    query, key, value = (tensor.clone().requires_grad_() for tensor in drawn)
    return query, key, value


def agree(ours: Tensor, theirs: Tensor, inputs: Three, *, tolerance: float = 1e-10) -> None:
    """Equal outputs, and equal gradients of every input."""
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)
    upstream = torch.randn_like(ours)
    found = torch.autograd.grad(ours, inputs, upstream)
    expected = torch.autograd.grad(theirs, inputs, upstream)
    for got, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=tolerance)


MASKS: dict[str, Mask] = {
    "none": NO_MASK,
    "causal": Causal(),
    "padding": Padding(LENGTHS),
    "causal and padding": Causal() & Padding(LENGTHS),
    "window": Window(7),
    "causal window": Causal() & Window(7),
    "allowed": Allowed(torch.rand(131, 131, generator=torch.Generator().manual_seed(1)) < 0.5),
}


@pytest.mark.parametrize("name", MASKS)
def test_scaled_dot_parity_with_torch(name: str) -> None:
    inputs, mask = draw(131), MASKS[name]
    theirs = functional.scaled_dot_product_attention(*inputs, attn_mask=mask.boolean(131, 131))
    agree(ScaledDotAttention()(*inputs, mask), theirs, inputs)


@pytest.mark.parametrize(("heads", "width", "length"), [(8, 64, 300), (8, 64, 1600), (1, 16, 130)])
def test_causal_scaled_dot_parity_with_torch(heads: int, width: int, length: int) -> None:
    query, key, value = (torch.randn(1, heads, length, width, requires_grad=True) for _ in range(3))
    inputs = (query, key, value)
    theirs = functional.scaled_dot_product_attention(*inputs, is_causal=True)
    agree(ScaledDotAttention()(*inputs, Causal()), theirs, inputs, tolerance=2e-5)


def test_dot_parity_with_torch() -> None:
    inputs = draw(37)
    agree(
        DotAttention()(*inputs), functional.scaled_dot_product_attention(*inputs, scale=1.0), inputs
    )


@pytest.mark.parametrize("radius", [0, 1, 7, 200])
@pytest.mark.parametrize("causal", [False, True])
def test_window_parity_with_torch(radius: int, causal: bool) -> None:
    inputs, mask = draw(131), Causal() if causal else NO_MASK
    band = (mask & Window(radius)).boolean(131, 131)
    theirs = functional.scaled_dot_product_attention(*inputs, attn_mask=band)
    agree(WindowAttention(radius=radius)(*inputs, mask), theirs, inputs)


def elu_pairs(query: Tensor, key: Tensor) -> Tensor:
    return (functional.elu(query) + 1) @ (functional.elu(key) + 1).mT


def taylor_pairs(num_terms: int) -> object:
    def pairs(query: Tensor, key: Tensor) -> Tensor:
        scores = query @ key.mT / math.sqrt(WIDTH)
        return torch.stack([scores**m / math.factorial(m) for m in range(num_terms)]).sum(0)

    return pairs


KERNELS: dict[str, tuple[KernelMechanism, object]] = {
    "elu": (EluAttention(), elu_pairs),
    "taylor 1": (TaylorAttention(key_dim=WIDTH, num_terms=1), taylor_pairs(1)),
    "taylor 3": (TaylorAttention(key_dim=WIDTH, num_terms=3), taylor_pairs(3)),
    "taylor 5": (TaylorAttention(key_dim=WIDTH, num_terms=5), taylor_pairs(5)),
    "(q·k + 1)²": (PolynomialAttention(key_dim=WIDTH), lambda q, k: (q @ k.mT + 1) ** 2),
    "(q·k)²": (
        PolynomialAttention(key_dim=WIDTH, constant=0.0),
        lambda q, k: (q @ k.mT) ** 2,
    ),
    "(q·k + 2)⁴": (
        PolynomialAttention(key_dim=WIDTH, power=4, constant=2.0),
        lambda q, k: (q @ k.mT + 2) ** 4,
    ),
}


@pytest.mark.parametrize("form", ["quadratic", "linear"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_equal_the_quadratic_sum(name: str, padded: bool, causal: bool, form: Any) -> None:
    mechanism, pairs = KERNELS[name]
    assert callable(pairs)
    inputs = draw(131)
    mask = (Causal() if causal else NO_MASK) & (Padding(LENGTHS) if padded else NO_MASK)
    query, key, value = inputs
    allowed = mask.boolean(131, 131)
    every = pairs(query, key)
    every = every if allowed is None else every * allowed
    theirs = every @ value / every.sum(dim=-1, keepdim=True)
    mechanism.form = form
    agree(mechanism(*inputs, mask), theirs, inputs)


@pytest.mark.parametrize("degree", range(5))
@pytest.mark.parametrize("width", [1, 2, 7])
def test_monomials_equal_the_power_of_the_dot_product(width: int, degree: int) -> None:
    query, key = (torch.randn(4, 6, width, dtype=torch.float64) for _ in range(2))
    coefficients = [0.0] * degree + [1.0]
    features = [monomial_features(x, coefficients=coefficients) for x in (query, key)]
    torch.testing.assert_close(
        features[0] @ features[1].mT, (query @ key.mT) ** degree, rtol=0, atol=1e-10
    )
    assert features[0].shape[-1] == math.comb(width + degree - 1, degree)


@pytest.mark.parametrize("num_terms", [1, 2, 3, 4])
def test_taylor_features_equal_the_series_of_exp(num_terms: int) -> None:
    query, key = (torch.randn(1, 1, 6, 7, dtype=torch.float64) for _ in range(2))
    kernel = TaylorAttention(key_dim=7, num_terms=num_terms, scale=1.0).kernel
    features = kernel.query_features(query) @ kernel.key_features(key).mT
    scores = query @ key.mT
    series = torch.stack([scores**m / math.factorial(m) for m in range(num_terms)]).sum(0)
    torch.testing.assert_close(features, series, rtol=0, atol=1e-10)
    torch.testing.assert_close(kernel.pairwise(query, key), series, rtol=0, atol=1e-10)
    assert kernel.num_features(7) == math.comb(7 + num_terms - 1, num_terms - 1)
    assert kernel.num_features(7) == num_monomials(7, range(num_terms))


@pytest.mark.parametrize("power", [1, 2, 3, 4])
@pytest.mark.parametrize("constant", [0.0, 1.0, 2.5])
def test_polynomial_features_equal_the_power(power: int, constant: float) -> None:
    query, key = (torch.randn(1, 1, 6, 7, dtype=torch.float64) for _ in range(2))
    kernel = PolynomialAttention(key_dim=7, power=power, constant=constant).kernel
    features = kernel.query_features(query) @ kernel.key_features(key).mT
    torch.testing.assert_close(features, (query @ key.mT + constant) ** power, rtol=0, atol=1e-10)


def test_taylor_converges_to_softmax() -> None:
    inputs = draw(31, scale=0.5)
    exact = ScaledDotAttention()(*inputs)
    errors = [
        (TaylorAttention(key_dim=WIDTH, num_terms=terms)(*inputs) - exact).abs().max().item()
        for terms in (1, 3, 5, 7, 9)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-4


def test_random_features_converge_to_softmax() -> None:
    inputs = draw(31, scale=0.5)
    exact = ScaledDotAttention()(*inputs)
    errors = []
    for count in (16, 4096):
        mechanism = RandomFeatureAttention(key_dim=WIDTH, num_features=count).double()
        errors.append((mechanism(*inputs) - exact).abs().mean().item())
    assert errors[1] < errors[0] / 4
