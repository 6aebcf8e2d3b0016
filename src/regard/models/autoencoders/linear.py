"""Regularised linear autoencoder as a scikit-learn estimator; without regularisation it is PCA.

    minimise (1/n) ‖X − X W₁ᵀ W₂ᵀ‖²_F + λ (‖W₁‖²_F + ‖W₂‖²_F)        rows of X are centred samples

(Kunin, Bloom, Goeva and Seed 2019, "Loss landscapes of regularized linear autoencoders", where samples are
columns.) With s₁ ≥ s₂ ≥ … the eigenvalues of Xᵀ X / n and U its eigenvectors, the minimum is at

    W₂ᵀ = W₁ = O diag(√max(0, 1 − λ/sᵢ)) U_Kᵀ        for any rotation O of the codes

It spans the principal subspace, shrinks each axis, and drops axes with variance λ or less. Data enter the
functions below through any *root* of the covariance: a matrix with rootᵀ root = Xᵀ X / n.

The "gradient" solver does not compute eigenvectors. The loss is not convex in both factors, but all its
stationary points other than the minima are saddles. Each iteration takes three steps that do not raise it:

    encoder    the loss is quadratic in W₁: minimise it in the span of W₁, its gradient and W₂ᵀ
    decoder    the loss is quadratic in W₂: ridge regression
    balance    of all factors with the product W₂ W₁, those of the least penalty

Gradient steps alone, even L-BFGS, take thousands of iterations where eigenvalues differ by a factor of a
million; these take some tens.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Self, TypeVar, no_type_check

import numpy as np
from jaxtyping import Float
from scipy.linalg import lstsq
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from regard.core.errors import RegardError
from regard.core.registry import lookup


class Factors(NamedTuple):
    """The encoder W₁ and the decoder W₂."""

    encoder: Float[np.ndarray, "components features"]
    decoder: Float[np.ndarray, "features components"]


def autoencoder_loss(
    root: Float[np.ndarray, "rows features"], factors: Factors, *, penalty: float
) -> float:
    """The regularised reconstruction loss.

    >>> one = np.ones((1, 1))  # no reconstruction error; λ for each factor
    >>> autoencoder_loss(2 * one, Factors(one, one), penalty=0.25)
    0.5
    """
    residual = root - root @ factors.encoder.T @ factors.decoder.T
    size = np.square(factors.encoder).sum() + np.square(factors.decoder).sum()
    return float(np.square(residual).sum() + penalty * size)


def loss_gradient(
    root: Float[np.ndarray, "rows features"], factors: Factors, *, penalty: float
) -> Factors:
    """Gradient of the loss with respect to both factors."""
    encoder, decoder = factors
    codes = root @ encoder.T
    residual = root - codes @ decoder.T
    return Factors(
        encoder=2 * (penalty * encoder - (residual @ decoder).T @ root),
        decoder=2 * (penalty * decoder - residual.T @ codes),
    )


def closed_form(
    root: Float[np.ndarray, "rows features"], *, n_components: int, penalty: float
) -> Factors:
    """The optimal factors in closed form, with O = I.

    >>> root = np.diag([2.0, 1.0])  # eigenvalues 4 and 1
    >>> closed_form(root, n_components=2, penalty=3.0).encoder.round(6)
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    _, deviations, axes = np.linalg.svd(root, full_matrices=False)
    variances = deviations[:n_components] ** 2
    # Rounding error of a singular value; it bounds that of the comparison with the penalty.
    rounding = deviations[0] * max(root.shape) * np.finfo(np.float64).eps
    kept = variances - penalty > 2 * rounding * deviations[:n_components]
    shrunk = np.zeros_like(variances)
    shrunk[kept] = 1 - penalty / variances[kept]
    encoder = np.zeros((n_components, root.shape[1]))
    encoder[: len(shrunk)] = np.sqrt(shrunk)[:, None] * axes[:n_components]
    return Factors(encoder, encoder.T.copy())


# Relative to the largest value, smaller ones are rounding errors of float64.
NEGLIGIBLE = 1e-12


class Descent(NamedTuple):
    """Result of the iterative solver."""

    factors: Factors
    iterations: int
    converged: bool


def descend(
    root: Float[np.ndarray, "rows features"],
    *,
    n_components: int,
    penalty: float,
    max_iter: int,
    tol: float,
    generator: np.random.RandomState,
) -> Descent:
    """Minimise the loss from a random initialisation.

    It has converged when an iteration changes W₂ W₁, whose singular values are at most 1, by no more than
    `tol`. Of the equivalent rotations of the codes, the one with uncorrelated codes is returned, ordered by
    variance.
    """
    variance = float(np.square(root).sum())
    if variance == 0:
        zeros = np.zeros((n_components, root.shape[1]))
        return Descent(Factors(zeros, zeros.T), iterations=1, converged=True)
    # Rescale the data to variance 1, for numerical stability.
    root, penalty = root / np.sqrt(variance), penalty / variance
    # Random combinations of the samples: directions without variance would never vanish.
    mixtures = generator.standard_normal((n_components, len(root))) @ root
    encoder = np.linalg.qr(mixtures.T).Q.T
    factors = _balance(Factors(encoder, _best_decoder(root, encoder, penalty=penalty)))
    iterations, converged = 0, False
    while iterations < max_iter and not converged:
        encoder = _improve_encoder(root, factors, penalty=penalty)
        decoder = _best_decoder(root, encoder, penalty=penalty)
        before, factors = factors, _balance(Factors(encoder, decoder))
        iterations, converged = iterations + 1, _distance(factors, before) <= tol
    return Descent(
        _prune_components(root, _decorrelate(root, factors), penalty=penalty), iterations, converged
    )


def _best_decoder(
    root: Float[np.ndarray, "rows features"],
    encoder: Float[np.ndarray, "components features"],
    *,
    penalty: float,
) -> Float[np.ndarray, "features components"]:
    return _ridge(root @ encoder.T, root, penalty=penalty).T


def _improve_encoder(
    root: Float[np.ndarray, "rows features"], factors: Factors, *, penalty: float
) -> Float[np.ndarray, "components features"]:
    """The best encoder with rows in the span of W₁, its gradient and W₂ᵀ."""
    gradient = loss_gradient(root, factors, penalty=penalty).encoder
    span = np.hstack([factors.decoder, factors.encoder.T, gradient.T])
    basis = np.linalg.qr(span / np.maximum(np.linalg.norm(span, axis=0), 1e-300)).Q
    # Along the singular vectors of the decoder, each component is a separate regression.
    left, sizes, right = np.linalg.svd(factors.decoder, full_matrices=False)
    triangle_basis, triangle = np.linalg.qr(root @ basis)
    targets = triangle_basis.T @ root @ left
    rows = [
        _ridge(size * triangle, targets[:, [index]], penalty=penalty)[:, 0]
        if size > NEGLIGIBLE * sizes[0]
        else np.zeros(basis.shape[1])
        for index, size in enumerate(sizes)
    ]
    return right.T @ np.stack(rows) @ basis.T


def _ridge(
    inputs: Float[np.ndarray, "rows inputs"],
    targets: Float[np.ndarray, "rows outputs"],
    *,
    penalty: float,
) -> Float[np.ndarray, "inputs outputs"]:
    """The B that minimises ‖targets − inputs B‖² + penalty ‖B‖², without forming inputsᵀ inputs."""
    width = inputs.shape[1]
    augmented = np.vstack([inputs, np.sqrt(penalty) * np.eye(width)])
    padded_targets = np.vstack([targets, np.zeros((width, targets.shape[1]))])
    solution: Float[np.ndarray, "inputs outputs"] = lstsq(
        augmented, padded_targets, cond=NEGLIGIBLE, lapack_driver="gelsy", check_finite=False
    )[0]
    return solution


def _balance(factors: Factors) -> Factors:
    """Factors with the same product and the least sum of squares."""
    out_of, decoder = np.linalg.qr(factors.decoder)
    into, encoder = np.linalg.qr(factors.encoder.T)
    left, sizes, right = np.linalg.svd(decoder @ encoder.T)
    # The square root of a rounding error would no longer be negligible.
    roots = np.sqrt(np.where(sizes > NEGLIGIBLE * sizes[0], sizes, 0))
    return Factors(encoder=roots[:, None] * right @ into.T, decoder=out_of @ left * roots)


def _distance(one: Factors, other: Factors) -> float:
    """‖W₂ W₁ − V₂ V₁‖_F, without forming the products."""
    outer = np.linalg.qr(np.hstack([one.decoder, other.decoder])).R
    inner = np.linalg.qr(np.hstack([one.encoder.T, -other.encoder.T])).R
    return float(np.linalg.norm(outer @ inner.T))


def _decorrelate(root: Float[np.ndarray, "rows features"], factors: Factors) -> Factors:
    """Rotate the codes so that they are uncorrelated."""
    axes = np.linalg.svd(np.linalg.qr(root @ factors.encoder.T).R).Vh
    return Factors(encoder=axes @ factors.encoder, decoder=factors.decoder @ axes.T)


def _prune_components(
    root: Float[np.ndarray, "rows features"], factors: Factors, *, penalty: float
) -> Factors:
    """Set components to zero whose penalty exceeds the error they save.

    Where an eigenvalue is below the penalty, the iterations only shrink its component.
    """
    encoder, decoder = (factor.copy() for factor in factors)
    for index in reversed(range(len(encoder))):
        code, axis = root @ encoder[index], decoder[:, index]
        residual = root - root @ encoder.T @ decoder.T
        saved = 2 * code @ residual @ axis + np.square(code).sum() * np.square(axis).sum()
        added_penalty = penalty * (np.square(encoder[index]).sum() + np.square(axis).sum())
        if saved <= added_penalty:
            encoder[index] = decoder[:, index] = 0
    return Factors(encoder, decoder)


Function = TypeVar("Function", bound=Callable[..., Any])


def _unchecked(constructor: Function) -> Function:
    """Skip runtime type checks: scikit-learn estimators validate their parameters in `fit`."""
    return no_type_check(constructor)


# scikit-learn has no type hints, so its classes are Any.
class LinearAutoencoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Linear encoder and decoder with an L2 penalty on both.

    Args:
        n_components: K, the dimension of the codes; at most the number of features.
        penalty: λ, in the units of a variance; 0 is PCA.
        solver: "closed" uses the closed form; "gradient" iterates from a random initialisation and
            finds the same optimum.
        max_iter, tol, random_state: of the "gradient" solver: maximum number of iterations, tolerance on
            the change of W₂ W₁, and random seed.
        copy: If False, `fit` may centre a float64 array in place.

    As in PCA, codes are uncorrelated and ordered by variance, and the largest entry of each row of
    `components_` is positive.

    Attributes:
        components_: Encoder W₁, (components, features).
        decoder_: Decoder W₂, (features, components).
        mean_: Mean of each feature.
        eigenvalues_: The K largest sᵢ: variances along the principal axes (divided by n).
        singular_values_: Singular values of the encoder, √max(0, 1 − λ/sᵢ).
        rank_: Number of nonzero components.
        n_iter_: Number of iterations; 1 for the closed form.

    >>> table = [[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]  # variances 4.5 and 0.5
    >>> LinearAutoencoder(n_components=2, penalty=1.125).fit(table).singular_values_.round(4)
    array([0.866, 0.   ])
    """

    @_unchecked
    def __init__(
        self,
        n_components: int = 2,
        *,
        penalty: float = 0.0,
        solver: str = "closed",
        max_iter: int = 5000,
        tol: float = 1e-9,
        random_state: Any = None,
        copy: bool = True,
    ) -> None:
        self.n_components = n_components
        self.penalty = penalty
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.copy = copy

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803  (scikit-learn's names)
        """Fit encoder and decoder to the rows of X; y is ignored."""
        table = validate_data(self, X, dtype=np.float64, copy=self.copy, ensure_min_samples=2)
        self._validate_params(features=table.shape[1])
        solvers = {"closed": self._solve_closed_form, "gradient": self._solve_iteratively}
        solve = lookup("solver", str(self.solver), solvers)
        self.mean_ = table.mean(axis=0)
        table -= self.mean_
        # A smaller matrix with the same covariance has the same loss.
        tall = table.shape[0] > table.shape[1]
        root = (np.linalg.qr(table).R if tall else table) / math.sqrt(len(table))
        self.components_, self.decoder_ = _fix_signs(solve(root))
        variances = np.linalg.svd(root, compute_uv=False)[: self.n_components] ** 2
        # With fewer samples than components, the remaining axes have no variance.
        self.eigenvalues_ = np.pad(variances, (0, self.n_components - len(variances)))
        self.singular_values_ = np.linalg.svd(self.components_, compute_uv=False)
        self.rank_ = int(np.count_nonzero(self.components_.any(axis=1)))
        return self

    def transform(self, X: Any) -> Float[np.ndarray, "samples components"]:  # noqa: N803
        """Encode the rows of X."""
        return (self._validated(X) - self.mean_) @ self.components_.T

    def inverse_transform(self, X: Any) -> Float[np.ndarray, "samples features"]:  # noqa: N803
        """Decode codes."""
        check_is_fitted(self)
        codes = check_array(X, dtype=np.float64)
        width = len(self.components_)
        if codes.shape[1] != width:
            raise RegardError(
                f"LinearAutoencoder got codes of {codes.shape[1]} columns; they must have "
                f"n_components={width}. Pass the output of transform."
            )
        return codes @ self.decoder_.T + self.mean_

    def loss(self, X: Any) -> float:  # noqa: N803
        """The objective of `fit` on the rows of X: mean squared error plus penalty."""
        table = self._validated(X)
        root = (table - self.mean_) / math.sqrt(len(table))
        return autoencoder_loss(
            root, Factors(self.components_, self.decoder_), penalty=float(self.penalty)
        )

    def _validated(self, rows: Any) -> Float[np.ndarray, "samples features"]:
        check_is_fitted(self)
        table: Float[np.ndarray, "samples features"] = validate_data(
            self, rows, dtype=np.float64, reset=False
        )
        return table

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _solve_closed_form(self, root: Float[np.ndarray, "rows features"]) -> Factors:
        self.n_iter_ = 1
        return closed_form(root, n_components=int(self.n_components), penalty=float(self.penalty))

    def _solve_iteratively(self, root: Float[np.ndarray, "rows features"]) -> Factors:
        found = descend(
            root,
            n_components=int(self.n_components),
            penalty=float(self.penalty),
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            generator=check_random_state(self.random_state),
        )
        self.n_iter_ = found.iterations
        if not found.converged:
            warnings.warn(
                f"LinearAutoencoder did not converge in max_iter={self.max_iter} iterations: an eigenvalue "
                "close to the next one or to the penalty slows convergence. Raise max_iter or tol, or "
                "choose solver='closed'.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return found.factors

    def _validate_params(self, *, features: int) -> None:
        width, penalty, most, tol = self.n_components, self.penalty, self.max_iter, self.tol
        rules = [
            (
                "n_components",
                _is_integer(width) and 1 <= width <= features,
                f"an integer from 1 to {features}, the number of features",
            ),
            ("penalty", _is_nonnegative(penalty), "a finite number, 0 (as PCA) or more"),
            ("max_iter", _is_integer(most) and most >= 1, "an integer, 1 or more"),
            ("tol", _is_nonnegative(tol), "a finite number, 0 or more"),
        ]
        for name, is_valid, rule in rules:
            if not is_valid:
                value = getattr(self, name)
                raise RegardError(f"LinearAutoencoder has {name}={value!r}; it must be {rule}.")


def _fix_signs(factors: Factors) -> Factors:
    """Make the largest entry of each row of the encoder positive."""
    encoder, decoder = factors
    largest = encoder[np.arange(len(encoder)), np.abs(encoder).argmax(axis=1)]
    signs = np.where(largest < 0, -1.0, 1.0)
    return Factors(encoder * signs[:, None], decoder * signs)


def _is_integer(value: object) -> bool:
    # NumPy integers are accepted; bool, a subclass of int, is not.
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_nonnegative(value: object) -> bool:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return number and 0 <= float(value) < math.inf  # type: ignore[arg-type]
