"""A descent on the two factors of a regularised linear autoencoder, which knows no eigenvectors.

The loss (`regard.models.autoencoder_loss`) is not convex in both factors together, but all its stationary
points other than the lowest are saddles (Kunin et al. 2019). From a random start, rounds of three steps
go down, and none of them raises the loss:

    encoder    the loss is a quadratic in W₁: to its minimum in the span of W₁, its gradient and W₂ᵀ
    decoder    the loss is a quadratic in W₂: to its minimum, which is a ridge regression
    balance    of all factors with the product W₂ W₁, to those of the least penalty

Steps down the gradient alone, even those of L-BFGS, take thousands of rounds where eigenvalues differ a
million times; these take some tens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import lstsq

from regard.models.autoencoder_loss import Factors, loss_gradient

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
