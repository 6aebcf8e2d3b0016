"""How far Taylor attention is from softmax attention, at worst, when no score exceeds a bound.

A kernel sees a query and a key only through q·k, so that ‖q‖‖k‖ ≤ R says no more than that scores lie in
[−R, R]. Looked for are the worst of them among those with some keys at an end of that range and the others
at one of `PLACES` places in it; scores in between may be worse by about a thousandth of the error.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from regard.claims.boundary_search import last_that_holds
from regard.mechanisms.dot import DotAttention
from regard.mechanisms.taylor import TaylorAttention

# Places in [−R, R] for the other keys.
PLACES = 17
# Beyond it no boundary is looked for.
FARTHEST = 30.0
# Far above what is asked for: weights are computed from scores, so that features are never made.
UNBOUNDED = 10**9


def adversarial_scores(reach: float, *, keys: int) -> Float[Tensor, "patterns keys"]:
    """Every pattern of some keys at an end of [−reach, reach] and the others at one place in it."""
    places = torch.linspace(-reach, reach, PLACES, dtype=torch.float64)
    first = torch.arange(keys) < torch.arange(1, keys)[:, None]
    patterns = [torch.where(first[:, None], end, places[:, None]) for end in (-reach, reach)]
    return torch.cat(patterns).flatten(0, 1)


def worst_error(*, terms: int, reach: float, keys: int) -> float:
    """The largest Σⱼ |weight − softmax weight|: what an output is off with values in [−1, 1]."""
    key = adversarial_scores(reach, keys=keys)[:, None, :, None]
    query = torch.ones(len(key), 1, 1, 1, dtype=torch.float64)
    taylor = TaylorAttention(key_dim=1, num_terms=terms, scale=1.0, max_features=UNBOUNDED)
    apart = taylor.weights(query, key) - DotAttention().weights(query, key)
    return float(apart.abs().sum(dim=-1).max())


def output_error(*, terms: int, norm: float, width: int, keys: int, seed: int) -> float:
    """The largest |output − softmax output| for random vectors with ‖q‖‖k‖ = norm, through features."""
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (
        torch.randn(1, 1, keys, width, dtype=torch.float64, generator=generator) for _ in range(3)
    )
    query, key = (norm**0.5 * x / x.norm(dim=-1, keepdim=True) for x in (query, key))
    taylor = TaylorAttention(
        key_dim=width, num_terms=terms, scale=1.0, form="linear", max_features=UNBOUNDED
    )
    return float((taylor(query, key, value) - DotAttention()(query, key, value)).abs().max())


def series_at(scores: Float[Tensor, " places"], *, terms: int) -> Float[Tensor, " places"]:
    """The kernel at these scores, before it is divided by its sum."""
    taylor = TaylorAttention(key_dim=1, num_terms=terms, scale=1.0, max_features=UNBOUNDED)
    return taylor.kernel.pairwise(torch.ones(1, 1, dtype=torch.float64), scores[:, None])[0]


def largest_reach(*, terms: int, error: float, keys: int) -> float:
    """The largest ‖q‖‖k‖ tried at which the weights are within the error of softmax; 0 if there is none."""

    def near(reach: float) -> bool:
        return worst_error(terms=terms, reach=reach, keys=keys) <= error

    return last_that_holds(near, low=0.0, high=FARTHEST, halvings=24) or 0.0


def first_negative(terms: int) -> float | None:
    """The score below which the series turns negative; None if it does not."""

    def stays(depth: float) -> bool:
        return bool(series_at(torch.tensor([-depth], dtype=torch.float64), terms=terms)[0] >= 0)

    depths = torch.linspace(0, FARTHEST, 3001, dtype=torch.float64)
    below = (series_at(-depths, terms=terms) < 0).nonzero()
    if not len(below):
        return None
    place = int(below[0])
    found = last_that_holds(stays, low=float(depths[place - 1]), high=float(depths[place]))
    return None if found is None else -found
