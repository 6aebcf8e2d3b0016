"""The deletion test over many texts: means with intervals, and the paired difference top minus random.

A text's random draws are averaged first, so that a text is one observation. Intervals are 95 % percentile
intervals of the bootstrap over texts: texts are drawn with replacement and the mean is taken anew. All
figures of one text are drawn together, so the difference is paired.

A text of less than two words has none to spare. It is left out of the means, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from regard.core.deletion_record import DeletionRecord, Estimate, OrderRecord
from regard.core.errors import RegardError
from regard.tasks.deletion import Changes, DeletionResult

LEVEL = 0.05
NUMBERS_AT_ONCE = 4_000_000


def mean_deletion(
    results: Iterable[DeletionResult], *, resamples: int = 2000, seed: int = 0
) -> DeletionRecord:
    """All texts of these batches together; of a single text, the ends are those of its draws."""
    found = list(results)
    _require_alike(found)
    spare = [result.words >= 2 for result in found]
    texts = int(sum(mask.sum() for mask in spare))
    if not texts:
        raise RegardError(
            "None of the texts has two words or more, so none has a word to spare. Give longer ones."
        )
    shares = found[0].shares
    columns = np.concatenate(
        [_columns(result)[mask] for result, mask in zip(found, spare, strict=True)]
    )
    estimates = _estimates(columns, resamples=resamples, seed=seed)
    width = len(shares)
    orders = []
    for _ in range(3):
        falls, flips = estimates[:width], estimates[width : 2 * width]
        orders.append(OrderRecord(falls=falls, flips=flips, area=estimates[2 * width]))
        estimates = estimates[2 * width + 1 :]
    removed = np.concatenate(
        [result.removed[mask] for result, mask in zip(found, spare, strict=True)]
    )
    probability = np.concatenate(
        [result.probability[mask] for result, mask in zip(found, spare, strict=True)]
    )
    return DeletionRecord(
        shares=shares,
        removed=tuple(removed.mean(axis=0).tolist()),
        texts=texts,
        left_out=sum(map(len, spare)) - texts,
        draws=found[0].random.falls.shape[1],
        probability=float(probability.mean()),
        top=orders[0],
        random=orders[1],
        least=orders[2],
        differences=estimates[:width],
        area_difference=estimates[width],
    )


def area(
    falls: Float[np.ndarray, "texts draws shares"], shares: tuple[float, ...]
) -> Float[np.ndarray, "texts draws 1"]:
    """The mean height of the lines from nothing left out, where nothing falls, to the last share."""
    heights = np.concatenate([np.zeros_like(falls[..., :1]), falls], axis=-1)
    under = np.trapezoid(heights, np.array([0.0, *shares]), axis=-1)
    return under[..., None] / shares[-1]


def _columns(result: DeletionResult) -> Float[np.ndarray, "texts draws figures"]:
    """Every figure that a mean is taken of: falls, flips and area of each order, then differences."""

    def of_order(changes: Changes) -> list[Float[np.ndarray, "texts draws some"]]:
        flips = changes.flips.astype(np.float64)
        return [changes.falls, flips, area(changes.falls, result.shares)]

    top, random, least = map(of_order, (result.top, result.random, result.least))
    differences = [top[0] - random[0], top[2] - random[2]]
    parts = [*top, *random, *least, *differences]
    texts, draws = random[0].shape[:2]
    return np.concatenate(
        [np.broadcast_to(part, (texts, draws, part.shape[-1])) for part in parts], axis=-1
    )


def _estimates(
    columns: Float[np.ndarray, "texts draws figures"], *, resamples: int, seed: int
) -> tuple[Estimate, ...]:
    by_text = columns.mean(axis=1)
    if len(columns) == 1:
        low, high = columns[0].min(axis=0), columns[0].max(axis=0)
    else:
        low, high = _interval(by_text, resamples=resamples, generator=np.random.default_rng(seed))
    return tuple(
        # Means of the same numbers in another order may differ in the last bit.
        Estimate(mean=mean, low=least, high=most) if most - least > 1e-12 else Estimate(mean=mean)
        for mean, least, most in zip(
            by_text.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True
        )
    )


def _interval(
    by_text: Float[np.ndarray, "texts figures"], *, resamples: int, generator: np.random.Generator
) -> Float[np.ndarray, "2 figures"]:
    texts = len(by_text)
    each = max(1, NUMBERS_AT_ONCE // texts)
    means = [
        # How often each text comes up in a resample is multinomial.
        generator.multinomial(texts, np.full(texts, 1 / texts), size=size) @ by_text / texts
        for size in (min(each, resamples - start) for start in range(0, resamples, each))
    ]
    return np.quantile(np.concatenate(means), [LEVEL / 2, 1 - LEVEL / 2], axis=0)


def _require_alike(found: list[DeletionResult]) -> None:
    if not found:
        raise RegardError("There are no deletion results to put together. Give one or more.")
    kinds = {(result.shares, result.random.falls.shape[1]) for result in found}
    if len(kinds) > 1:
        words = "; ".join(f"shares {list(shares)}, {draws} draws" for shares, draws in kinds)
        raise RegardError(
            f"The deletion results were measured differently: {words}. Measure all batches with the "
            "same shares and draws."
        )
