"""What a model says of masked tokens and of pairs, held against what is wanted."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.core.text_batch import TextBatch
from regard.data.wordpiece import MASK_NUMBER


class Answers(NamedTuple):
    """What is said at some places or of some rows, and what is wanted there."""

    logits: Float[Tensor, "asked choices"]
    wanted: Int[Tensor, " asked"]


def answers_of(model: Any, batch: TextBatch) -> tuple[Answers, Answers]:
    """Of the masked tokens and of the pairs; nothing is projected where nothing is wanted."""
    hidden = model.hidden(batch.tokens, batch.lengths, batch.segments)
    predicted, labelled = batch.predicted, batch.labelled
    of_tokens = Answers(model.token_logits(hidden[predicted]), batch.wanted[predicted])
    if not labelled.any():
        # Not asked at all: a head that is never used must not be moved by weight decay either.
        return of_tokens, Answers(hidden.new_zeros(0, 2), batch.labels[:0])
    pooled = model.pooled(hidden)[labelled]
    return of_tokens, Answers(model.pair_logits(pooled), batch.labels[labelled])


def likeliest(logits: Float[Tensor, "asked vocabulary"]) -> Int[Tensor, " asked"]:
    """The likeliest token that can stand in a text; MASK and the special ones are never told."""
    first = MASK_NUMBER + 1
    return logits[..., first:].argmax(dim=-1) + first


class Tally:
    """Adds up what was asked, its cross-entropy, and how much of what was said is right."""

    def __init__(self) -> None:
        self.total, self.right, self.count = 0.0, 0, 0

    def add(self, answers: Answers, said: Int[Tensor, " asked"]) -> None:
        """Take in the answers of one batch."""
        self.total += F.cross_entropy(answers.logits, answers.wanted, reduction="sum").item()
        self.right += int((said == answers.wanted).sum())
        self.count += len(answers.wanted)

    @property
    def mean(self) -> float:
        """The cross-entropy of one answer."""
        return self.total / self.count

    @property
    def accuracy(self) -> float:
        """In percent."""
        return 100.0 * self.right / self.count
