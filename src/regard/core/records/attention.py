"""Who read what while one output was written, as plain values: made with a model, drawn without it.

A map has a row for each output token and a column for each source token, for each head: its entry
says how much of the source token was read while the output token was written. `as_json` and
`from_json` are each other's inverse.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.core.errors import RegardError

Map = tuple[tuple[tuple[float, ...], ...], ...]


@dataclass(frozen=True, kw_only=True)
class AlignmentRecord:
    """The attention maps of one input, by name, each heads × output × source.

    Every map has at least one head and fits the tokens; a weight is any finite number.
    """

    source_tokens: tuple[str, ...]
    output_tokens: tuple[str, ...]
    maps: dict[str, Map]
    title: str

    def __post_init__(self) -> None:
        if not (self.source_tokens and self.output_tokens):
            raise RegardError(
                f"An alignment needs tokens on both sides, not {len(self.source_tokens)} of the "
                f"source and {len(self.output_tokens)} of the output. Give at least one of each."
            )
        if not self.maps:
            raise RegardError("The alignment has no maps. Give at least one, under a name.")
        for name, heads in self.maps.items():
            self._require_fit(name, heads)

    def _require_fit(self, name: str, heads: Map) -> None:
        rows, columns = len(self.output_tokens), len(self.source_tokens)
        if not heads:
            raise RegardError(f"Map '{name}' has no heads. Give at least one.")
        for number, head in enumerate(heads, start=1):
            where = f"Map '{name}', head {number}"
            if len(head) != rows:
                raise RegardError(
                    f"{where} has {len(head)} rows for {rows} output tokens. Give a row a token."
                )
            for row in head:
                if len(row) != columns:
                    raise RegardError(
                        f"{where} has a row of {len(row)} weights for {columns} source tokens. "
                        "Give a weight a token."
                    )
                strange = [weight for weight in row if not math.isfinite(weight)]
                if strange:
                    raise RegardError(
                        f"{where} has the weight {strange[0]}, and weights are finite numbers. "
                        "Look for an overflow where they were computed."
                    )

    def as_json(self) -> str:
        """The record as JSON text."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> AlignmentRecord:
        """The record that `as_json` wrote."""
        try:
            plain = json.loads(text)
            source_tokens = _words(plain.pop("source_tokens"))
            output_tokens = _words(plain.pop("output_tokens"))
            maps = {name: _map(heads) for name, heads in plain.pop("maps").items()}
            title = _word(plain.pop("title"))
            return cls(
                source_tokens=source_tokens,
                output_tokens=output_tokens,
                maps=maps,
                title=title,
                **plain,
            )
        except RegardError:
            raise  # it is an alignment, with a fault that has its own words
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RegardError(
                f"The text is not an alignment ({type(error).__name__}: {error}). "
                "Give what `AlignmentRecord.as_json` wrote."
            ) from error


def _word(plain: Any) -> str:
    if not isinstance(plain, str):
        raise TypeError(f"{plain!r} stands where a text should")
    return plain


def _words(plain: Any) -> tuple[str, ...]:
    if not isinstance(plain, list):
        raise TypeError(f"{plain!r} stands where a list of tokens should")
    return tuple(_word(token) for token in plain)


def _map(plain: Any) -> Map:
    return tuple(tuple(tuple(float(weight) for weight in row) for row in head) for head in plain)


# The tree that was built over one text, as plain values: made with a model, drawn without it.
#
# Nodes are numbered: the leaves from left to right, then the joins in the order in which they were
# made.
#
# leaves  very good film     joins  (0, 1), (3, 2)     → ((very good) film)
#
# `as_json` and `from_json` are each other's inverse.


@dataclass(frozen=True, kw_only=True)
class TreeRecord:
    """A binary tree whose joins are of neighbours, and what was said at every node.

    errors   how badly its two children are told from each join
    said     the class that is likeliest at each node
    sure     how likely it is there, from 0 to 1
    """

    leaves: tuple[str, ...]
    joins: tuple[tuple[int, int], ...]
    errors: tuple[float, ...]
    said: tuple[str, ...]
    sure: tuple[float, ...]
    title: str

    def __post_init__(self) -> None:
        words = len(self.leaves)
        if not words:
            raise RegardError("The tree has no leaves. Give at least one.")
        for name, wanted in (("joins", words - 1), ("errors", words - 1)):
            _require_count(self, name, wanted, of=f"{words} leaves")
        for name in ("said", "sure"):
            _require_count(self, name, 2 * words - 1, of=f"{2 * words - 1} nodes")
        for error in self.errors:
            if not math.isfinite(error):
                raise RegardError(
                    f"The tree has the error {error}, and errors are finite numbers. "
                    "Look for an overflow where they were computed."
                )
        for share in self.sure:
            if not 0 <= share <= 1:
                raise RegardError(
                    f"The tree has a class that is sure to {share}. Give shares from 0 to 1."
                )
        self._require_neighbours()

    def _require_neighbours(self) -> None:
        spans = [(place, place + 1) for place in range(len(self.leaves))]
        parents = [0] * self.num_nodes
        for number, (left, right) in enumerate(self.joins, start=len(self.leaves)):
            known = all(0 <= child < number and not parents[child] for child in (left, right))
            if not known or spans[left][1] != spans[right][0]:
                raise RegardError(
                    f"Join {number} of the tree is of {left} and {right}, which are not two neighbours "
                    "that were free to be joined. Number leaves from left to right, then joins as made."
                )
            parents[left] = parents[right] = number
            spans.append((spans[left][0], spans[right][1]))

    @property
    def num_nodes(self) -> int:
        """Leaves and joins."""
        return 2 * len(self.leaves) - 1

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The leaves below each node, from the first to below the second number."""
        spans = [(place, place + 1) for place in range(len(self.leaves))]
        for left, right in self.joins:
            spans.append((spans[left][0], spans[right][1]))
        return spans

    @property
    def levels(self) -> list[int]:
        """How high each node stands: a leaf at 0, a join one above the higher of its children."""
        levels = [0] * len(self.leaves)
        for left, right in self.joins:
            levels.append(1 + max(levels[left], levels[right]))
        return levels

    def phrase(self, node: int) -> str:
        """The words below a node."""
        start, stop = self.spans[node]
        return " ".join(self.leaves[start:stop])

    def as_json(self) -> str:
        """The record as JSON text."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> TreeRecord:
        """The record that `as_json` wrote."""
        try:
            plain = json.loads(text)
            return cls(
                leaves=_texts(plain.pop("leaves")),
                joins=tuple((int(left), int(right)) for left, right in plain.pop("joins")),
                errors=tuple(float(error) for error in plain.pop("errors")),
                said=_texts(plain.pop("said")),
                sure=tuple(float(share) for share in plain.pop("sure")),
                **plain,
            )
        except RegardError:
            raise  # it is a tree, with a fault that has its own words
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RegardError(
                f"The text is not a tree ({type(error).__name__}: {error}). "
                "Give what `TreeRecord.as_json` wrote."
            ) from error


def _require_count(record: TreeRecord, name: str, wanted: int, *, of: str) -> None:
    found: Sequence[object] = getattr(record, name)
    if len(found) != wanted:
        raise RegardError(f"The tree has {len(found)} {name} for {of}. Give {wanted}.")


def _texts(plain: Any) -> tuple[str, ...]:
    if not isinstance(plain, list) or not all(isinstance(text, str) for text in plain):
        raise TypeError(f"{plain!r} stands where a list of texts should")
    return tuple(plain)
