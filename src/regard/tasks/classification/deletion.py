"""The deletion test of faithfulness: does the prediction depend on the words with high attention?

The words with the largest weights are removed, as many at random, and as many with the smallest weights. If
attention is faithful, the first lowers the probability of the predicted label more than the second, and the
third less (Jain and Wallace 2019; ERASER calls the first comprehensiveness, DeYoung et al. 2020). A text
with words removed is out of distribution, so the drop after random removal is the baseline.

    fraction 10 % of 30 words  →  the first 3 words of each order are removed; at least one word stays

The random orders of a text are a function of the seed and its tokens, not of its batch. Ties are broken at
random. `mean_deletion` averages over texts: random draws of a text are averaged first, intervals are 95 %
percentile bootstrap intervals over texts, and the difference top minus random is paired. Texts with fewer
than two words are skipped and counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int64

from regard.core.batches import END, PAD, START, TokenInput
from regard.core.errors import RegardError
from regard.core.protocols import TextClassifier
from regard.core.records.document import DeletionRecord, Estimate, OrderRecord, validate_fractions

EVAL_BATCH_TOKENS = 16_384
BOUNDARY_TOKENS = (PAD, START, END)
FRACTIONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
ALPHA = 0.05
BOOTSTRAP_CHUNK = 4_000_000  # numbers held at once


def word_mask(texts: TokenInput) -> Bool[np.ndarray, "batch length"]:
    """Which positions hold words or subwords: neither padding nor START or END."""
    tokens, lengths = texts.tokens, texts.lengths
    inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
    special = torch.tensor(BOUNDARY_TOKENS, device=tokens.device)
    return (inside & ~torch.isin(tokens, special)).numpy(force=True)


def class_probabilities(
    model: TextClassifier,
    texts: TokenInput,
) -> Float32[np.ndarray, "batch classes"]:
    """The class probabilities of every row; the model must be in evaluation mode."""
    if getattr(model, "training", False):
        raise RegardError(
            "The model is in training mode, where dropout makes its predictions random. Call model.eval() "
            "first."
        )
    with torch.inference_mode():
        logits = model.classify(texts).logits
    return logits.float().softmax(dim=-1).numpy(force=True)


def classify_subsets(
    model: TextClassifier,
    texts: TokenInput,
    *,
    rows: Sequence[int],
    kept: Sequence[Int64[np.ndarray, " _"]],
) -> Float32[np.ndarray, "subsets classes"]:
    """The class probabilities of subsets: the tokens of row `rows[i]` at the positions `kept[i]`.

    As `score_subsets`.
    """
    return score_subsets(partial(class_probabilities, model), texts, rows=rows, kept=kept)


def score_subsets(
    score: Callable[[TokenInput], Float[np.ndarray, "batch *scores"]],
    texts: TokenInput,
    *,
    rows: Sequence[int],
    kept: Sequence[Int64[np.ndarray, " _"]],
) -> Float[np.ndarray, "subsets *scores"]:
    """The scores of subsets of texts, batch by batch.

    Kept tokens move together and keep their sentence numbers; nothing is replaced by padding inside a text.
    Subsets of similar length share a batch.
    """
    sizes = np.array([len(positions) for positions in kept])
    order = np.argsort(sizes, kind="stable")
    device = texts.tokens.device
    all_tokens = texts.tokens.numpy(force=True)
    all_segments = None if texts.segments is None else texts.segments.numpy(force=True)
    scores = []
    for chosen in _length_batches(order, sizes):
        width = int(sizes[chosen].max())
        tokens = np.full((len(chosen), width), PAD, dtype=np.int64)
        numbers = np.zeros_like(tokens)
        for line, subset in enumerate(chosen):
            row, positions = rows[subset], kept[subset]
            tokens[line, : len(positions)] = all_tokens[row, positions]
            if all_segments is not None:
                numbers[line, : len(positions)] = all_segments[row, positions]
        subset_input = TokenInput(
            torch.from_numpy(tokens),
            torch.from_numpy(sizes[chosen]),
            None if all_segments is None else torch.from_numpy(numbers),
        )
        scores.append(score(subset_input.to(device)))
    return np.concatenate(scores)[np.argsort(order)]


def _length_batches(
    order: Int64[np.ndarray, " subsets"], sizes: Int64[np.ndarray, " subsets"]
) -> Iterator[Int64[np.ndarray, " _"]]:
    """Subsets in batches of ascending length, each of at most EVAL_BATCH_TOKENS with padding."""
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end - start + 1) * sizes[order[end]] <= EVAL_BATCH_TOKENS:
            end += 1
        yield order[start:end]
        start = end


@dataclass(frozen=True, kw_only=True)
class OrderEffect:
    """Effect of one removal order on each text; `top` and `least` have one draw.

    A drop is the probability of the predicted label before minus after; a flip is a changed prediction.
    """

    drops: Float[np.ndarray, "texts draws fractions"]
    flips: Bool[np.ndarray, "texts draws fractions"]


@dataclass(frozen=True, kw_only=True)
class DeletionResult:
    """The deletion test of one batch of texts.

    `words` and `removed` are numbers of words, `labels` and `probability` the predictions of whole texts.
    """

    fractions: tuple[float, ...]
    words: Int64[np.ndarray, " texts"]
    removed: Int64[np.ndarray, "texts fractions"]
    labels: Int64[np.ndarray, " texts"]
    probability: Float[np.ndarray, " texts"]
    top: OrderEffect
    random: OrderEffect
    least: OrderEffect


def deletion_curve(
    model: TextClassifier,
    texts: TokenInput,
    *,
    fractions: tuple[float, ...] = FRACTIONS,
    draws: int = 5,
    seed: int = 0,
) -> DeletionResult:
    """Remove each of the `fractions` of the words, with `draws` random orders per text."""
    validate_fractions(fractions)
    if draws < 1:
        raise RegardError(f"draws={draws}: the deletion test needs 1 or more.")
    importance = token_importance(model, texts)
    before = class_probabilities(model, texts)
    labels = before.argmax(axis=1)
    is_word = word_mask(texts)
    removed = np.array(
        [[removal_count(fraction, int(row.sum())) for fraction in fractions] for row in is_word]
    )

    num_orders = 2 + draws
    rows: list[int] = []
    kept: list[Int64[np.ndarray, " _"]] = []
    # The subset of a text, an order and a fraction; fractions of a short text may share one.
    subset = np.zeros((len(is_word), num_orders, len(fractions)), dtype=np.int64)
    all_lengths = texts.lengths.tolist()
    for row, positions in enumerate(map(np.flatnonzero, is_word)):
        entropy = [seed, *texts.tokens[row, : all_lengths[row]].tolist()]
        generator = np.random.default_rng(entropy)
        counts, which = np.unique(removed[row], return_inverse=True)
        for number, order in enumerate(
            removal_orders(importance[row], positions, draws, generator)
        ):
            subset[row, number] = len(kept) + which
            everything = np.arange(all_lengths[row])
            kept += [np.delete(everything, order[:count]) for count in counts]
            rows += [row] * len(counts)
    after = classify_subsets(model, texts, rows=rows, kept=kept)[subset]

    items = np.arange(len(labels))
    probability = before[items, labels].astype(np.float64)
    label_after = np.take_along_axis(after, labels[:, None, None, None], axis=-1)[..., 0]
    # Without a removed word nothing changes, despite rounding.
    unchanged = (removed == 0)[:, None]
    drops = np.where(unchanged, 0.0, probability[:, None, None] - label_after)
    flips = (after.argmax(axis=-1) != labels[:, None, None]) & ~unchanged
    return DeletionResult(
        fractions=fractions,
        words=is_word.sum(axis=1),
        removed=removed,
        labels=labels,
        probability=probability,
        top=OrderEffect(drops=drops[:, :1], flips=flips[:, :1]),
        random=OrderEffect(drops=drops[:, 2:], flips=flips[:, 2:]),
        least=OrderEffect(drops=drops[:, 1:2], flips=flips[:, 1:2]),
    )


def token_importance(
    model: TextClassifier,
    texts: TokenInput,
) -> Float[np.ndarray, "batch length"]:
    """The attention weight of every token (`TextAttention.importance`)."""
    with torch.inference_mode():
        attention = model.text_attention(texts)
        if attention is None:
            raise RegardError(
                f"{type(model).__name__} has no attention over its words, so there is nothing to test. "
                "Use a model with attention, such as structured or hierarchical."
            )
        numbers = torch.zeros_like(texts.tokens) if texts.segments is None else texts.segments
        return attention.importance(numbers).numpy(force=True)


def removal_count(fraction: float, words: int) -> int:
    """How many words to remove: rounded up, but at least one word stays.

    >>> [removal_count(0.1, words) for words in (1, 2, 10, 11, 30)]
    [0, 1, 1, 2, 3]
    """
    # 0.1 in floating point is a little more than a tenth; it must not round up to one word more.
    return max(0, min(math.ceil(fraction * words - 1e-9), words - 1))


def removal_orders(
    importance: Float[np.ndarray, " length"],
    positions: Int64[np.ndarray, " words"],
    draws: int,
    generator: np.random.Generator,
) -> list[Int64[np.ndarray, " words"]]:
    """Word positions by descending weight, by ascending weight, and in random orders."""
    shuffled = generator.permutation(positions)
    ascending = shuffled[np.argsort(importance[shuffled], kind="stable")]
    return [ascending[::-1], ascending, *(generator.permutation(positions) for _ in range(draws))]


def mean_deletion(
    results: Iterable[DeletionResult], *, resamples: int = 2000, seed: int = 0
) -> DeletionRecord:
    """Means and intervals over all texts; for a single text, the range over its random draws."""
    found = list(results)
    _validate_compatible(found)
    tested = [result.words >= 2 for result in found]
    texts = int(sum(mask.sum() for mask in tested))
    if not texts:
        raise RegardError(
            "No text has two words or more, so no word can be removed. Give longer texts."
        )
    fractions = found[0].fractions

    def of_tested(part: Callable[[DeletionResult], np.ndarray]) -> np.ndarray:
        pairs = zip(found, tested, strict=True)
        return np.concatenate([part(result)[mask] for result, mask in pairs])

    estimates = bootstrap_estimates(of_tested(_columns), resamples=resamples, seed=seed)
    width = len(fractions)
    orders = []
    for _ in range(3):
        drops, flips = estimates[:width], estimates[width : 2 * width]
        orders.append(OrderRecord(drops=drops, flips=flips, area=estimates[2 * width]))
        estimates = estimates[2 * width + 1 :]
    return DeletionRecord(
        fractions=fractions,
        removed=tuple(of_tested(lambda result: result.removed).mean(axis=0).tolist()),
        texts=texts,
        skipped_texts=sum(map(len, tested)) - texts,
        draws=found[0].random.drops.shape[1],
        probability=float(of_tested(lambda result: result.probability).mean()),
        top=orders[0],
        random=orders[1],
        least=orders[2],
        differences=estimates[:width],
        area_difference=estimates[width],
    )


def area(
    drops: Float[np.ndarray, "texts draws fractions"], fractions: tuple[float, ...]
) -> Float[np.ndarray, "texts draws 1"]:
    """The mean drop from fraction 0 to the last, by linear interpolation."""
    heights = np.concatenate([np.zeros_like(drops[..., :1]), drops], axis=-1)
    under = np.trapezoid(heights, np.array([0.0, *fractions]), axis=-1)
    return under[..., None] / fractions[-1]


def _columns(result: DeletionResult) -> Float[np.ndarray, "texts draws figures"]:
    """All averaged columns: drops, flips and area of each order, then the differences."""

    def of_order(changes: OrderEffect) -> list[Float[np.ndarray, "texts draws some"]]:
        flips = changes.flips.astype(np.float64)
        return [changes.drops, flips, area(changes.drops, result.fractions)]

    top, random, least = map(of_order, (result.top, result.random, result.least))
    differences = [top[0] - random[0], top[2] - random[2]]
    parts = [*top, *random, *least, *differences]
    texts, draws = random[0].shape[:2]
    return np.concatenate(
        [np.broadcast_to(part, (texts, draws, part.shape[-1])) for part in parts], axis=-1
    )


def bootstrap_estimates(
    columns: Float[np.ndarray, "texts draws figures"], *, resamples: int, seed: int
) -> tuple[Estimate, ...]:
    """The mean of each figure, its 95 % interval over texts; of a single text, the range of its draws."""
    by_text = columns.mean(axis=1)
    if len(columns) == 1:
        low, high = columns[0].min(axis=0), columns[0].max(axis=0)
    else:
        low, high = _interval(by_text, resamples=resamples, generator=np.random.default_rng(seed))
    return tuple(
        # Means of equal numbers in another order may differ in the last bit.
        Estimate(mean=mean, low=least, high=most) if most - least > 1e-12 else Estimate(mean=mean)
        for mean, least, most in zip(
            by_text.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True
        )
    )


def _interval(
    by_text: Float[np.ndarray, "texts figures"], *, resamples: int, generator: np.random.Generator
) -> Float[np.ndarray, "2 figures"]:
    texts = len(by_text)
    each = max(1, BOOTSTRAP_CHUNK // texts)
    means = [
        # The counts of the texts in a resample are multinomial.
        generator.multinomial(texts, np.full(texts, 1 / texts), size=size) @ by_text / texts
        for size in (min(each, resamples - start) for start in range(0, resamples, each))
    ]
    return np.quantile(np.concatenate(means), [ALPHA / 2, 1 - ALPHA / 2], axis=0)


def _validate_compatible(found: list[DeletionResult]) -> None:
    if not found:
        raise RegardError("There are no deletion results to average. Give one or more.")
    kinds = {(result.fractions, result.random.drops.shape[1]) for result in found}
    if len(kinds) > 1:
        named = "; ".join(
            f"fractions {list(fractions)}, {draws} draws" for fractions, draws in kinds
        )
        raise RegardError(
            f"The deletion results have different settings: {named}. Use the same fractions and draws for "
            "all batches."
        )
