"""The loss of a regularised linear autoencoder, its gradient, and where it is least.

    loss(W₁, W₂) = (1/n) ‖X − X W₁ᵀ W₂ᵀ‖²_F + λ (‖W₁‖²_F + ‖W₂‖²_F)        rows of X are centred samples

(Kunin, Bloom, Goeva and Seed 2019, where samples are columns.) With s₁ ≥ s₂ ≥ … the eigenvalues of
Xᵀ X / n and U its eigenvectors, the least loss is at

    W₂ᵀ = W₁ = O diag(√max(0, 1 − λ/sᵢ)) U_Kᵀ        for any rotation O of the codes

Data enter through any *root* of their covariance: a matrix whose rootᵀ root is Xᵀ X / n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


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
