"""What the rest of the system may ask of a sequence-to-sequence model, whatever it is made of.

    logits(hidden(source, source_lengths, given))     training: every next token at once
    start(source, source_lengths); step(state, token) decoding: one token at a time, the source read once
    weights(source, source_lengths, given)            looking: who read whom, recomputed on demand

`step`, fed the tokens of `given` one after the other, gives the rows of `logits(hidden(...))`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from regard.core.cost import Cost
from regard.core.state import State, Step


@runtime_checkable
class SequenceModel(Protocol):
    """An `nn.Module` from one token sequence to another."""

    def target_limits(self, source_lengths: Int[Tensor, " batch"]) -> Int[Tensor, " batch"] | None:
        """The most tokens each row can be given, START counted; None where there is no limit."""
        ...

    def hidden(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        given: Int[Tensor, "batch target_length"],
    ) -> Float[Tensor, "batch target_length model_dim"]:
        """The features from which the token after each place of `given` is predicted."""
        ...

    def logits(
        self, hidden: Float[Tensor, "*places model_dim"]
    ) -> Float[Tensor, "*places target_vocabulary"]:
        """Scores of every token of the target vocabulary."""
        ...

    def start(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
    ) -> State:
        """The state before any target token, the source read."""
        ...

    def step(self, state: Any, token: Int[Tensor, " batch"]) -> Step:
        """The logits (batch, target_vocabulary) after one more token, and the new state."""
        ...

    def weights(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        given: Int[Tensor, "batch target_length"],
    ) -> dict[str, Float[Tensor, "batch heads reading read"]]:
        """Every attention of the model by name; those that read the source begin with "cross"."""
        ...

    def cost(self, *, batch_size: int, source_length: int, target_length: int) -> Cost:
        """What `logits(hidden(...))` takes, forward."""
        ...

    def parameters(self) -> Iterable[Tensor]:
        """As every `nn.Module`."""
        ...


class Hypothesis(NamedTuple):
    """One decoded sequence, without START and END; `score` is what beam search ranked it by."""

    tokens: tuple[int, ...]
    score: float


@runtime_checkable
class Decode(Protocol):
    """Decoding with everything but the source settled, handed to those who may not know how."""

    def __call__(
        self,
        model: Any,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
    ) -> Sequence[Hypothesis]:
        """The best hypothesis of every row."""
        ...
