"""The estimator: scikit-learn's checks, PCA, and the effect of the penalty, for both solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from regard.core.errors import RegardError
from regard.models.autoencoders.linear import Factors, LinearAutoencoder, loss_gradient

SOLVERS = ["closed", "gradient"]
AGREEMENT = 1e-4


def table_with(variances: list[float], *, rows: int = 40, seed: int = 0) -> np.ndarray:
    """Samples whose covariance, divided by their number, has these eigenvalues."""
    generator = np.random.default_rng(seed)
    noise = generator.normal(size=(rows, len(variances)))
    samples = np.linalg.qr(noise - noise.mean(axis=0)).Q * np.sqrt(rows)
    axes = np.linalg.qr(generator.normal(size=(len(variances), len(variances)))).Q
    return samples * np.sqrt(variances) @ axes + generator.normal(size=len(variances))


def product(model: LinearAutoencoder) -> np.ndarray:
    """W₂ W₁, the map from a centred row to its reconstruction."""
    return model.decoder_ @ model.components_


@parametrize_with_checks(
    [
        LinearAutoencoder(),
        LinearAutoencoder(n_components=1, penalty=0.1),
        LinearAutoencoder(penalty=0.1, solver="gradient", random_state=0),
    ]
)
def test_scikit_learn_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.parametrize("solver", SOLVERS)
def test_two_features(solver: str) -> None:
    # Variances 8 and 2 along the features; at penalty 4 the first keeps √(1 − 4/8), the second none.
    table = np.array([[5.0, 1.0], [-3.0, 1.0], [1.0, 3.0], [1.0, -1.0]])
    model = LinearAutoencoder(n_components=2, penalty=4.0, solver=solver, random_state=0).fit(table)
    assert model.mean_ == pytest.approx([1, 1])
    assert model.eigenvalues_ == pytest.approx([8, 2])
    assert model.singular_values_ == pytest.approx([0.5**0.5, 0], abs=1e-6)
    assert model.rank_ == 1
    # A row keeps half of its distance from the mean along the first axis: 4 becomes 2.
    back = model.inverse_transform(model.transform(table[:1]))
    assert back == pytest.approx(np.array([[3.0, 1.0]]), abs=1e-6)
    # Error: 8 × (1/2)² + 2; penalty: 4 × (1/2 + 1/2).
    assert model.loss(table) == pytest.approx(2 + 2 + 4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_without_penalty_equals_pca(solver: str) -> None:
    digits = load_digits().data
    model = LinearAutoencoder(n_components=5, solver=solver, random_state=0).fit(digits)
    pca = PCA(n_components=5, svd_solver="full").fit(digits)
    assert np.abs(product(model) - pca.components_.T @ pca.components_).max() < AGREEMENT
    assert model.components_ == pytest.approx(pca.components_, abs=AGREEMENT)
    assert model.transform(digits) == pytest.approx(pca.transform(digits), abs=1e-2)
    # PCA divides by n − 1.
    ratio = len(digits) / (len(digits) - 1)
    assert model.eigenvalues_ * ratio == pytest.approx(pca.explained_variance_)


@pytest.mark.parametrize("share", [0.01, 0.5, 1.5])
def test_both_solvers_agree_on_digits(share: float) -> None:
    digits = load_digits().data
    fifth = LinearAutoencoder(n_components=5).fit(digits).eigenvalues_[4]
    closed, descent = (
        LinearAutoencoder(5, penalty=share * fifth, solver=solver, random_state=3).fit(digits)
        for solver in SOLVERS
    )
    assert np.abs(product(closed) - product(descent)).max() < AGREEMENT
    assert closed.rank_ == descent.rank_
    assert descent.loss(digits) == pytest.approx(closed.loss(digits), rel=1e-9)
    # Each axis agrees, not only the map: both solvers return uncorrelated codes.
    assert descent.components_ == pytest.approx(closed.components_, abs=1e-3)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("penalty", [0.0, 0.3, 1.0, 2.5, 6.0, 13.0, 40.0])
def test_singular_values_and_rank(solver: str, penalty: float) -> None:
    variances = [24.0, 12.0, 5.0, 2.0, 0.6]
    model = LinearAutoencoder(4, penalty=penalty, solver=solver, random_state=0)
    model.fit(table_with(variances))
    expected = [max(0.0, 1 - penalty / s) ** 0.5 for s in variances[:4]]
    assert model.singular_values_ == pytest.approx(expected, abs=1e-6)
    assert np.linalg.svd(model.decoder_, compute_uv=False) == pytest.approx(expected, abs=1e-6)
    assert model.decoder_ == pytest.approx(model.components_.T, abs=1e-6)
    assert model.rank_ == sum(s > penalty for s in variances[:4])
    assert np.linalg.matrix_rank(product(model), tol=1e-6) == model.rank_


def test_rank_drops_where_the_penalty_equals_an_eigenvalue() -> None:
    table = np.array([[4.0, 0.0], [-4.0, 0.0], [0.0, 2.0], [0.0, -2.0]])  # eigenvalues 8 and 2
    ranks = [
        LinearAutoencoder(2, penalty=penalty).fit(table).rank_
        for penalty in (2 - 1e-9, 2.0, 2 + 1e-9, 8 - 1e-9, 8.0)
    ]
    assert ranks == [2, 1, 1, 1, 0]


@pytest.mark.parametrize("solver", SOLVERS)
def test_components_span_the_principal_subspace(solver: str) -> None:
    table = table_with([24.0, 12.0, 5.0, 2.0, 0.6])
    model = LinearAutoencoder(3, penalty=1.0, solver=solver, random_state=0).fit(table)
    pca = PCA(n_components=3).fit(table)
    cosines = np.linalg.svd(
        np.linalg.qr(model.components_.T).Q.T @ pca.components_.T, compute_uv=False
    )
    assert cosines == pytest.approx(np.ones(3))


@pytest.mark.parametrize("solver", SOLVERS)
def test_solution_is_a_local_minimum(solver: str) -> None:
    table = table_with([9.0, 4.0, 2.0, 1.0, 0.5])
    model = LinearAutoencoder(3, penalty=0.8, solver=solver, random_state=0).fit(table)
    root = (table - table.mean(axis=0)) / np.sqrt(len(table))
    slope = loss_gradient(root, Factors(model.components_, model.decoder_), penalty=0.8)
    assert max(np.abs(slope.encoder).max(), np.abs(slope.decoder).max()) < 1e-6
    least, generator, moved = model.loss(table), np.random.default_rng(0), clone(model).fit(table)
    for size in np.repeat([1e-3, 1e-2, 0.1, 1.0], 25):
        moved.components_ = model.components_ + size * generator.normal(size=(3, 5))
        moved.decoder_ = model.decoder_ + size * generator.normal(size=(5, 3))
        assert moved.loss(table) > least


@pytest.mark.parametrize("solver", SOLVERS)
def test_more_components_than_samples(solver: str) -> None:
    table = np.random.default_rng(0).normal(size=(3, 7))
    model = LinearAutoencoder(5, solver=solver, random_state=0).fit(table)
    assert model.rank_ == 2  # three points lie in a plane
    assert model.eigenvalues_.shape == model.singular_values_.shape == (5,)
    assert model.inverse_transform(model.transform(table)) == pytest.approx(table)


@pytest.mark.parametrize("solver", SOLVERS)
def test_pipeline_grid_search_and_clone(solver: str) -> None:
    digits = load_digits(n_class=3)
    pipeline = make_pipeline(
        StandardScaler(), LinearAutoencoder(solver=solver, random_state=0, tol=1e-6)
    )
    codes = clone(pipeline).fit_transform(digits.data)
    assert codes.shape == (len(digits.data), 2)
    grid = {"linearautoencoder__n_components": np.array([1, 3])}
    search = GridSearchCV(
        pipeline, grid, cv=2, scoring=lambda model, rows, _=None: _error(model, rows)
    )
    assert search.fit(digits.data).best_params_ == {"linearautoencoder__n_components": 3}


def _error(pipeline: Any, rows: np.ndarray) -> float:
    """Less reconstruction error is a higher score."""
    back = pipeline.inverse_transform(pipeline.transform(rows))
    return -float(np.square(rows - back).mean())


def test_feature_names_out() -> None:
    model = LinearAutoencoder(3).fit(table_with([3.0, 2.0, 1.0, 0.5]))
    assert model.get_feature_names_out().tolist() == [f"linearautoencoder{at}" for at in range(3)]
    assert model.n_features_in_ == 4


def test_get_params() -> None:
    model = LinearAutoencoder(3, penalty=0.5).set_params(solver="gradient")
    assert model.get_params() == {
        "n_components": 3,
        "penalty": 0.5,
        "solver": "gradient",
        "max_iter": 5000,
        "tol": 1e-9,
        "random_state": None,
        "copy": True,
    }


def test_copy() -> None:
    table = table_with([3.0, 2.0, 1.0])
    kept = table.copy()
    LinearAutoencoder(1).fit(table)
    assert (table == kept).all()
    LinearAutoencoder(1, copy=False).fit(table)
    assert table.mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-12)


def test_convergence_warning() -> None:
    model = LinearAutoencoder(2, solver="gradient", max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1 .*solver='closed'"):
        model.fit(table_with([3.0, 2.9, 2.8, 2.7]))
    assert model.n_iter_ == 1


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_components": 0}, r"n_components=0;"),
        ({"n_components": 4}, r"n_components=4;"),
        ({"n_components": 1.5}, r"n_components=1.5;"),
        ({"n_components": True}, r"n_components=True;"),
        ({"penalty": -0.1}, r"penalty=-0.1;"),
        ({"penalty": float("nan")}, r"penalty=nan;"),
        ({"penalty": "much"}, r"penalty='much';"),
        ({"max_iter": 0}, r"max_iter=0;"),
        ({"tol": float("inf")}, r"tol=inf;"),
        ({"solver": "gradent"}, r"Unknown solver 'gradent'. Did you mean 'gradient'"),
    ],
)
def test_invalid_params(params: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        LinearAutoencoder().set_params(**params).fit(table_with([3.0, 2.0, 1.0]))


def test_codes_of_wrong_width() -> None:
    model = LinearAutoencoder(2).fit(table_with([3.0, 2.0, 1.0]))
    with pytest.raises(RegardError, match=r"3 columns.*n_components=2"):
        model.inverse_transform(np.zeros((4, 3)))


def test_not_fitted() -> None:
    with pytest.raises(NotFittedError):
        LinearAutoencoder().inverse_transform(np.zeros((4, 2)))
