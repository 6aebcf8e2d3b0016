"""The loss, its gradient against finite differences, and the closed form as its minimum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.models.autoencoders.linear import Factors, autoencoder_loss, closed_form, loss_gradient


def random_factors(generator: np.random.Generator, *, components: int, features: int) -> Factors:
    return Factors(
        generator.normal(size=(components, features)), generator.normal(size=(features, components))
    )


def moved(factors: Factors, direction: Factors, *, by: float) -> Factors:
    return Factors(
        factors.encoder + by * direction.encoder, factors.decoder + by * direction.decoder
    )


def test_loss() -> None:
    # Two samples, (2, 0) and (0, 1); only the first feature passes, at half its size.
    root = np.array([[2.0, 0.0], [0.0, 1.0]])
    factors = Factors(np.array([[1.0, 0.0]]), np.array([[0.5], [0.0]]))
    # (2 − 1)² + 1² of error, and 0.1 × (1² + 0.5²) of penalty.
    assert autoencoder_loss(root, factors, penalty=0.1) == pytest.approx(2 + 0.125)


def test_loss_depends_on_the_covariance_only() -> None:
    generator = np.random.default_rng(0)
    table = generator.normal(size=(19, 5))
    factors = random_factors(generator, components=3, features=5)
    triangle = np.linalg.qr(table).R
    assert autoencoder_loss(triangle, factors, penalty=0.3) == pytest.approx(
        autoencoder_loss(table, factors, penalty=0.3)
    )


def test_gradient_equals_finite_differences() -> None:
    generator = np.random.default_rng(1)
    root = generator.normal(size=(7, 5))
    factors = random_factors(generator, components=3, features=5)
    slope = loss_gradient(root, factors, penalty=0.7)
    for _ in range(5):
        direction = random_factors(generator, components=3, features=5)
        ahead, behind = (
            autoencoder_loss(root, moved(factors, direction, by=by), penalty=0.7)
            for by in (1e-5, -1e-5)
        )
        along = (slope.encoder * direction.encoder).sum() + (
            slope.decoder * direction.decoder
        ).sum()
        assert (ahead - behind) / 2e-5 == pytest.approx(along, rel=1e-6)


def test_closed_form() -> None:
    # Eigenvalues 4 and 1: at penalty 1 the first keeps √(1 − 1/4), the second is dropped.
    encoder, decoder = closed_form(np.diag([2.0, 1.0]), n_components=2, penalty=1.0)
    assert np.abs(encoder) == pytest.approx(np.array([[math.sqrt(0.75), 0], [0, 0]]))
    assert decoder == pytest.approx(encoder.T)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(2, 11),
    components=st.integers(1, 5),
    share=st.floats(0, 1.2),
)
def test_closed_form_is_stationary_and_minimal(
    seed: int, rows: int, components: int, share: float
) -> None:
    """Near and far, with penalties from none to more than the largest eigenvalue."""
    generator = np.random.default_rng(seed)
    root = generator.normal(size=(rows, 5))
    penalty = share * float(np.linalg.norm(root, ord=2) ** 2)
    best = closed_form(root, n_components=components, penalty=penalty)
    slope = loss_gradient(root, best, penalty=penalty)
    assert max(np.abs(slope.encoder).max(), np.abs(slope.decoder).max()) < 1e-10
    least = autoencoder_loss(root, best, penalty=penalty)
    for by in (1e-3, 1e-2, 0.1, 1.0):
        direction = random_factors(generator, components=components, features=5)
        other = moved(best, direction, by=by)
        assert autoencoder_loss(root, other, penalty=penalty) >= least - 1e-12


def test_minimum_follows_from_the_eigenvalues() -> None:
    """An axis that is kept costs λ (2 − λ/s), one that is not costs its variance."""
    variances, penalty = np.array([9.0, 4.0, 2.0, 1.0]), 3.0
    best = closed_form(np.diag(np.sqrt(variances)), n_components=3, penalty=penalty)
    kept = 3 * (2 - 3 / 9) + 3 * (2 - 3 / 4)
    assert autoencoder_loss(np.diag(np.sqrt(variances)), best, penalty=penalty) == pytest.approx(
        kept + 2 + 1
    )


def test_rotation_of_the_codes_keeps_the_loss() -> None:
    generator = np.random.default_rng(2)
    root = generator.normal(size=(9, 5))
    encoder, decoder = closed_form(root, n_components=3, penalty=0.5)
    turn = np.linalg.qr(generator.normal(size=(3, 3))).Q
    turned = Factors(turn @ encoder, decoder @ turn.T)
    assert autoencoder_loss(root, turned, penalty=0.5) == pytest.approx(
        autoencoder_loss(root, Factors(encoder, decoder), penalty=0.5)
    )


def test_data_without_variance() -> None:
    encoder, decoder = closed_form(np.zeros((2, 5)), n_components=3, penalty=0.0)
    assert not encoder.any()
    assert not decoder.any()
