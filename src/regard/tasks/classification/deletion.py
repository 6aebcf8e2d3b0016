"""The deletion test: does the label hang on the words that attention gave most weight?

The words with most weight are left out, as many at random, and as many with least weight. If weights say
what counted, the first lowers the probability of the label that was said more than the second, and the
third less (Jain and Wallace 2019 ask whether they do; ERASER calls the first comprehensiveness, DeYoung
et al. 2020). Any text with words left out is unlike those learned from, so the fall after leaving out
random words is what the others are held against.

    shares 10 % of 30 words  →  the 3 words of each order are left out; a text keeps one word at least

A text's random orders are drawn from the seed and its own tokens: they do not depend on its batch. Equal
weights are ordered at random too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int, Int64
from torch import Tensor

from regard.core.batches import END, PAD, START
from regard.core.errors import RegardError
from regard.core.protocols import TextClassifier
from regard.core.records.document import DeletionRecord, Estimate, OrderRecord, require_shares

# What a classifier says of texts of which some tokens are left out, many versions at a time.
#
# a dull film .    without "dull"    →    a film . PAD
#
# Tokens that stay close ranks and keep the numbers of their sentences; none is replaced by padding
# in the middle of a text, which a model may read as a word. Versions of like length are read
# together.


PLACES_AT_A_TIME = 16_384
MARKS = (PAD, START, END)


def word_places(
    tokens: Int[Tensor, "batch length"], lengths: Int[Tensor, " batch"]
) -> Bool[np.ndarray, "batch length"]:
    """Where the tokens are words or parts of them: neither padding nor START or END."""
    inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
    marks = torch.tensor(MARKS, device=tokens.device)
    return (inside & ~torch.isin(tokens, marks)).numpy(force=True)


def probabilities_of(
    model: TextClassifier,
    tokens: Int[Tensor, "batch length"],
    lengths: Int[Tensor, " batch"],
    segments: Int[Tensor, "batch length"] | None,
) -> Float32[np.ndarray, "batch classes"]:
    """The probability of every class for every row."""
    if getattr(model, "training", False):
        raise RegardError(
            "The model is in training mode, whose dropout would make its answers random. Call "
            "model.eval() first."
        )
    with torch.inference_mode():
        logits = model.classified(tokens, lengths, segments).logits
    return logits.float().softmax(dim=-1).numpy(force=True)


def reread(
    model: TextClassifier,
    tokens: Int[Tensor, "batch length"],
    segments: Int[Tensor, "batch length"] | None,
    *,
    rows: Sequence[int],
    kept: Sequence[Int64[np.ndarray, " _"]],
) -> Float32[np.ndarray, "versions classes"]:
    """The probabilities for each version: the tokens of row `rows[i]` at the places `kept[i]`, in order."""
    sizes = np.array([len(places) for places in kept])
    order = np.argsort(sizes, kind="stable")
    device = tokens.device
    plain = tokens.numpy(force=True)
    numbers = None if segments is None else segments.numpy(force=True)
    said = []
    for chosen in _portions(order, sizes):
        width = int(sizes[chosen].max())
        texts = np.full((len(chosen), width), PAD, dtype=np.int64)
        parts = np.zeros_like(texts)
        for line, version in enumerate(chosen):
            row, places = rows[version], kept[version]
            texts[line, : len(places)] = plain[row, places]
            if numbers is not None:
                parts[line, : len(places)] = numbers[row, places]
        said.append(
            probabilities_of(
                model,
                torch.from_numpy(texts).to(device),
                torch.from_numpy(sizes[chosen]).to(device),
                None if numbers is None else torch.from_numpy(parts).to(device),
            )
        )
    return np.concatenate(said)[np.argsort(order)]


def _portions(
    order: Int64[np.ndarray, " versions"], sizes: Int64[np.ndarray, " versions"]
) -> Iterator[Int64[np.ndarray, " _"]]:
    """Versions in the order of their lengths, so many that padded they fill the places at most."""
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end - start + 1) * sizes[order[end]] <= PLACES_AT_A_TIME:
            end += 1
        yield order[start:end]
        start = end


SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What one order of leaving out did to each text, a row a draw; `top` and `least` have one.

    A fall is the probability of the label before minus after; a flip is another label.
    """

    falls: Float[np.ndarray, "texts draws shares"]
    flips: Bool[np.ndarray, "texts draws shares"]


@dataclass(frozen=True, kw_only=True)
class DeletionResult:
    """The texts of one batch: their words, how many were left out, and what that did.

    `labels` are those said of the whole texts, `probability` is that of each.
    """

    shares: tuple[float, ...]
    words: Int64[np.ndarray, " texts"]
    removed: Int64[np.ndarray, "texts shares"]
    labels: Int64[np.ndarray, " texts"]
    probability: Float[np.ndarray, " texts"]
    top: Changes
    random: Changes
    least: Changes


def deletion_curve(
    model: TextClassifier,
    tokens: Int[Tensor, "batch length"],
    lengths: Int[Tensor, " batch"],
    segments: Int[Tensor, "batch length"] | None,
    *,
    shares: tuple[float, ...] = SHARES,
    draws: int = 5,
    seed: int = 0,
) -> DeletionResult:
    """What leaving out each of the `shares` of the words does, with `draws` random orders a text."""
    require_shares(shares)
    if draws < 1:
        raise RegardError(f"The deletion test was given draws={draws}; give 1 or more.")
    importance = importance_of(model, tokens, lengths, segments)
    before = probabilities_of(model, tokens, lengths, segments)
    labels = before.argmax(axis=1)
    is_word = word_places(tokens, lengths)
    removed = np.array([[_count(share, int(row.sum())) for share in shares] for row in is_word])

    num_orders = 2 + draws
    rows: list[int] = []
    kept: list[Int64[np.ndarray, " _"]] = []
    # Which version answers for a text, an order and a share: shares of a short text may be the same.
    version = np.zeros((len(is_word), num_orders, len(shares)), dtype=np.int64)
    all_lengths = lengths.tolist()
    for row, places in enumerate(map(np.flatnonzero, is_word)):
        entropy = [seed, *tokens[row, : all_lengths[row]].tolist()]
        generator = np.random.default_rng(entropy)
        counts, which = np.unique(removed[row], return_inverse=True)
        for number, order in enumerate(_orders(importance[row], places, draws, generator)):
            version[row, number] = len(kept) + which
            everything = np.arange(all_lengths[row])
            kept += [np.delete(everything, order[:count]) for count in counts]
            rows += [row] * len(counts)
    after = reread(model, tokens, segments, rows=rows, kept=kept)[version]

    texts = np.arange(len(labels))
    probability = before[texts, labels].astype(np.float64)
    label_after = np.take_along_axis(after, labels[:, None, None, None], axis=-1)[..., 0]
    # Without anything left out nothing changes, whatever rounding says.
    nothing = (removed == 0)[:, None]
    falls = np.where(nothing, 0.0, probability[:, None, None] - label_after)
    flips = (after.argmax(axis=-1) != labels[:, None, None]) & ~nothing
    return DeletionResult(
        shares=shares,
        words=is_word.sum(axis=1),
        removed=removed,
        labels=labels,
        probability=probability,
        top=Changes(falls=falls[:, :1], flips=flips[:, :1]),
        random=Changes(falls=falls[:, 2:], flips=flips[:, 2:]),
        least=Changes(falls=falls[:, 1:2], flips=flips[:, 1:2]),
    )


def importance_of(
    model: TextClassifier,
    tokens: Int[Tensor, "batch length"],
    lengths: Int[Tensor, " batch"],
    segments: Int[Tensor, "batch length"] | None,
) -> Float[np.ndarray, "batch length"]:
    """The weight of every token as one number (`TextReading.importance`)."""
    with torch.inference_mode():
        reading = model.reading(tokens, lengths, segments)
        if reading is None:
            raise RegardError(
                f"{type(model).__name__} has no attention over its words, so there is nothing to test: "
                "leaving words out by weight needs weights. Train one that weighs words, such as "
                "structured or hierarchical."
            )
        places = torch.zeros_like(tokens) if segments is None else segments
        return reading.importance(places).numpy(force=True)


def _count(share: float, words: int) -> int:
    """How many of so many words a share is: rounded up, but one word stays.

    >>> [_count(0.1, words) for words in (1, 2, 10, 11, 30)]
    [0, 1, 1, 2, 3]
    """
    # A share of 0.1 is a little more than a tenth; that is no reason for one word more.
    return max(0, min(math.ceil(share * words - 1e-9), words - 1))


def _orders(
    importance: Float[np.ndarray, " length"],
    places: Int64[np.ndarray, " words"],
    draws: int,
    generator: np.random.Generator,
) -> list[Int64[np.ndarray, " words"]]:
    """The places of words in the order of leaving out: most weight first, least first, the draws."""
    shuffled = generator.permutation(places)
    rising = shuffled[np.argsort(importance[shuffled], kind="stable")]
    return [rising[::-1], rising, *(generator.permutation(places) for _ in range(draws))]


# The deletion test over many texts: means with intervals, and the paired difference top minus
# random.
#
# A text's random draws are averaged first, so that a text is one observation. Intervals are 95 %
# percentile intervals of the bootstrap over texts: texts are drawn with replacement and the mean is
# taken anew. All figures of one text are drawn together, so the difference is paired.
#
# A text of less than two words has none to spare. It is left out of the means, and counted.


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
