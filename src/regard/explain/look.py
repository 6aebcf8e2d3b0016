"""Looking at attention: what a model attends to on one input, as a `LookRecord`.

    record = look(RunSource(regard.load("runs/quick")), "attention", methods=["weights", "value_zeroing"])

A `LookSource` is anything that can be looked at: a trained run, a model in Python, a Hugging Face model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from jaxtyping import Float
from torch import Tensor, nn

from regard.core.records.look import FaithfulnessCurves, LookRecord
from regard.explain.trace import AttentionCall, Intervention, Trace


@dataclass(frozen=True, kw_only=True, eq=False)
class LookInput:
    """One input as a model takes it, and what the model makes of it.

    record     all but methods, maps, importance, patterns and faithfulness: title, prediction,
               probabilities, axes, the target that is explained, output tokens, further views
    score      runs a forward pass and returns the explained score, a scalar; linear in the logits, so that
               attributions can be complete. Gradients flow if they are enabled; run it in `LookSource.trace`
    axes_of    names of the axes of an attention layer, those of its queries and of its keys
    """

    record: LookRecord
    score: Callable[[], Float[Tensor, ""]]
    axes_of: Callable[[AttentionCall], tuple[str, str]]


class Measured(NamedTuple):
    """Faithfulness of a model, or why there is none."""

    curves: tuple[FaithfulnessCurves, ...] = ()
    note: str = ""


class LookSource(Protocol):
    """A model that can be looked at, in evaluation mode."""

    @property
    def name(self) -> str:
        """The name of the model on a page, such as the folder of its run."""
        ...

    @property
    def model(self) -> nn.Module:
        """The module that `trace` traces."""
        ...

    def encode(
        self,
        value: Any,
        *,
        target: str | None = None,
        max_tokens: int | None = None,
        interventions: Sequence[Intervention] = (),
    ) -> LookInput:
        """Encode an input and predict for it, with the interventions in effect.

        target        the label, or the output, that is explained; by default the predicted one
        max_tokens    of an output that the model writes
        """
        ...

    def trace(
        self, *, interventions: Iterable[Intervention] = (), hold: bool = False
    ) -> AbstractContextManager[Trace]:
        """As `trace_attention`, of this model."""
        ...

    def faithfulness(self, file: str | None = None) -> Measured:
        """Deletion and sufficiency curves, from the run or measured on the lines of a file."""
        ...
