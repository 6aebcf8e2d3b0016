"""The iterative solver: monotone, converges to the closed form, reports non-convergence."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from regard.models.autoencoders.linear import (
    Descent,
    Factors,
    autoencoder_loss,
    closed_form,
    descend,
    loss_gradient,
)

AGREEMENT = 1e-4


def root_with(variances: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """A root of a covariance with these eigenvalues, along random axes."""
    generator = np.random.default_rng(seed)
    width = len(variances)
    left, right = (np.linalg.qr(generator.normal(size=(width, width))).Q for _ in range(2))
    return left * np.sqrt(variances) @ right


def solve(
    root: np.ndarray,
    *,
    n_components: int,
    penalty: float,
    seed: int = 0,
    max_iter: int = 5000,
    tol: float = 1e-9,
) -> Descent:
    return descend(
        root,
        n_components=n_components,
        penalty=penalty,
        max_iter=max_iter,
        tol=tol,
        generator=np.random.RandomState(seed),
    )


def difference(one: Factors, other: Factors) -> float:
    """The largest difference of the maps W₂ W₁."""
    return float(np.abs(one.decoder @ one.encoder - other.decoder @ other.encoder).max())


SPECTRA = {
    "even": np.linspace(3, 1, 7),
    "close": np.array([5, 4, 3, 1.1, 1, 0.9, 0.9]),  # the fourth is near the fifth
    "equal": np.array([4, 4, 4, 4, 1, 1, 1.0]),
    "a million": np.logspace(3, -3, 7),
    "a trillion": np.logspace(0, -12, 7),
    "tiny": 1e-16 * np.linspace(3, 1, 7),
    "huge": 1e16 * np.linspace(3, 1, 7),
    "of rank 2": np.array([2, 1, 0, 0, 0, 0, 0.0]),
}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("share", [0, 1e-3, 0.5, 0.98])
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_converges_to_the_closed_form(spectrum: str, share: float, seed: int) -> None:
    """With penalties of a share of the fourth eigenvalue, the last that has a component."""
    variances = SPECTRA[spectrum]
    root, penalty = root_with(variances), float(share * variances[3])
    found = solve(root, n_components=4, penalty=penalty, seed=seed)
    assert found.converged
    assert difference(found.factors, closed_form(root, n_components=4, penalty=penalty)) < AGREEMENT


@pytest.mark.parametrize("between", [0, 1, 2, 3, 4])
def test_components_below_the_penalty_are_dropped(between: int) -> None:
    variances = np.array([16, 8, 4, 2, 1.0])
    penalty = float([24, 12, 6, 3, 1.5][between])  # this many eigenvalues are above it
    found = solve(root_with(variances), n_components=4, penalty=penalty).factors
    assert np.count_nonzero(found.encoder.any(axis=1)) == between
    assert np.count_nonzero(found.decoder.any(axis=0)) == between


def test_loss_decreases_monotonically() -> None:
    root, penalty = root_with(np.logspace(0, -3, 13)), 3e-3
    best = closed_form(root, n_components=3, penalty=penalty)
    losses = [
        autoencoder_loss(
            root,
            solve(root, n_components=3, penalty=penalty, max_iter=rounds, tol=0.0).factors,
            penalty=penalty,
        )
        for rounds in range(1, 12)
    ]
    assert all(after <= before + 1e-14 for before, after in pairwise(losses))
    least = autoencoder_loss(root, best, penalty=penalty)
    assert losses[0] > least + 1e-4  # the initialisation is not the solution
    assert losses[-1] == pytest.approx(least, rel=1e-6)


def test_gradient_is_zero_at_convergence() -> None:
    root = root_with(np.linspace(3, 1, 7))
    found = solve(root, n_components=3, penalty=0.5).factors
    slope = loss_gradient(root, found, penalty=0.5)
    assert max(np.abs(slope.encoder).max(), np.abs(slope.decoder).max()) < 1e-7


def test_codes_are_uncorrelated_and_ordered() -> None:
    root = root_with(np.array([7, 5, 3, 2, 1.0]))
    codes = root @ solve(root, n_components=3, penalty=1.0).factors.encoder.T
    # At the optimum a variance s becomes s − λ.
    assert codes.T @ codes == pytest.approx(np.diag([6, 4, 2.0]), abs=1e-6)


def test_more_features_than_rows() -> None:
    root = root_with(np.linspace(3, 1, 5)) @ np.eye(5, 23)
    found = solve(root, n_components=7, penalty=0.3).factors
    assert found.encoder.shape == (7, 23)
    assert difference(found, closed_form(root, n_components=7, penalty=0.3)) < AGREEMENT


def test_same_seed_same_result() -> None:
    root = root_with(np.linspace(3, 1, 7))
    one, two = (solve(root, n_components=3, penalty=0.5, seed=4).factors for _ in range(2))
    assert (one.encoder == two.encoder).all()
    assert (one.decoder == two.decoder).all()


def test_too_few_iterations_do_not_converge() -> None:
    found = solve(root_with(np.linspace(3, 1, 7)), n_components=3, penalty=0.5, max_iter=2)
    assert (found.iterations, found.converged) == (2, False)


def test_data_without_variance() -> None:
    found = solve(np.zeros((2, 5)), n_components=3, penalty=0.0)
    assert (found.iterations, found.converged) == (1, True)
    assert not found.factors.encoder.any()
    assert not found.factors.decoder.any()
