"""Batching: padding, bucketing by length, order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch

from regard.core.batches import END, PAD, START, FrameInput
from regard.core.errors import RegardError
from regard.data.batching import Batches, evaluation_batches, token_batches
from regard.data.examples import Examples, Ragged
from regard.data.preprocessor import pair_examples


def random_store(*, pairs: int, seed: int = 0, shortest: int = 0) -> Examples:
    """Source and target lengths of about 15, correlated as in translation."""
    rng = np.random.default_rng(seed)
    sources = rng.poisson(14, size=pairs) + shortest
    targets = np.maximum(sources + rng.integers(-3, 4, size=pairs), 0)
    return pair_examples(
        (
            rng.integers(4, 1000, size=int(source)).tolist(),
            rng.integers(4, 1000, size=int(target)).tolist(),
        )
        for source, target in zip(sources, targets, strict=True)
    )


STORE: Any = random_store(pairs=3001)

MAKERS: dict[str, Callable[..., Any]] = {
    "bucketed": lambda **options: token_batches(STORE, max_tokens=1000, **options),
    "unbucketed": lambda **options: token_batches(STORE, max_tokens=1000, bucket=False, **options),
}


def padding_fraction(batches: Any) -> float:
    """Fraction of the positions that is padding."""
    tokens = [part.tokens for batch in batches for part in (batch.input, batch.target)]
    return sum(int((each == PAD).sum()) for each in tokens) / sum(each.numel() for each in tokens)


def rows_of(batches: Batches) -> list[list[int]]:
    return [batches.indices(index).tolist() for index in range(len(batches))]


def test_batch_by_hand() -> None:
    store = pair_examples([([4, 5, 6], [7, 8]), ([9], []), ([], [10, 11, 12])])
    batches: Any = token_batches(store, max_tokens=100, seed=0, epoch=0)
    (batch,), order = batches, batches.indices(0).tolist()
    source = [[4, 5, 6, END], [9, END, PAD, PAD], [END, PAD, PAD, PAD]]
    target = [
        [START, 7, 8, END, PAD],
        [START, END, PAD, PAD, PAD],
        [START, 10, 11, 12, END],
    ]
    assert batch.input.tokens.tolist() == [source[row] for row in order]
    assert batch.target.tokens.tolist() == [target[row] for row in order]
    assert batch.input.lengths.tolist() == [[4, 2, 1][row] for row in order]
    assert batch.target.lengths.tolist() == [[4, 2, 5][row] for row in order]
    assert batch.input.tokens.dtype == batch.target.lengths.dtype == torch.int64


@pytest.mark.parametrize("maker", MAKERS)
def test_every_pair_occurs_once_per_epoch(maker: str) -> None:
    batches = MAKERS[maker](seed=1, epoch=2)
    seen = []
    for index, batch in enumerate(batches):
        rows = batches.indices(index)
        seen += rows.tolist()
        for position in (0, len(rows) - 1):
            row = int(rows[position])
            source = batch.input.tokens[position][: batch.input.lengths[position]].tolist()
            target = batch.target.tokens[position][: batch.target.lengths[position]].tolist()
            assert source == [*STORE.inputs[row], END]
            assert target == [START, *STORE.targets[row], END]
        assert int((batch.input.tokens != PAD).sum()) == int(batch.input.lengths.sum())
        assert int((batch.target.tokens != PAD).sum()) == int(batch.target.lengths.sum())
        assert batch.input.tokens.shape[1] == int(batch.input.lengths.max())
        assert batch.target.tokens.shape[1] == int(batch.target.lengths.max())
    assert sorted(seen) == list(range(len(STORE)))


@pytest.mark.parametrize("maker", MAKERS)
def test_order_is_a_function_of_seed_and_epoch(maker: str) -> None:
    make = MAKERS[maker]
    first = rows_of(make(seed=1, epoch=2))
    assert rows_of(make(seed=1, epoch=2)) == first
    assert rows_of(make(seed=1, epoch=3)) != first
    assert rows_of(make(seed=2, epoch=1)) != first
    other = rows_of(make(seed=2**63 - 1, epoch=0))
    assert sorted(chain.from_iterable(other)) == list(range(len(STORE)))


def test_order_is_stable_between_versions() -> None:
    store = pair_examples([([4] * (1 + i % 3), [5]) for i in range(9)])
    assert rows_of(token_batches(store, max_tokens=18, seed=5, epoch=1)) == [
        [6, 0, 3],
        [8],
        [4, 7, 1],
        [5, 2],
    ]


@pytest.mark.parametrize("maker", MAKERS)
def test_batches_are_full_but_within_max_tokens(maker: str) -> None:
    batches = MAKERS[maker](seed=0, epoch=0)
    sizes = [batch.input.tokens.numel() + batch.target.tokens.numel() for batch in batches]
    assert max(sizes) <= 1000
    assert sorted(sizes)[len(sizes) // 20] > 850


def test_bucketing_reduces_padding() -> None:
    assert padding_fraction(MAKERS["bucketed"](seed=0, epoch=0)) < 0.05
    assert padding_fraction(MAKERS["unbucketed"](seed=0, epoch=0)) > 0.3


def test_buckets_differ_between_epochs() -> None:
    """Pairs of equal length are shuffled, not only the order of batches."""
    first, second = (
        {frozenset(rows) for rows in rows_of(token_batches(STORE, max_tokens=400, seed=0, epoch=e))}
        for e in (0, 1)
    )
    assert len(first & second) < len(first) / 4


def test_bucketed_batches_are_shuffled() -> None:
    widths = [batch.input.tokens.shape[1] for batch in MAKERS["bucketed"](seed=0, epoch=0)]
    assert widths != sorted(widths)


def test_evaluation_batches() -> None:
    batches: Any = evaluation_batches(STORE, max_tokens=1000)
    widths = [batch.input.tokens.shape[1] for batch in batches]
    assert widths == sorted(widths)
    lengths = np.zeros(len(STORE), dtype=np.int64)
    for index, batch in enumerate(batches):
        lengths[batches.indices(index)] = batch.input.lengths.numpy() - 1
    assert (lengths == STORE.inputs.lengths).all()
    assert padding_fraction(batches) < 0.05


def test_slice() -> None:
    batches = MAKERS["bucketed"](seed=0, epoch=0)
    rest = batches[3:]
    assert len(rest) == len(batches) - 3
    assert rows_of(rest) == rows_of(batches)[3:]
    assert torch.equal(rest[0].input.tokens, batches[3].input.tokens)
    assert torch.equal(batches[-1].target.tokens, batches[len(batches) - 1].target.tokens)
    with pytest.raises(IndexError):
        batches[len(batches)]


def test_pair_longer_than_a_batch() -> None:
    store = pair_examples([([4], [5]), ([4] * 50, [5] * 40), ([4] * 30, [5] * 30)])
    message = r"Example 1 has 93 tokens, .* max_tokens=60 \(2 are"
    with pytest.raises(RegardError, match=message):
        token_batches(store, max_tokens=60, seed=0, epoch=0)
    with pytest.raises(RegardError, match=message):
        evaluation_batches(store, max_tokens=60)
    assert len(token_batches(store, max_tokens=93, seed=0, epoch=0)) == 3


def test_empty_store() -> None:
    store = pair_examples([])
    assert len(token_batches(store, max_tokens=10, seed=0, epoch=0)) == 0
    assert len(evaluation_batches(store, max_tokens=10)) == 0


def test_frames_and_classes() -> None:
    rows = [np.full((length, 2), float(length), dtype=np.float32) for length in (3, 1)]
    examples = Examples(inputs=Ragged.of(rows), targets=np.array([1, 0]))
    batch = examples.collate(np.array([0, 1]))
    assert isinstance(batch.input, FrameInput)
    assert batch.input.frames.tolist() == [[[3.0, 3.0]] * 3, [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]]
    assert (batch.input.lengths.tolist(), batch.input.padded) == ([3, 1], True)
    assert batch.target.labels.tolist() == [1, 0]
    assert batch.num_tokens == 4
    values = Examples(inputs=Ragged.of(rows), targets=np.array([0.5, 2.0], dtype=np.float32))
    assert values.collate(np.array([1])).target.values.tolist() == [2.0]
