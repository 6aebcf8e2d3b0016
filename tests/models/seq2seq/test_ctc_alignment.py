"""CTC alignment: Viterbi and forward–backward against all paths of a few frames."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from tests.factories.ctc import BLANK, Path, log_sum, paths_by_output, random_scores
from torch import Tensor

from regard.models.seq2seq.ctc_alignment import (
    NO_TOKEN,
    forced_alignment,
    min_frames,
    token_posteriors,
)

# Tokens that differ, that repeat, a single one, and none; in as many frames and in more.
OUTPUTS: list[Path] = [(1, 2, 1), (2, 2), (3,), ()]
LENGTHS = torch.tensor([5, 3, 5, 2])
COUNTS = torch.tensor([len(output) for output in OUTPUTS])
TOKENS = torch.tensor([[*output, *[9] * (4 - len(output))] for output in OUTPUTS]) % 4


def scores_of(seed: int) -> Tensor:
    return random_scores(seed, batch=4, frames=6, vocabulary=4)


def states(path: Path) -> list[int]:
    """For each frame of a path, the index of its token in the output, or NO_TOKEN."""
    index, before, found = -1, BLANK, []
    for token in path:
        index += token not in (BLANK, before)
        found.append(NO_TOKEN if token == BLANK else index)
        before = token
    return found


@pytest.mark.parametrize("seed", range(4))
def test_forced_alignment_is_the_best_of_all_paths(seed: int) -> None:
    scores = scores_of(seed)
    found = forced_alignment(scores, LENGTHS, TOKENS, COUNTS)
    for row, (output, length) in enumerate(zip(OUTPUTS, LENGTHS.tolist(), strict=True)):
        paths = paths_by_output(scores[row, :length])[output]
        best = max(paths, key=lambda path: paths[path])
        assert found.tokens[row].tolist() == [*states(best), *[NO_TOKEN] * (6 - length)]
        assert float(found.log_probability[row]) == pytest.approx(paths[best])


@pytest.mark.parametrize("seed", range(4))
def test_posteriors_are_those_of_all_paths(seed: int) -> None:
    scores = scores_of(seed)
    found = token_posteriors(scores, LENGTHS, TOKENS, COUNTS)
    assert found.shape == (4, 4, 6)
    for row, (output, length) in enumerate(zip(OUTPUTS, LENGTHS.tolist(), strict=True)):
        paths = paths_by_output(scores[row, :length])[output]
        total = log_sum(paths.values())
        expected = torch.zeros(4, 6, dtype=torch.float64)
        for path, log_p in paths.items():
            for frame, token in enumerate(states(path)):
                if token != NO_TOKEN:
                    expected[token, frame] += math.exp(log_p - total)
        # The sum is the expected number of frames of the token.
        expected[: len(output)] /= expected[: len(output)].sum(dim=1, keepdim=True)
        torch.testing.assert_close(found[row], expected, rtol=0, atol=1e-12)


def test_posteriors_agree_with_the_gradient_of_pytorch() -> None:
    """Its gradient in the log-probabilities is p − posterior: that of a log-softmax is included."""
    scores = random_scores(7, batch=2, frames=40, vocabulary=6).requires_grad_()
    tokens = torch.tensor([[1, 2, 3, 4, 5], [5, 3, 1, 2, 4]])
    lengths, counts = torch.tensor([40, 23]), torch.tensor([5, 5])
    loss = F.ctc_loss(scores.transpose(0, 1), tokens, lengths, counts, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, scores)
    posteriors = (scores.exp() - gradient).detach()
    found = token_posteriors(scores.detach(), lengths, tokens, counts)
    for row, length in enumerate(lengths.tolist()):
        of_tokens = posteriors[row, :length, tokens[row]].t()
        expected = of_tokens / of_tokens.sum(dim=1, keepdim=True)
        torch.testing.assert_close(found[row, :, :length], expected, rtol=0, atol=1e-10)
        assert not found[row, :, length:].any()


def test_outputs_without_a_path() -> None:
    scores, tokens = scores_of(0), torch.tensor([[2, 2]] * 4)
    lengths, counts = torch.tensor([2, 3, 1, 6]), torch.tensor([2, 2, 2, 2])
    assert min_frames(tokens, counts).tolist() == [3, 3, 3, 3]
    aligned = forced_alignment(scores, lengths, tokens, counts)
    assert (aligned.tokens == NO_TOKEN).all(dim=1).tolist() == [True, False, True, False]
    assert aligned.log_probability.isinf().tolist() == [True, False, True, False]
    sums = token_posteriors(scores, lengths, tokens, counts).sum(dim=2)
    expected = torch.tensor([[0.0] * 2, [1.0] * 2, [0.0] * 2, [1.0] * 2]).double()
    torch.testing.assert_close(sums, expected)


def test_fewest_frames() -> None:
    scores = random_scores(1, batch=1, frames=4, vocabulary=3)[0]
    for output in itertools.chain.from_iterable(
        itertools.product((1, 2), repeat=count) for count in range(5)
    ):
        needed = int(min_frames(torch.tensor([[*output, 9, 9]]), torch.tensor([len(output)])))
        for frames in range(1, 5):
            assert (output in paths_by_output(scores[:frames])) == (needed <= frames)
