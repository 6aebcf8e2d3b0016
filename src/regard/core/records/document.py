"""A document as a classifier read it, as plain values: made with a model, drawn without it.

    tokens       A   dull  film  .   Never  again  .
    segments     0    0     0    0     1      1    1
    hops        .1   .6    .2   .1    .5     .4   .1      one row of weights a hop
    sentences             .7                  .3          or None, where sentences are not weighed

Without `sentences` the weights of a hop sum to one over the document, with them over each sentence, as in
`core/text_classifier.py`. `as_json` and `from_json` are each other's inverse.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from regard.core.errors import RegardError

# What leaving words out does to what a classifier says, as plain values: measured once, drawn
# later.
#
# Words are left out in three orders: those with most weight first (`top`), as they come (`random`),
# those with least weight first (`least`).
#
# fall    the probability of the label said of the whole text, minus that of the same label without
# the words; negative where leaving them out makes the label surer flip    whether another label is
# said without them area    the mean fall over all shares from none to the largest, by straight
# lines between the points
#
# `as_plain` and `from_plain` are each other's inverse.


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean and how far it may be trusted; no ends where nothing varies.

    Over several texts `low` and `high` are the ends of the 95 % interval of the mean; of a single text
    they are the least and the most of its random draws.
    """

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class OrderRecord:
    """What one order of leaving out does: a fall and a share of flips for each share of words."""

    falls: tuple[Estimate, ...]
    flips: tuple[Estimate, ...]
    area: Estimate


@dataclass(frozen=True, kw_only=True)
class DeletionRecord:
    """The three orders, and by how much the fall of `top` exceeds that of `random`.

    `shares` go up, each above 0 and at most 1; `removed` is how many words that was, in the mean. Of the
    `texts` every one has two words or more: `left_out` is how many had not, and so had none to spare.
    """

    shares: tuple[float, ...]
    removed: tuple[float, ...]
    texts: int
    left_out: int
    draws: int
    probability: float
    top: OrderRecord
    random: OrderRecord
    least: OrderRecord
    differences: tuple[Estimate, ...]
    area_difference: Estimate

    def __post_init__(self) -> None:
        require_shares(self.shares)
        columns = {"removed": self.removed, "differences": self.differences}
        for name, order in self.orders().items():
            columns |= {f"falls of '{name}'": order.falls, f"flips of '{name}'": order.flips}
        for name, column in columns.items():
            if len(column) != len(self.shares):
                raise RegardError(
                    f"The deletion result has {len(column)} {name} for {len(self.shares)} shares. "
                    "Give one a share."
                )
        if self.texts < 1:
            raise RegardError(
                f"The deletion result is of {self.texts} texts. Give at least one text of two words."
            )

    def orders(self) -> dict[str, OrderRecord]:
        """The three by name, as they are told."""
        return {"top": self.top, "random": self.random, "least": self.least}

    def place_of(self, share: float) -> int:
        """Which of the shares is nearest."""
        return min(range(len(self.shares)), key=lambda place: abs(self.shares[place] - share))

    def as_plain(self) -> dict[str, Any]:
        """Lists, numbers and names, for JSON."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Any) -> DeletionRecord:
        """The record that `as_plain` gave, from JSON or not."""
        try:
            orders = {name: _order(plain[name]) for name in ("top", "random", "least")}
            return cls(
                **plain
                | orders
                | {
                    "shares": tuple(map(_number, plain["shares"])),
                    "removed": tuple(map(_number, plain["removed"])),
                    "probability": _number(plain["probability"]),
                    "differences": tuple(map(_estimate, plain["differences"])),
                    "area_difference": _estimate(plain["area_difference"]),
                }
            )
        except RegardError:
            raise  # it is a deletion result, with a fault that has its own words
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RegardError(
                f"The values are not a deletion result ({type(error).__name__}: {error}). "
                "Give what `DeletionRecord.as_plain` gave."
            ) from error


def require_shares(shares: tuple[float, ...]) -> None:
    """Refuse shares that do not go up from above 0 to at most 1."""
    ends = (0.0, *shares)
    rising = all(low < high <= 1 for low, high in zip(ends, shares, strict=False))
    if not shares or not rising:
        raise RegardError(
            f"The shares of words to leave out are {list(shares)}, and they go up, each above 0 and at "
            "most 1. Give for example 0.01, 0.1, 0.5."
        )


def _number(plain: Any) -> float:
    number = float(plain)
    if not math.isfinite(number):
        raise ValueError(f"{plain!r} stands where a finite number should")
    return number


def _estimate(plain: Any) -> Estimate:
    ends = [None if plain[end] is None else _number(plain[end]) for end in ("low", "high")]
    return Estimate(mean=_number(plain["mean"]), low=ends[0], high=ends[1])


def _order(plain: Any) -> OrderRecord:
    return OrderRecord(
        falls=tuple(map(_estimate, plain["falls"])),
        flips=tuple(map(_estimate, plain["flips"])),
        area=_estimate(plain["area"]),
    )


@dataclass(frozen=True, kw_only=True)
class DocumentRecord:
    """One document, the label said of it, and what was looked at for that.

    `right` is the right label where it is known; it need not be one of those that can be said. `falls`
    says for each token by how much leaving it out alone lowers the probability of the label (None for
    marks, which stay), and `agreement` is Kendall's tau between these and the weights. `cut_tokens` is how
    many tokens of the text come after these, which the model did not read.
    """

    tokens: tuple[str, ...]
    segments: tuple[int, ...]
    hops: tuple[tuple[float, ...], ...]
    sentences: tuple[float, ...] | None
    label: str
    probabilities: dict[str, float]
    title: str
    right: str | None = None
    deletion: DeletionRecord | None = None
    falls: tuple[float | None, ...] | None = None
    agreement: float | None = None
    cut_tokens: int = 0

    def __post_init__(self) -> None:
        if not self.tokens:
            raise RegardError("The document has no tokens. Give at least one.")
        if not self.hops:
            raise RegardError("The document has no weights. Give at least one hop.")
        columns: dict[str, tuple[Any, ...]] = {"segments": self.segments}
        columns |= {f"weights in hop {place}": hop for place, hop in enumerate(self.hops, start=1)}
        if self.falls is not None:
            columns["falls"] = self.falls
        for name, column in columns.items():
            if len(column) != len(self.tokens):
                raise RegardError(
                    f"The document has {len(column)} {name} for {len(self.tokens)} tokens. "
                    "Give one a token."
                )
        self._require_weights()
        self._require_sentences()
        if self.cut_tokens < 0:
            raise RegardError(f"cut_tokens={self.cut_tokens}: it is a count. Give 0 or more.")
        if self.label not in self.probabilities:
            raise RegardError(
                f"The label '{self.label}' has no probability; these have: "
                f"{', '.join(self.probabilities) or 'none'}. Give the probability of every label."
            )

    def _require_weights(self) -> None:
        for weight in (*(weight for hop in self.hops for weight in hop), *(self.sentences or ())):
            if not (math.isfinite(weight) and weight >= 0):
                raise RegardError(
                    f"The document has the weight {weight}, and weights are finite and not negative. "
                    "Look for an overflow where they were computed."
                )

    def _require_sentences(self) -> None:
        if min(self.segments) < 0:
            raise RegardError(
                f"A token is of sentence {min(self.segments)}, and sentences count from 0. "
                "Number them anew."
            )
        if self.sentences is not None and len(self.sentences) <= max(self.segments):
            raise RegardError(
                f"The document has {len(self.sentences)} sentence weights, and a token of sentence "
                f"{max(self.segments)}, counted from 0. Give a weight a sentence."
            )

    def mean_weights(self) -> tuple[float, ...]:
        """The mean of the hops."""
        return tuple(sum(weights) / len(self.hops) for weights in zip(*self.hops, strict=True))

    def importance(self) -> tuple[float, ...]:
        """One number a token: the mean of the hops, times the weight of its sentence."""
        if self.sentences is None:
            return self.mean_weights()
        return tuple(
            weight * self.sentences[segment]
            for weight, segment in zip(self.mean_weights(), self.segments, strict=True)
        )

    def as_json(self) -> str:
        """The record as JSON text."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> DocumentRecord:
        """The record that `as_json` wrote."""
        try:
            plain = json.loads(text)
            deletion, falls, sentences = (
                plain[name] for name in ("deletion", "falls", "sentences")
            )
            agreement = plain["agreement"]
            read: dict[str, Any] = {
                "tokens": tuple(_word(token) for token in _list(plain["tokens"])),
                "segments": tuple(int(segment) for segment in plain["segments"]),
                "hops": tuple(_weights(hop) for hop in plain["hops"]),
                "sentences": None if sentences is None else _weights(sentences),
                "label": _word(plain["label"]),
                "probabilities": {
                    label: float(share) for label, share in plain["probabilities"].items()
                },
                "title": _word(plain["title"]),
                "right": None if plain["right"] is None else _word(plain["right"]),
                "deletion": None if deletion is None else DeletionRecord.from_plain(deletion),
                "falls": None if falls is None else tuple(map(_fall, falls)),
                "agreement": None if agreement is None else float(agreement),
                "cut_tokens": int(plain.get("cut_tokens", 0)),
            }
            return cls(**plain | read)
        except RegardError:
            raise  # it is a document, with a fault that has its own words
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RegardError(
                f"The text is not a document ({type(error).__name__}: {error}). "
                "Give what `DocumentRecord.as_json` wrote."
            ) from error


def _list(plain: Any) -> list[Any]:
    if not isinstance(plain, list):
        raise TypeError(f"{plain!r} stands where a list should")
    return plain


def _word(plain: Any) -> str:
    if not isinstance(plain, str):
        raise TypeError(f"{plain!r} stands where a text should")
    return plain


def _weights(plain: Any) -> tuple[float, ...]:
    return tuple(float(weight) for weight in _list(plain))


def _fall(plain: Any) -> float | None:
    return None if plain is None else float(plain)
