"""Who read what while one output was written, as plain values: made with a model, drawn without it.

A map has a row for each output token and a column for each source token, for each head: its entry
says how much of the source token was read while the output token was written. `as_json` and
`from_json` are each other's inverse.
"""

from __future__ import annotations

import json
import math
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
