"""A model in Python as a `LookSource`: any `nn.Module` with `MultiHead` or pooling layers inside.

look(ModelSource(model, names=["the", "cat"]), x)     x: the input tensor, or a tuple of several
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.errors import RegardError
from regard.core.formatting import counted
from regard.core.records.look import Axis, LookRecord
from regard.explain.look import Log, LookInput, Measured, silent
from regard.explain.look_parts import centred_logits
from regard.explain.trace import AttentionCall, Intervention, Trace, trace_attention

Names = Sequence[str] | Mapping[str, Sequence[str]]


class ModelSource:
    """A module, called with the input as its arguments: a tensor, a tuple, or a dict of keywords.

    name      what it is called
    names     the names of the positions: of the input, or of several sequences by name
    explain   from the output of the model to the number that is explained; by default, of logits (batch,
              …, classes), the largest ones, each minus the mean of its row
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        name: str = "",
        names: Names = (),
        explain: Callable[[Any], Float[Tensor, ""]] | None = None,
    ) -> None:
        self.model = model
        self.name = name or type(model).__name__
        given = names if isinstance(names, Mapping) else {"input": names}
        self._names = {axis: tuple(map(str, each)) for axis, each in given.items() if each}
        self._explain = explain

    def trace(
        self, *, interventions: Iterable[Intervention] = (), hold: bool = False
    ) -> AbstractContextManager[Trace]:
        """The attention of the model."""
        return trace_attention(self.model, interventions=interventions, hold=hold)

    def faithfulness(self, file: str | None = None, *, log: Log = silent) -> Measured:
        """None: it is unknown how inputs are read and removed."""
        del log
        if file is not None:
            raise RegardError(
                f"--validation-file {file}: it is unknown how {self.name} reads inputs. Remove it."
            )
        return Measured(note="a model in Python has no data")

    def encode(
        self,
        value: Any,
        *,
        target: str | None = None,
        max_tokens: int | None = None,
        interventions: Sequence[Intervention] = (),
    ) -> LookInput:
        """Call the model with the input; `target` is the number of an output, from 0."""
        if max_tokens is not None:
            raise RegardError(f"tokens={max_tokens}: a model in Python writes no text. Remove it.")
        if self.model.training:
            raise RegardError(
                f"{self.name} is in training mode, where dropout changes the result. Call model.eval() "
                "first."
            )
        arguments, kwargs = _arguments(value)

        def forward() -> Any:
            return self.model(*arguments, **kwargs)

        with torch.no_grad(), self.trace(interventions=interventions) as trace:
            output = forward()
        if not len(trace):
            raise RegardError(
                f"{self.name} has no attention: no MultiHead or pooling layer was called. Build it with "
                "regard.MultiHead."
            )
        rows = {call.value.shape[0] for call in trace}
        if rows != {1}:
            raise RegardError(
                f"{self.name} was called with a batch of {max(rows)} rows. Give one input, as x[:1]."
            )
        axes = _Axes(trace, self._names)
        largest = None if self._explain else _Largest(output, target)
        explain = self._explain or largest
        assert explain is not None
        record = LookRecord(
            title=" ".join(axes.axes["input"].tokens),
            model=self.name,
            description=f"{type(self.model).__name__} with {counted(len(trace), 'attention layer')}",
            prediction=largest.prediction if largest else "",
            axes=axes.axes,
            target="largest logits, minus their means" if largest else "the given function",
        )
        return LookInput(record=record, score=lambda: explain(forward()), axes_of=axes.of)


class _Axes:
    """The axes of all layers: those with names, by role and length; others are numbered."""

    def __init__(self, trace: Trace, names: Mapping[str, tuple[str, ...]]) -> None:
        lengths = {length for call in trace for length in (call.num_queries, call.num_keys)}
        for name, tokens in names.items():
            if len(tokens) not in lengths:
                raise RegardError(
                    f"names has {counted(len(tokens), 'name')} of '{name}', but the attention layers have "
                    f"{' and '.join(map(str, sorted(lengths)))} positions. Give one name per position."
                )
        self.axes = {name: Axis(tokens=tokens) for name, tokens in names.items()}
        self._of_layer = {call.name: self._pair(call) for call in trace}
        first_keys = next(iter(self._of_layer.values()))[1]
        self.axes.setdefault("input", self.axes[first_keys])

    def of(self, call: AttentionCall) -> tuple[str, str]:
        """The axes of the queries and the keys of a layer."""
        return self._of_layer[call.name]

    def _pair(self, call: AttentionCall) -> tuple[str, str]:
        keys = self._axis(call.num_keys, "input")
        if call.role == "self":
            return keys, keys
        return self._axis(call.num_queries, "hops" if call.role == "pooling" else "output"), keys

    def _axis(self, length: int, preferred: str) -> str:
        known = sorted(self.axes, key=lambda name: name != preferred)
        found = next((name for name in known if len(self.axes[name].tokens) == length), None)
        if found is None or (preferred == "hops" and found != "hops"):
            found = f"{length} positions" if preferred in self.axes else preferred
            prefix = "hop " if preferred == "hops" else ""
            tokens = tuple(f"{prefix}{number + 1}" for number in range(length))
            self.axes.setdefault(found, Axis(tokens=tokens))
        return found


class _Largest:
    """The largest logits of the first output, or those of a number."""

    def __init__(self, output: Any, target: str | None) -> None:
        logits = _logits(output)
        self._labels = logits.argmax(dim=-1)
        if target is not None:
            if not target.isdecimal() or int(target) >= logits.shape[1]:
                raise RegardError(
                    f"target={target!r}: the model has the outputs 0 to {logits.shape[1] - 1}. Give the "
                    "number of one of them."
                )
            self._labels = torch.full_like(self._labels, int(target))
        one = len(self._labels) == 1 and logits.shape[1] > 1
        self.prediction = f"output {int(logits.argmax())}" if one else ""

    def __call__(self, output: Any) -> Float[Tensor, ""]:
        return centred_logits(_logits(output), self._labels)


def _logits(output: Any) -> Float[Tensor, "rows outputs"]:
    """The logits of the one row of a batch, one line per position."""
    found = getattr(output, "logits", output)
    if not isinstance(found, Tensor) or not found.is_floating_point() or found.ndim < 1:
        raise RegardError(
            f"The model returns {type(output).__name__}, not a tensor of logits. Name what is explained "
            "with explain=, a function from the output to a number."
        )
    return found.reshape(-1, found.shape[-1])


def _arguments(value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(value, Mapping):
        return (), dict(value)
    # An input with fields, such as TokenInput, is one argument.
    return (value if type(value) is tuple else (value,)), {}
