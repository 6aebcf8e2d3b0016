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
from typing import Any, Self, TypeVar, no_type_check

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from regard.core.errors import RegardError
from regard.core.names import look_up
from regard.models.autoencoder_loss import Factors, autoencoder_loss, closed_form
from regard.models.factor_descent import descend

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
        solver: "closed" computes the optimum by its formula (`regard.models.autoencoder_loss`);
            "gradient" descends on the two factors from a random start and finds the same
            (`regard.models.factor_descent`).
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
