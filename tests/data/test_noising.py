"""Span corruption and token masking: lossless, reproducible, with the configured fractions."""

from __future__ import annotations

import time
from collections import Counter
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.core.batches import IGNORE_INDEX, UNKNOWN
from regard.core.errors import RegardError
from regard.data.examples import Ragged
from regard.data.noising import corrupt_spans, corrupt_texts, mask_tokens

TEXTS = st.lists(st.integers(4, 20), min_size=1, max_size=50)
SEEDS = st.integers(0, 2**32)
FRACTIONS = st.floats(0.01, 1.0)

# No example database, and no deadline on a busy machine.
quiet = settings(database=None, deadline=None)


def corrupt_span(text: list[int], *, seed: int, **options: float) -> tuple[list[int], list[int]]:
    found: Any = corrupt_texts(Ragged.of([text]), seed=seed, epoch=0, **options)
    return found.inputs[0].tolist(), found.targets[0].tolist()


def fill_spans(tokens: list[int], spans: list[list[int]]) -> list[int]:
    remaining = iter(spans)
    parts = [next(remaining) if token == UNKNOWN else [token] for token in tokens]
    assert next(remaining, None) is None
    return [token for part in parts for token in part]


def split_spans(target: list[int]) -> list[list[int]]:
    spans: list[list[int]] = []
    for token in target:
        if token == UNKNOWN:
            spans.append([])
        else:
            spans[-1].append(token)
    return spans


@quiet
@given(
    text=TEXTS,
    seed=SEEDS,
    max_span_fraction=FRACTIONS,
    full_length_probability=st.floats(0, 1),
    min_kept_fraction=FRACTIONS,
)
def test_one_span_is_lossless(
    text: list[int],
    seed: int,
    max_span_fraction: float,
    full_length_probability: float,
    min_kept_fraction: float,
) -> None:
    tokens, span = corrupt_span(
        text,
        seed=seed,
        max_span_fraction=max_span_fraction,
        full_length_probability=full_length_probability,
        min_kept_fraction=min_kept_fraction,
    )
    whole = fill_spans(tokens, [span])
    assert whole == text[: len(whole)]
    assert len(whole) >= max(1, min_kept_fraction * len(text))
    assert 1 <= len(span) <= max(1, max_span_fraction * len(whole))
    assert tokens.count(UNKNOWN) == 1


@quiet
@given(text=TEXTS, seed=SEEDS)
def test_texts_are_not_truncated_by_default(text: list[int], seed: int) -> None:
    tokens, span = corrupt_span(text, seed=seed)
    assert fill_spans(tokens, [span]) == text


@quiet
@given(texts=st.lists(st.lists(st.integers(3, 20), max_size=9), max_size=9), seed=SEEDS)
def test_store_is_lossless(texts: list[list[int]], seed: int) -> None:
    store: Any = corrupt_texts(Ragged.of(texts), seed=seed, epoch=2, full_length_probability=0.5)
    assert len(store) == len(texts)
    for index, text in enumerate(texts):
        tokens, span = store.inputs[index].tolist(), store.targets[index].tolist()
        sentinels = [position for position, token in enumerate(tokens) if token == UNKNOWN]
        wholes = [[*tokens[:sentinel], *span, *tokens[sentinel + 1 :]] for sentinel in sentinels]
        assert any(whole == text[: len(whole)] for whole in wholes)


def test_store_is_a_function_of_seed_and_epoch() -> None:
    texts = Ragged.of([list(range(4, 4 + length)) for length in range(1, 60)])
    prints = [
        corrupt_texts(texts, seed=seed, epoch=epoch).fingerprint()
        for seed, epoch in [(1, 2), (1, 2), (2, 1), (1, 3)]
    ]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def test_spans_are_uniform() -> None:
    texts = Ragged.of([[4, 5, 6]] * 3000)
    spans: Any = corrupt_texts(texts, seed=0, epoch=0, max_span_fraction=1.0).targets
    sampled = Counter(tuple(spans[row].tolist()) for row in range(3000))
    assert set(sampled) == {(4,), (5,), (6,), (4, 5), (5, 6), (4, 5, 6)}
    by_length = [sum(sampled[span] for span in sampled if len(span) == size) for size in (1, 2, 3)]
    assert all(900 < count < 1100 for count in by_length)


def test_time_for_a_large_store() -> None:
    lengths = np.random.default_rng(0).integers(5, 40, size=100_000)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    store = Ragged(np.full(offsets[-1], 7, dtype=np.int32), offsets)
    begin = time.process_time()
    corrupt_texts(store, seed=0, epoch=0)
    assert time.process_time() - begin < 2  # 0.4 s on an idle machine


@quiet
@given(text=TEXTS, seed=SEEDS, noise_density=FRACTIONS, mean_span_length=st.floats(1, 10))
def test_several_spans_are_lossless_and_not_adjacent(
    text: list[int], seed: int, noise_density: float, mean_span_length: float
) -> None:
    rng = np.random.default_rng(seed)
    tokens, target = corrupt_spans(
        text, noise_density=noise_density, mean_span_length=mean_span_length, rng=rng
    )
    assert fill_spans(tokens, split_spans(target)) == text
    sentinels = tokens.count(UNKNOWN)
    assert len(target) - sentinels == max(1, round(noise_density * len(text)))
    assert target.count(UNKNOWN) == sentinels >= 1
    assert all(
        token != UNKNOWN or len(list(run)) == 1
        for sequence in (tokens, target)
        for token, run in groupby(sequence)
    )


def test_mean_span_length() -> None:
    rng = np.random.default_rng(0)
    tokens, target = corrupt_spans(
        list(range(4, 404)), noise_density=0.15, mean_span_length=3.0, rng=rng
    )
    assert tokens.count(UNKNOWN) == 20
    assert len(target) == 20 + 60


def test_positions_of_several_spans() -> None:
    rng = np.random.default_rng(0)
    sampled = Counter(
        tuple(corrupt_spans([4, 5, 6], noise_density=0.6, mean_span_length=1.0, rng=rng).input)
        for _ in range(20)
    )
    assert set(sampled) == {(3, 5, 3)}  # two non-adjacent positions of three: one way
    ends = {
        tuple(corrupt_spans([4, 5, 6], noise_density=0.3, mean_span_length=1.0, rng=rng).input)
        for _ in range(50)
    }
    assert ends == {(3, 5, 6), (4, 3, 6), (4, 5, 3)}


def test_empty_text_and_one_token() -> None:
    rng = np.random.default_rng(0)
    assert corrupt_span([9], seed=0, full_length_probability=0.0) == ([UNKNOWN], [9])
    assert corrupt_spans([9], noise_density=0.15, mean_span_length=3.0, rng=rng) == (
        [UNKNOWN],
        [UNKNOWN, 9],
    )
    assert corrupt_spans([], noise_density=0.15, mean_span_length=3.0, rng=rng) == ([], [])
    assert corrupt_span([], seed=0) == ([UNKNOWN], [])
    assert len(corrupt_texts(Ragged.of([]), seed=0, epoch=0)) == 0


def test_text_with_the_sentinel_raises() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(RegardError, match="contains <unknown>"):
        corrupt_spans([4, UNKNOWN], noise_density=0.5, mean_span_length=1.0, rng=rng)


MASK, VOCAB_SIZE = 4, 50


def padded_rows(tokens: list[list[int]]) -> np.ndarray:
    width = max(map(len, tokens), default=0)
    return np.array([row + [0] * (width - len(row)) for row in tokens], dtype=np.int64)


@quiet
@given(
    tokens=st.lists(st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1), min_size=1, max_size=6),
    seed=st.integers(0, 2**32),
    fraction=st.floats(0, 1),
)
def test_masked_positions(tokens: list[list[int]], seed: int, fraction: float) -> None:
    rows = padded_rows(tokens)
    rng = np.random.default_rng(seed)
    masked = mask_tokens(rows, rng=rng, mask_id=MASK, vocab_size=VOCAB_SIZE, mask_fraction=fraction)
    selected = masked.labels != IGNORE_INDEX
    assert (masked.labels[selected] == rows[selected]).all()
    assert (masked.tokens[~selected] == rows[~selected]).all()
    assert (rows[selected] > MASK).all()
    assert (masked.tokens[selected] >= MASK).all()
    assert (masked.tokens < VOCAB_SIZE).all()
    for row, of_row in zip(rows, selected, strict=True):
        ordinary = int((row > MASK).sum())
        assert of_row.sum() == (max(1, np.rint(fraction * ordinary)) if ordinary else 0)


def test_masking_frequencies() -> None:
    rows = np.random.default_rng(0).integers(MASK + 1, VOCAB_SIZE, size=(400, 200))
    tokens, labels = mask_tokens(
        rows, rng=np.random.default_rng(1), mask_id=MASK, vocab_size=VOCAB_SIZE
    )
    selected = labels != IGNORE_INDEX
    assert (selected.sum(axis=1) == 30).all()
    masked_fraction = (tokens == MASK)[selected].mean()
    unchanged = (tokens == rows)[selected].mean()
    assert masked_fraction == pytest.approx(0.8, abs=0.01)
    # One of 45 random tokens is the original one.
    assert unchanged == pytest.approx(0.1 + 0.1 / 45, abs=0.01)
    inserted = tokens[selected & (tokens != MASK) & (tokens != rows)]
    assert set(inserted.tolist()) == set(range(MASK + 1, VOCAB_SIZE))
    # All positions of a row are equally likely.
    assert selected.mean(axis=0).std() == pytest.approx(np.sqrt(0.15 * 0.85 / 400), rel=0.2)


def test_masking_is_reproducible() -> None:
    rows = padded_rows([[1, 7, 8, 9, 2], [1, 9, 2]])
    first, again, other = (
        mask_tokens(rows, rng=np.random.default_rng(seed), mask_id=MASK, vocab_size=VOCAB_SIZE)
        for seed in (3, 3, 4)
    )
    assert (first.tokens == again.tokens).all()
    assert (first.labels == again.labels).all()
    assert (first.labels != other.labels).any()


def test_masking_by_hand() -> None:
    tokens, labels = mask_tokens(
        padded_rows([[1, 7, 3, 2], [1, 2]]),
        rng=np.random.default_rng(0),
        mask_id=MASK,
        vocab_size=VOCAB_SIZE,
        mask_replace_prob=1.0,
        random_replace_prob=0.0,
    )
    assert tokens.tolist() == [[1, MASK, 3, 2], [1, 2, 0, 0]]
    assert labels.tolist() == [[-1, 7, -1, -1], [-1, -1, -1, -1]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"random_replace_prob": -0.1}, r"random_replace_prob=-0\.1"),
        ({"mask_replace_prob": 0.8, "random_replace_prob": 0.3}, r"mask_replace_prob=0\.8"),
    ],
)
def test_invalid_masking_options(options: dict, message: str) -> None:
    given_options = {"mask_id": MASK, "vocab_size": VOCAB_SIZE, **options}
    with pytest.raises(RegardError, match=message):
        mask_tokens(padded_rows([[7]]), rng=np.random.default_rng(0), **given_options)
