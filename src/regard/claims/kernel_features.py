"""The features that regard's kernels make: how exactly they give the kernel, and how many there are."""

from __future__ import annotations

import math

import numpy as np
import torch

from regard.mechanisms.kernel import KernelMechanism
from regard.mechanisms.taylor import TaylorAttention


def feature_error(mechanism: KernelMechanism, *, width: int, seed: int) -> float:
    """The largest |φ(q)·φ(k) − κ(q, k)| over 1 + |κ|, for random vectors and large ones."""
    generator = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 50, width, dtype=torch.float64, generator=generator)
    q, k = torch.cat([q, 10 * q]), torch.cat([k, -10 * q])
    kernel = mechanism.kernel
    exact = kernel.pairwise(q, k)
    given = kernel.query_features(q) @ kernel.key_features(k).mT
    # What can cancel is as large as the lengths of the features, and so is its rounding.
    size = 1 + kernel.norms(q)[:, None] * kernel.norms(k)
    return float(((given - exact).abs() / size).max())


def feature_counts(*, width: int, terms: int) -> dict[str, int]:
    """By formula with every tensor power whole, and symmetric; made by regard; the rank of the kernel."""
    kernel = TaylorAttention(key_dim=width, num_terms=terms, scale=1.0).kernel
    symmetric = math.comb(width + terms - 1, terms - 1)
    points = torch.randn(
        2 * symmetric, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    gram = kernel.pairwise(points, points).numpy()
    lengths = np.sqrt(np.diag(gram))
    return {
        "tensor": sum(width**i for i in range(terms)),
        "symmetric": symmetric,
        "made": int(kernel.key_features(points).shape[-1]),
        "rank": int(np.linalg.matrix_rank(gram / np.outer(lengths, lengths), tol=1e-11)),
    }
