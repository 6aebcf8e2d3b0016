"""The regularised linear autoencoder, as scikit-learn users expect an estimator to be.

    minimise (1/n) ‖X − X W₁ᵀ W₂ᵀ‖²_F + λ (‖W₁‖²_F + ‖W₂‖²_F)        rows of X are centred samples

(Kunin, Bloom, Goeva and Seed 2019, "Loss landscapes of regularized linear autoencoders".) It finds the
principal subspace, shrinks each axis, and gives up one with no more variance than λ. With λ = 0 it is
PCA. Unlike the networks of this room it is no `nn.Module`: it maps rows of a table, not sequences.
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
from regard.core.registry import look_up

# The loss of a regularised linear autoencoder, its gradient, and where it is least.
#
# loss(W₁, W₂) = (1/n) ‖X − X W₁ᵀ W₂ᵀ‖²_F + λ (‖W₁‖²_F + ‖W₂‖²_F)        rows of X are centred
# samples
#
# (Kunin, Bloom, Goeva and Seed 2019, where samples are columns.) With s₁ ≥ s₂ ≥ … the eigenvalues
# of Xᵀ X / n and U its eigenvectors, the least loss is at
#
# W₂ᵀ = W₁ = O diag(√max(0, 1 − λ/sᵢ)) U_Kᵀ        for any rotation O of the codes
#
# Data enter through any *root* of their covariance: a matrix whose rootᵀ root is Xᵀ X / n.


class Factors(NamedTuple):
    """An encoder W₁ and a decoder W₂."""

    encoder: Float[np.ndarray, "components features"]
    decoder: Float[np.ndarray, "features components"]


def autoencoder_loss(
    root: Float[np.ndarray, "rows features"], factors: Factors, *, penalty: float
) -> float:
    """The loss above.

    >>> one = np.ones((1, 1))  # reconstructs without error, and pays λ for each factor
    >>> autoencoder_loss(2 * one, Factors(one, one), penalty=0.25)
    0.5
    """
    residual = root - root @ factors.encoder.T @ factors.decoder.T
    size = np.square(factors.encoder).sum() + np.square(factors.decoder).sum()
    return float(np.square(residual).sum() + penalty * size)


def loss_gradient(
    root: Float[np.ndarray, "rows features"], factors: Factors, *, penalty: float
) -> Factors:
    """The derivative of the loss by each entry of the two factors."""
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
    """The factors of least loss by the formula above, with O = I.

    >>> root = np.diag([2.0, 1.0])  # eigenvalues 4 and 1
    >>> closed_form(root, n_components=2, penalty=3.0).encoder.round(6)
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    _, deviations, axes = np.linalg.svd(root, full_matrices=False)
    variances = deviations[:n_components] ** 2
    # A deviation is known to within this much, and so is the difference of its square and the penalty.
    rounding = deviations[0] * max(root.shape) * np.finfo(np.float64).eps
    kept = variances - penalty > 2 * rounding * deviations[:n_components]
    shrunk = np.zeros_like(variances)
    shrunk[kept] = 1 - penalty / variances[kept]
    encoder = np.zeros((n_components, root.shape[1]))
    encoder[: len(shrunk)] = np.sqrt(shrunk)[:, None] * axes[:n_components]
    return Factors(encoder, encoder.T.copy())


# A descent on the two factors of a regularised linear autoencoder, which knows no eigenvectors.
#
# The loss (`regard.models.autoencoders.linear`) is not convex in both factors together, but all its
# stationary points other than the lowest are saddles (Kunin et al. 2019). From a random start,
# rounds of three steps go down, and none of them raises the loss:
#
# encoder    the loss is a quadratic in W₁: to its minimum in the span of W₁, its gradient and W₂ᵀ
# decoder    the loss is a quadratic in W₂: to its minimum, which is a ridge regression balance
# of all factors with the product W₂ W₁, to those of the least penalty
#
# Steps down the gradient alone, even those of L-BFGS, take thousands of rounds where eigenvalues
# differ a million times; these take some tens.


# What is smaller than this share of the largest is rounding: float64 carries 16 digits.
NEGLIGIBLE = 1e-12


class Descent(NamedTuple):
    """Where a descent came to, after how many rounds, and whether it had come to rest by then."""

    factors: Factors
    rounds: int
    at_rest: bool


def descend(
    root: Float[np.ndarray, "rows features"],
    *,
    n_components: int,
    penalty: float,
    max_iter: int,
    tol: float,
    generator: np.random.RandomState,
) -> Descent:
    """Factors of the least loss, from a random start.

    It rests when a round changes W₂ W₁, whose singular values are at most 1, by no more than `tol`.
    Of the equally good rotations of the codes, the one with uncorrelated codes is given, the largest
    variance first.
    """
    variance = float(np.square(root).sum())
    if variance == 0:
        nothing = np.zeros((n_components, root.shape[1]))
        return Descent(Factors(nothing, nothing.T), rounds=1, at_rest=True)
    # The same task in units in which the data have variance 1, so that no number is far from it.
    root, penalty = root / np.sqrt(variance), penalty / variance
    # Axes of random mixtures of the data: a direction without variance could not be unlearned.
    mixtures = generator.standard_normal((n_components, len(root))) @ root
    encoder = np.linalg.qr(mixtures.T).Q.T
    factors = _balanced(Factors(encoder, _best_decoder(root, encoder, penalty=penalty)))
    rounds, at_rest = 0, False
    while rounds < max_iter and not at_rest:
        encoder = _better_encoder(root, factors, penalty=penalty)
        decoder = _best_decoder(root, encoder, penalty=penalty)
        before, factors = factors, _balanced(Factors(encoder, decoder))
        rounds, at_rest = rounds + 1, _distance(factors, before) <= tol
    return Descent(_thrifty(root, _turned(root, factors), penalty=penalty), rounds, at_rest)


def _best_decoder(
    root: Float[np.ndarray, "rows features"],
    encoder: Float[np.ndarray, "components features"],
    *,
    penalty: float,
) -> Float[np.ndarray, "features components"]:
    return _ridge(root @ encoder.T, root, penalty=penalty).T


def _better_encoder(
    root: Float[np.ndarray, "rows features"], factors: Factors, *, penalty: float
) -> Float[np.ndarray, "components features"]:
    """The encoder of the least loss among those with rows in a span that holds the present one."""
    slope = loss_gradient(root, factors, penalty=penalty).encoder
    span = np.hstack([factors.decoder, factors.encoder.T, slope.T])
    basis = np.linalg.qr(span / np.maximum(np.linalg.norm(span, axis=0), 1e-300)).Q
    # Along the decoder's own axes its components do not mix: each is a regression of its own.
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
    given: Float[np.ndarray, "rows inputs"],
    wanted: Float[np.ndarray, "rows outputs"],
    *,
    penalty: float,
) -> Float[np.ndarray, "inputs outputs"]:
    """The smallest B of least ‖wanted − given B‖² + penalty ‖B‖², without squaring `given`."""
    inputs = given.shape[1]
    above = np.vstack([given, np.sqrt(penalty) * np.eye(inputs)])
    below = np.vstack([wanted, np.zeros((inputs, wanted.shape[1]))])
    solution: Float[np.ndarray, "inputs outputs"] = lstsq(
        above, below, cond=NEGLIGIBLE, lapack_driver="gelsy", check_finite=False
    )[0]
    return solution


def _balanced(factors: Factors) -> Factors:
    """Factors with the same product and the least sum of squares: each has its singular values' roots."""
    out_of, decoder = np.linalg.qr(factors.decoder)
    into, encoder = np.linalg.qr(factors.encoder.T)
    left, sizes, right = np.linalg.svd(decoder @ encoder.T)
    # The root of rounding would no longer look like it.
    roots = np.sqrt(np.where(sizes > NEGLIGIBLE * sizes[0], sizes, 0))
    return Factors(encoder=roots[:, None] * right @ into.T, decoder=out_of @ left * roots)


def _distance(one: Factors, other: Factors) -> float:
    """‖W₂ W₁ − V₂ V₁‖_F, without the large products."""
    outer = np.linalg.qr(np.hstack([one.decoder, other.decoder])).R
    inner = np.linalg.qr(np.hstack([one.encoder.T, -other.encoder.T])).R
    return float(np.linalg.norm(outer @ inner.T))


def _turned(root: Float[np.ndarray, "rows features"], factors: Factors) -> Factors:
    """The same factors with the codes turned so that they are uncorrelated."""
    axes = np.linalg.svd(np.linalg.qr(root @ factors.encoder.T).R).Vh
    return Factors(encoder=axes @ factors.encoder, decoder=factors.decoder @ axes.T)


def _thrifty(
    root: Float[np.ndarray, "rows features"], factors: Factors, *, penalty: float
) -> Factors:
    """Without the components that cost more penalty than they save in error.

    Where an eigenvalue is below the penalty its component only shrinks, round by round.
    """
    encoder, decoder = (factor.copy() for factor in factors)
    for index in reversed(range(len(encoder))):
        code, axis = root @ encoder[index], decoder[:, index]
        residual = root - root @ encoder.T @ decoder.T
        saved = 2 * code @ residual @ axis + np.square(code).sum() * np.square(axis).sum()
        paid = penalty * (np.square(encoder[index]).sum() + np.square(axis).sum())
        if saved <= paid:
            encoder[index] = decoder[:, index] = 0
    return Factors(encoder, decoder)


Function = TypeVar("Function", bound=Callable[..., Any])


def _unchecked(constructor: Function) -> Function:
    """Not checked when called, even where calls are: scikit-learn has arguments checked by `fit`."""
    return no_type_check(constructor)


# scikit-learn carries no types, so its classes are Any.
class LinearAutoencoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A linear encoder and decoder under a penalty on both.

    Args:
        n_components: K, the width of the code; no more than there are features.
        penalty: λ, in the units of a variance; 0 is PCA.
        solver: "closed" computes the optimum by its formula (`regard.models.autoencoders.linear`);
            "gradient" descends on the two factors from a random start and finds the same
            (`regard.models.autoencoders.linear`).
        max_iter, tol, random_state: of the descent: the most rounds, the change of W₂ W₁ in a round at
            which it rests, and the start.
        copy: False lets `fit` centre an array of float64 in place.

    Of all rotations O the one with uncorrelated codes is chosen, as in PCA: the largest variance comes
    first, and the largest entry of a row of `components_` is positive.

    Attributes:
        components_: the encoder W₁, (components, features).
        decoder_: the decoder W₂, (features, components).
        mean_: what was subtracted from each feature.
        eigenvalues_: the K largest sᵢ, the variances along the principal axes (divided by n).
        singular_values_: of the encoder, √max(0, 1 − λ/sᵢ).
        rank_: how many of them are not 0.
        n_iter_: rounds of the descent; 1 for the closed form.

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
        """Learn encoder and decoder from the rows of X; y is not looked at."""
        table = validate_data(self, X, dtype=np.float64, copy=self.copy, ensure_min_samples=2)
        self._require_settings(features=table.shape[1])
        solvers = {"closed": self._by_formula, "gradient": self._by_descent}
        solve = look_up("solver", str(self.solver), solvers)
        self.mean_ = table.mean(axis=0)
        table -= self.mean_
        # Fewer rows with the same covariance have the same loss.
        tall = table.shape[0] > table.shape[1]
        root = (np.linalg.qr(table).R if tall else table) / math.sqrt(len(table))
        self.components_, self.decoder_ = _signed(solve(root))
        variances = np.linalg.svd(root, compute_uv=False)[: self.n_components] ** 2
        # Fewer samples than components: no variance along the axes that are left.
        self.eigenvalues_ = np.pad(variances, (0, self.n_components - len(variances)))
        self.singular_values_ = np.linalg.svd(self.components_, compute_uv=False)
        self.rank_ = int(np.count_nonzero(self.components_.any(axis=1)))
        return self

    def transform(self, X: Any) -> Float[np.ndarray, "samples components"]:  # noqa: N803
        """The codes of the rows of X."""
        return (self._checked(X) - self.mean_) @ self.components_.T

    def inverse_transform(self, X: Any) -> Float[np.ndarray, "samples features"]:  # noqa: N803
        """The rows that codes stand for."""
        check_is_fitted(self)
        codes = check_array(X, dtype=np.float64)
        width = len(self.components_)
        if codes.shape[1] != width:
            raise RegardError(
                f"LinearAutoencoder was given codes {codes.shape[1]} wide; its own are {width} wide, "
                "which is n_components. Give what transform returned."
            )
        return codes @ self.decoder_.T + self.mean_

    def loss(self, X: Any) -> float:  # noqa: N803
        """What `fit` minimises, on the rows of X: their mean squared error and the penalty."""
        table = self._checked(X)
        root = (table - self.mean_) / math.sqrt(len(table))
        return autoencoder_loss(
            root, Factors(self.components_, self.decoder_), penalty=float(self.penalty)
        )

    def _checked(self, rows: Any) -> Float[np.ndarray, "samples features"]:
        check_is_fitted(self)
        table: Float[np.ndarray, "samples features"] = validate_data(
            self, rows, dtype=np.float64, reset=False
        )
        return table

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _by_formula(self, root: Float[np.ndarray, "rows features"]) -> Factors:
        self.n_iter_ = 1
        return closed_form(root, n_components=int(self.n_components), penalty=float(self.penalty))

    def _by_descent(self, root: Float[np.ndarray, "rows features"]) -> Factors:
        found = descend(
            root,
            n_components=int(self.n_components),
            penalty=float(self.penalty),
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            generator=check_random_state(self.random_state),
        )
        self.n_iter_ = found.rounds
        if not found.at_rest:
            warnings.warn(
                f"LinearAutoencoder did not come to rest in max_iter={self.max_iter} rounds: an "
                "eigenvalue close to the next or to the penalty makes a descent slow. Raise max_iter "
                "or tol, or choose solver='closed'.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return found.factors

    def _require_settings(self, *, features: int) -> None:
        width, penalty, most, tol = self.n_components, self.penalty, self.max_iter, self.tol
        rules = [
            (
                "n_components",
                _is_whole(width) and 1 <= width <= features,
                f"a whole number from 1 to {features}, the number of features",
            ),
            ("penalty", _is_amount(penalty), "a finite number, 0 (as PCA) or more"),
            ("max_iter", _is_whole(most) and most >= 1, "a whole number, 1 or more"),
            ("tol", _is_amount(tol), "a finite number, 0 or more"),
        ]
        for name, kept, rule in rules:
            if not kept:
                value = getattr(self, name)
                raise RegardError(f"LinearAutoencoder has {name}={value!r}; it must be {rule}.")


def _signed(factors: Factors) -> Factors:
    """The factors with the largest entry of each row of the encoder made positive."""
    encoder, decoder = factors
    largest = encoder[np.arange(len(encoder)), np.abs(encoder).argmax(axis=1)]
    signs = np.where(largest < 0, -1.0, 1.0)
    return Factors(encoder * signs[:, None], decoder * signs)


def _is_whole(value: object) -> bool:
    # NumPy's integers count; True is an integer to Python, and never a size.
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_amount(value: object) -> bool:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return number and 0 <= float(value) < math.inf  # type: ignore[arg-type]
