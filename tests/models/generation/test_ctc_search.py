"""CTC decoding: against all paths of a few frames, and prefix beam search as it is published."""

from __future__ import annotations

import math
from collections import defaultdict

import pytest
import torch
from tests.factories.ctc import BLANK, Path, collapse, log_sum, paths_by_output, random_scores
from torch import Tensor

from regard.models.generation.ctc_search import best_path, prefix_beam_search

LENGTHS = torch.tensor([5, 1, 4])


def scores_of(seed: int) -> Tensor:
    return random_scores(seed, batch=3, frames=5, vocabulary=4)


@pytest.mark.parametrize("seed", range(5))
def test_best_path_is_the_maximum_over_all_paths(seed: int) -> None:
    scores = scores_of(seed)
    for row, (length, found) in enumerate(
        zip(LENGTHS.tolist(), best_path(scores, LENGTHS), strict=True)
    ):
        paths = paths_by_output(scores[row, :length])
        every = {path: total for of_output in paths.values() for path, total in of_output.items()}
        best = max(every, key=lambda path: every[path])
        assert found.tokens == collapse(best)
        assert found.score == pytest.approx(every[best])


def test_repeats_are_merged_and_blanks_dropped() -> None:
    path = torch.tensor([[1, 1, BLANK, 1, 2, 2, BLANK], [BLANK, 3, 3, 3, BLANK, 2, 2]])
    scores = torch.full((2, 7, 4), -9.0).scatter(2, path[:, :, None], -0.5)
    found = best_path(scores, torch.tensor([7, 5]))
    assert [one.tokens for one in found] == [(1, 1, 2), (3,)]
    assert [one.score for one in found] == [-3.5, -2.5]


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_the_output_of_highest_probability(seed: int) -> None:
    scores = scores_of(seed)
    found = prefix_beam_search(scores, LENGTHS, beam_size=400)
    for row, (length, one) in enumerate(zip(LENGTHS.tolist(), found, strict=True)):
        paths = paths_by_output(scores[row, :length])
        totals = {output: log_sum(of_output.values()) for output, of_output in paths.items()}
        best = max(totals, key=lambda output: totals[output])
        assert one.tokens == best
        assert one.score == pytest.approx(totals[best], abs=1e-12)


def test_summing_over_paths_differs_from_the_best_path() -> None:
    """By hand: the best path is blank, blank (0.36); "a" has three paths of 0.24 + 0.24 + 0.16."""
    scores = torch.tensor([[[0.6, 0.4], [0.6, 0.4]]]).double().log()
    lengths = torch.tensor([2])
    (greedy,), (beam,) = (
        best_path(scores, lengths),
        prefix_beam_search(scores, lengths, beam_size=2),
    )
    assert (greedy.tokens, beam.tokens) == ((), (1,))
    assert math.exp(greedy.score) == pytest.approx(0.36)
    assert math.exp(beam.score) == pytest.approx(0.64)


def published_search(scores: Tensor, *, beam_size: int) -> tuple[Path, float]:
    """Hannun et al. (2014), algorithm 1, with dictionaries and probabilities."""
    kept: dict[Path, tuple[float, float]] = {(): (1.0, 0.0)}
    for frame in scores.exp().tolist():
        found: dict[Path, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for prefix, (in_blank, in_token) in kept.items():
            found[prefix][0] += frame[BLANK] * (in_blank + in_token)
            for token in range(1, len(frame)):
                if prefix[-1:] == (token,):
                    found[prefix][1] += frame[token] * in_token
                    found[*prefix, token][1] += frame[token] * in_blank
                else:
                    found[*prefix, token][1] += frame[token] * (in_blank + in_token)
        best = sorted(found.items(), key=lambda item: -sum(item[1]))[:beam_size]
        kept = {prefix: (blank, token) for prefix, (blank, token) in best}
    best_prefix = max(kept, key=lambda prefix: sum(kept[prefix]))
    return best_prefix, math.log(sum(kept[best_prefix]))


@pytest.mark.parametrize("beam_size", [1, 2, 3, 8])
@pytest.mark.parametrize("seed", range(3))
def test_pruning_is_that_of_the_published_search(seed: int, beam_size: int) -> None:
    scores = random_scores(seed, batch=4, frames=19, vocabulary=6)
    lengths = torch.tensor([19, 11, 2, 19])
    found = prefix_beam_search(scores, lengths, beam_size=beam_size)
    for row, (length, one) in enumerate(zip(lengths.tolist(), found, strict=True)):
        tokens, total = published_search(scores[row, :length], beam_size=beam_size)
        assert one.tokens == tokens
        assert one.score == pytest.approx(total, abs=1e-9)


def test_tokens_that_are_impossible_are_not_found() -> None:
    scores = scores_of(0)
    scores[:, :, [1, 2]] = float("-inf")
    for found in (
        best_path(scores, LENGTHS),
        prefix_beam_search(scores, LENGTHS, beam_size=50),
    ):
        assert {token for one in found for token in one.tokens} <= {3}
        assert all(math.isfinite(one.score) for one in found)
