"""Batching: padding, bucketing by length, order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import numpy as np
import pytest
import torch

from regard.core.batches import END, PAD, START
from regard.core.errors import RegardError
from regard.data.batching import Batches, evaluation_batches, fixed_batches, token_batches
from regard.data.token_store import TokenStore


def random_store(*, pairs: int, seed: int = 0, shortest: int = 0) -> TokenStore:
    """Source and target lengths of about 15, correlated as in translation."""
    rng = np.random.default_rng(seed)
    sources = rng.poisson(14, size=pairs) + shortest
    targets = np.maximum(sources + rng.integers(-3, 4, size=pairs), 0)
    return TokenStore.build(
        (
            rng.integers(4, 1000, size=int(source)).tolist(),
            rng.integers(4, 1000, size=int(target)).tolist(),
        )
        for source, target in zip(sources, targets, strict=True)
    )


STORE = random_store(pairs=3001)

MAKERS: dict[str, Callable[..., Batches]] = {
    "bucketed": lambda **options: token_batches(STORE, max_tokens=1000, **options),
    "unbucketed": lambda **options: token_batches(STORE, max_tokens=1000, bucket=False, **options),
    "few rows": lambda **options: token_batches(STORE, max_tokens=1000, max_rows=5, **options),
    "fixed": lambda **options: fixed_batches(STORE, rows=64, **options),
}


def rows_of(batches: Batches) -> list[list[int]]:
    return [batches.indices(index).tolist() for index in range(len(batches))]


def test_batch_by_hand() -> None:
    store = TokenStore.build([([4, 5, 6], [7, 8]), ([9], []), ([], [10, 11, 12])])
    (batch,) = fixed_batches(store, rows=3, seed=0, epoch=0)
    order = fixed_batches(store, rows=3, seed=0, epoch=0).indices(0).tolist()
    source = [[4, 5, 6, END], [9, END, PAD, PAD], [END, PAD, PAD, PAD]]
    target = [
        [START, 7, 8, END, PAD],
        [START, END, PAD, PAD, PAD],
        [START, 10, 11, 12, END],
    ]
    assert batch.source.tolist() == [source[row] for row in order]
    assert batch.target.tolist() == [target[row] for row in order]
    assert batch.source_lengths.tolist() == [[4, 2, 1][row] for row in order]
    assert batch.target_lengths.tolist() == [[4, 2, 5][row] for row in order]
    assert batch.source.dtype == batch.target_lengths.dtype == torch.int64


@pytest.mark.parametrize("maker", MAKERS)
def test_every_pair_occurs_once_per_epoch(maker: str) -> None:
    batches = MAKERS[maker](seed=1, epoch=2)
    seen = []
    for index, batch in enumerate(batches):
        rows = batches.indices(index)
        seen += rows.tolist()
        for position in (0, len(rows) - 1):
            row = int(rows[position])
            source = batch.source[position][: batch.source_lengths[position]].tolist()
            target = batch.target[position][: batch.target_lengths[position]].tolist()
            assert source == [*STORE.source(row), END]
            assert target == [START, *STORE.target(row), END]
        assert int((batch.source != PAD).sum()) == int(batch.source_lengths.sum())
        assert int((batch.target != PAD).sum()) == int(batch.target_lengths.sum())
        assert batch.source.shape[1] == int(batch.source_lengths.max())
        assert batch.target.shape[1] == int(batch.target_lengths.max())
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
    store = TokenStore.build([([4] * (1 + i % 3), [5]) for i in range(9)])
    assert rows_of(token_batches(store, max_tokens=18, seed=5, epoch=1)) == [
        [6, 0, 3],
        [8],
        [4, 7, 1],
        [5, 2],
    ]


@pytest.mark.parametrize("maker", ["bucketed", "unbucketed", "few rows"])
def test_batches_are_full_but_within_max_tokens(maker: str) -> None:
    batches = MAKERS[maker](seed=0, epoch=0)
    sizes = [batch.source.numel() + batch.target.numel() for batch in batches]
    rows = [len(batch.source) for batch in batches]
    assert max(sizes) <= 1000
    if maker == "few rows":
        assert max(rows) == 5
    else:
        assert sorted(sizes)[len(sizes) // 20] > 850


def test_bucketing_reduces_padding() -> None:
    bucketed = token_batches(STORE, max_tokens=1000, seed=0, epoch=0)
    fixed = fixed_batches(STORE, rows=32, seed=0, epoch=0)
    assert bucketed.padding_fraction < 0.05
    assert fixed.padding_fraction > 0.3
    padding = sum(
        int((batch.source == PAD).sum()) + int((batch.target == PAD).sum()) for batch in fixed
    )
    sizes = sum(batch.source.numel() + batch.target.numel() for batch in fixed)
    assert fixed.padding_fraction == pytest.approx(padding / sizes)


def test_buckets_differ_between_epochs() -> None:
    """Pairs of equal length are shuffled, not only the order of batches."""
    first, second = (
        {frozenset(rows) for rows in rows_of(token_batches(STORE, max_tokens=400, seed=0, epoch=e))}
        for e in (0, 1)
    )
    assert len(first & second) < len(first) / 4


def test_bucketed_batches_are_shuffled() -> None:
    widths = [
        batch.source.shape[1] for batch in token_batches(STORE, max_tokens=1000, seed=0, epoch=0)
    ]
    assert widths != sorted(widths)


def test_evaluation_batches() -> None:
    batches = evaluation_batches(STORE, max_tokens=1000)
    widths = [batch.source.shape[1] for batch in batches]
    assert widths == sorted(widths)
    lengths = np.zeros(len(STORE), dtype=np.int64)
    for index, batch in enumerate(batches):
        lengths[batches.indices(index)] = batch.source_lengths.numpy() - 1
    assert (lengths == STORE.source_lengths).all()
    assert batches.padding_fraction < 0.05
    assert (
        max(len(batch.source) for batch in evaluation_batches(STORE, max_tokens=900, max_rows=3))
        == 3
    )


def test_slice() -> None:
    batches = token_batches(STORE, max_tokens=1000, seed=0, epoch=0)
    rest = batches[3:]
    assert len(rest) == len(batches) - 3
    assert rows_of(rest) == rows_of(batches)[3:]
    assert torch.equal(rest[0].source, batches[3].source)
    assert torch.equal(batches[-1].target, batches[len(batches) - 1].target)
    with pytest.raises(IndexError):
        batches[len(batches)]


def test_pair_longer_than_a_batch() -> None:
    store = TokenStore.build([([4], [5]), ([4] * 50, [5] * 40), ([4] * 30, [5] * 30)])
    message = r"Pair 1 has 93 tokens, .* max_tokens=60 \(2 pairs"
    with pytest.raises(RegardError, match=message):
        token_batches(store, max_tokens=60, seed=0, epoch=0)
    with pytest.raises(RegardError, match=message):
        evaluation_batches(store, max_tokens=60)
    assert len(token_batches(store, max_tokens=93, seed=0, epoch=0)) == 3


def test_empty_store() -> None:
    store = TokenStore.build([])
    assert len(token_batches(store, max_tokens=10, seed=0, epoch=0)) == 0
    assert len(fixed_batches(store, rows=3, seed=0, epoch=0)) == 0
    assert evaluation_batches(store, max_tokens=10).padding_fraction == 0


@pytest.mark.parametrize("rows", [0, -1])
def test_batches_without_rows(rows: int) -> None:
    with pytest.raises(RegardError, match=f"rows={rows}"):
        fixed_batches(STORE, rows=rows, seed=0, epoch=0)
    with pytest.raises(RegardError, match=f"max_rows={rows}"):
        token_batches(STORE, max_tokens=1000, max_rows=rows, seed=0, epoch=0)
