"""Document records: attention weights of a text classifier, and the deletion test of faithfulness.

    tokens       A   dull  film  .   Never  again  .
    segments     0    0     0    0     1      1    1      sentence of each token
    hops        .1   .6    .2   .1    .5     .4   .1      one row of weights per hop (or head)
    sentence_weights      .7                  .3          or None without sentence-level attention

Without `sentence_weights` each hop sums to one over the document, with them over each sentence.

The deletion test removes a fraction of the words in three orders: by descending weight (`top`), in random
order (`random`) and by ascending weight (`least`). A drop is the probability of the predicted label before
minus after the removal; it is negative where the label gets more probable. A flip is a changed prediction.
The area is the mean drop over all fractions from 0 to the largest, by linear interpolation (compare
AOPC, the area over the perturbation curve).

Records hold plain values; `from_dict` is the inverse of `to_dict`.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from regard.core.errors import RegardError
from regard.core.records.record import Record
from regard.core.records.sound import SoundRecord


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean with its range; the ends are None where nothing varies.

    Over several texts `low` and `high` are the 95 % confidence interval of the mean; for a single text
    they are the minimum and maximum over its random draws.
    """

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class OrderRecord:
    """Effect of one removal order: a probability drop and a flip rate for each fraction."""

    drops: tuple[Estimate, ...]
    flips: tuple[Estimate, ...]
    area: Estimate


@dataclass(frozen=True, kw_only=True)
class DeletionRecord(Record):
    """Result of the deletion test.

    Args:
        fractions: Removed fractions of the words, ascending, above 0 and at most 1.
        removed: Mean number of removed words at each fraction.
        texts: Number of texts.
        skipped_texts: Number of texts with fewer than two words, which are not tested.
        draws: Random orders per text.
        probability: Mean probability of the predicted label of the whole text.
        top, random, least: Effect of each removal order.
        differences: Drop of `top` minus drop of `random` at each fraction.
        area_difference: Area of `top` minus area of `random`.
    """

    HOW_TO_MAKE: ClassVar[str] = "Pass the output of `DeletionRecord.to_dict`."
    fractions: tuple[float, ...]
    removed: tuple[float, ...]
    texts: int
    skipped_texts: int
    draws: int
    probability: float
    top: OrderRecord
    random: OrderRecord
    least: OrderRecord
    differences: tuple[Estimate, ...]
    area_difference: Estimate

    def __post_init__(self) -> None:
        validate_fractions(self.fractions)
        columns = {"removed": self.removed, "differences": self.differences}
        for name, order in self.orders().items():
            columns |= {f"drops of '{name}'": order.drops, f"flips of '{name}'": order.flips}
        for name, column in columns.items():
            if len(column) != len(self.fractions):
                raise RegardError(
                    f"The deletion result has {len(column)} {name} for {len(self.fractions)} fractions. "
                    "Pass one per fraction."
                )
        if self.texts < 1:
            raise RegardError(
                f"The deletion result is of {self.texts} texts. Pass at least one text of two words."
            )

    def orders(self) -> dict[str, OrderRecord]:
        """The three removal orders by name."""
        return {"top": self.top, "random": self.random, "least": self.least}

    def index_of(self, fraction: float) -> int:
        """Index of the nearest fraction."""
        return min(
            range(len(self.fractions)), key=lambda index: abs(self.fractions[index] - fraction)
        )

    def to_dict(self) -> dict[str, Any]:
        """The record as lists, numbers and strings, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Any) -> DeletionRecord:
        """Load a record from the output of `to_dict`."""
        return cls.from_json(json.dumps(plain))


def validate_fractions(fractions: tuple[float, ...]) -> None:
    """Raise an error unless fractions ascend, above 0 and up to 1."""
    ends = (0.0, *fractions)
    rising = all(low < high <= 1 for low, high in zip(ends, fractions, strict=False))
    if not fractions or not rising:
        raise RegardError(
            f"fractions={list(fractions)}: the removed fractions of the words must ascend, above 0 and at "
            "most 1, for example 0.01, 0.1, 0.5."
        )


@dataclass(frozen=True, kw_only=True)
class DocumentRecord(Record):
    """One document, its predicted label, and the attention weights behind the prediction.

    Args:
        tokens: Tokens of the text.
        segments: Index of the sentence of each token.
        hops: Weights of the tokens, one row per hop.
        sentence_weights: Weight of each sentence, or None.
        label: Predicted label.
        probabilities: Probability of every label.
        title: Title of the page or figure.
        reference: Reference label, if known; it need not be one the model can predict.
        deletion: Deletion test of this text.
        drops: Leave-one-out drop of the label's probability per token; None for special tokens.
        kendall_tau: Kendall's tau between drops and weights.
        truncated_tokens: Number of tokens beyond `max_length`, which the model did not read.
        sound: The recording, whose equal parts are the tokens; None for a text.
    """

    tokens: tuple[str, ...]
    segments: tuple[int, ...]
    hops: tuple[tuple[float, ...], ...]
    sentence_weights: tuple[float, ...] | None
    label: str
    probabilities: dict[str, float]
    title: str
    reference: str | None = None
    deletion: DeletionRecord | None = None
    drops: tuple[float | None, ...] | None = None
    kendall_tau: float | None = None
    truncated_tokens: int = 0
    sound: SoundRecord | None = None

    def __post_init__(self) -> None:
        if not self.tokens:
            raise RegardError("The document has no tokens. Pass at least one.")
        if not self.hops:
            raise RegardError("The document has no weights. Pass at least one hop.")
        columns: dict[str, tuple[Any, ...]] = {"segments": self.segments}
        columns |= {f"weights in hop {index}": hop for index, hop in enumerate(self.hops, start=1)}
        if self.drops is not None:
            columns["drops"] = self.drops
        for name, column in columns.items():
            if len(column) != len(self.tokens):
                raise RegardError(
                    f"The document has {len(column)} {name} for {len(self.tokens)} tokens. "
                    "Pass one per token."
                )
        self._validate_weights()
        self._validate_segments()
        if self.truncated_tokens < 0:
            raise RegardError(
                f"truncated_tokens={self.truncated_tokens} is negative. Pass 0 or more."
            )
        if self.label not in self.probabilities:
            raise RegardError(
                f"The label '{self.label}' has no probability; these have: "
                f"{', '.join(self.probabilities) or 'none'}. Pass the probability of every label."
            )

    def _validate_weights(self) -> None:
        token_weights = (weight for hop in self.hops for weight in hop)
        for weight in (*token_weights, *(self.sentence_weights or ())):
            if not (math.isfinite(weight) and weight >= 0):
                raise RegardError(
                    f"The document has the weight {weight}; weights must be finite and not negative. "
                    "Look for an overflow where they were computed."
                )

    def _validate_segments(self) -> None:
        if min(self.segments) < 0:
            raise RegardError(
                f"A token has the segment {min(self.segments)}; sentences are numbered from 0."
            )
        if self.sentence_weights is not None and len(self.sentence_weights) <= max(self.segments):
            raise RegardError(
                f"The document has {len(self.sentence_weights)} sentence weights, but a token of "
                f"segment {max(self.segments)}, counted from 0. Pass one weight per sentence."
            )

    def mean_weights(self) -> tuple[float, ...]:
        """Token weights averaged over hops."""
        return tuple(sum(weights) / len(self.hops) for weights in zip(*self.hops, strict=True))

    def importance(self) -> tuple[float, ...]:
        """Importance of each token: mean weight over hops, times the weight of its sentence."""
        if self.sentence_weights is None:
            return self.mean_weights()
        return tuple(
            weight * self.sentence_weights[segment]
            for weight, segment in zip(self.mean_weights(), self.segments, strict=True)
        )
