"""Looking at attention: what a model attends to on one input, as a `LookRecord`.

    record = look(RunSource(regard.load("runs/quick")), "attention", methods=["weights", "value_zeroing"])

A `LookSource` is anything that can be looked at: a trained run, a model in Python, a Hugging Face model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.errors import RegardError
from regard.core.formatting import counted, integer_text
from regard.core.records.look import (
    TOP_ENTRIES,
    FaithfulnessCurves,
    HeadScores,
    LayerMaps,
    LookRecord,
    Method,
)
from regard.core.registry import lookup
from regard.explain.attribution import (
    IMPORTANCE_METHODS,
    attribute,
    reads_input,
    traced_importance,
)
from regard.explain.head_patterns import score_patterns
from regard.explain.look_maps import pack_maps, packed_bytes
from regard.explain.methods import METHODS, MethodEntry, rollout
from regard.explain.trace import AttentionCall, Intervention, Trace

# Maps are exact if all of them have at most so many bytes in a page; methods that nobody asked for are
# left out beyond the second number.
EXACT_BYTES, MAX_BYTES = 10_000_000, 27_000_000
Log = Callable[[str], object]
MAX_POSITIONS = 65_535  # columns are stored in 16 bits
ATTRIBUTION = Method(
    name="attribution",
    title="Attribution",
    meaning="What each input position adds to the explained value through all layers, with attention "
    "weights and the scales of norms held constant.",
    is_signed=True,
)


def silent(_: str) -> None:
    """A log that drops its lines."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LookInput:
    """One input as a model takes it, and what the model makes of it.

    record     all but methods, maps, importance, patterns and faithfulness: title, prediction,
               probabilities, axes, the target that is explained, output tokens, further views
    score      runs a forward pass and returns the explained score, a scalar; linear in the logits, so that
               attributions can be complete. Gradients flow if they are enabled. `LookSource.trace` sees it
    axes_of    names of the axes of an attention layer, those of its queries and of its keys
    """

    record: LookRecord
    score: Callable[[], Float[Tensor, ""]]
    axes_of: Callable[[AttentionCall], tuple[str, str]]


class Measured(NamedTuple):
    """Faithfulness of a model, or why there is none."""

    curves: tuple[FaithfulnessCurves, ...] = ()
    note: str = ""


@runtime_checkable
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

    def faithfulness(self, file: str | None = None, *, log: Log = ...) -> Measured:
        """Deletion and sufficiency curves, from the run or measured on the lines of a file."""
        ...


def look(
    source: LookSource,
    value: Any,
    *,
    methods: Sequence[str] | None = None,
    heads: Sequence[str] = (),
    target: str | None = None,
    max_tokens: int | None = None,
    interventions: Sequence[Intervention] = (),
    validation_file: str | None = None,
    with_faithfulness: bool = True,
    log: Log = silent,
) -> LookRecord:
    """What a model attends to on one input, by method.

    methods            names in `METHODS`, or "attribution"; by default those that fit into a page
    heads              "LAYER.HEAD", such as "encoder/0.3": heads whose maps keep all entries
    target             as of `LookSource.encode`, like `max_tokens` and `interventions`
    validation_file    inputs to measure faithfulness on, for a model without a run
    log                receives a line if that takes a while
    """
    for name in methods or ():
        lookup("method", name, dict.fromkeys(IMPORTANCE_METHODS))
    given = source.encode(value, target=target, max_tokens=max_tokens, interventions=interventions)
    with torch.enable_grad(), source.trace(interventions=interventions) as trace:
        score = given.score()
    plan = _Plan.of(trace, methods=methods, heads=heads)
    if score.requires_grad:
        trace.backward(score, layers=plan.differentiated(trace))
    record, length = given.record, len(given.record.axes["input"].tokens)
    maps = _packed(trace, plan, given)
    importance = {name: each for name, each in record.importance.items() if name in plan.methods}
    found = traced_importance(trace, length=length, methods=plan.methods)
    importance |= {name: tuple(values[0].tolist()) for name, values in found.items()}
    error = None
    if plan.with_attribution:
        try:
            whole = attribute(
                source.model,
                given.score,
                interventions=interventions,
                trace=lambda _, **options: source.trace(**options),
            )
        except RegardError:
            if methods is not None:
                raise
        else:
            if (scores := whole.scores.get("input")) is not None and scores.shape[1] == length:
                importance["attribution"], error = tuple(scores[0].tolist()), whole.relative_error
    used = {each.method for each in maps} | set(importance)
    measured = source.faithfulness(validation_file, log=log) if with_faithfulness else Measured()
    return replace(
        record,
        methods=tuple(each for each in _described(trace, plan) if each.name in used),
        maps=maps,
        importance=importance,
        completeness_error=error,
        patterns=tuple(_patterns(trace, given)),
        faithfulness=measured.curves,
        faithfulness_note=measured.note,
        notes=(*record.notes, *plan.notes),
    )


class _Plan(NamedTuple):
    """Which methods are computed, and which maps keep all of their entries."""

    methods: tuple[str, ...]
    with_attribution: bool
    is_exact: bool
    named: frozenset[str]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, trace: Trace, *, methods: Sequence[str] | None, heads: Sequence[str]) -> _Plan:
        """By the bytes that the maps take in a page."""
        _validate_heads(trace, heads)
        names = list(IMPORTANCE_METHODS if methods is None else dict.fromkeys(methods))
        maps = [name for name in names if name != "attribution"]
        is_exact = sum(_bytes(trace, name, is_exact=True) for name in maps) <= EXACT_BYTES
        notes, left_out = list[str](), list[str]()
        if not is_exact:
            if methods is None:
                while len(maps) > 1 and (
                    sum(_bytes(trace, name, is_exact=False) for name in maps) > MAX_BYTES
                ):
                    left_out.insert(0, maps.pop())
            number = sum(call.num_heads for call in trace)
            exact = f", but for {', '.join(heads)}" if heads else "; --head LAYER.HEAD keeps all"
            notes.append(
                f"Of the maps of {counted(number, 'head')}, a tile and the {TOP_ENTRIES} largest entries "
                f"of each row are kept{exact}."
            )
        if left_out:
            left_out += ["attribution"]
            notes.append(f"For a long input, --method adds: {', '.join(left_out)}.")
        return cls(
            tuple(maps),
            "attribution" in names and not left_out,
            is_exact,
            frozenset(heads),
            tuple(notes),
        )

    def differentiated(self, trace: Trace) -> list[str] | None:
        """The layers whose gradients are needed: all, or only that whose rows importance is the mean of."""
        if any(METHODS[name].needs_gradient for name in self.methods):
            return None
        return [call.name for call in trace if reads_input(trace, call)][-1:]

    def exact_heads(self, call: AttentionCall, names: Sequence[str]) -> list[str]:
        """The heads of a layer that keep all entries."""
        if self.is_exact or call.num_keys <= 2 * TOP_ENTRIES:
            return list(names)
        if names == ["all"]:
            is_named = any(each.rpartition(".")[0] == call.name for each in self.named)
            return ["all"] if is_named else []
        return [name for name in names if f"{call.name}.{name}" in self.named]


def _validate_heads(trace: Trace, heads: Sequence[str]) -> None:
    known = {call.name: call.num_heads for call in trace}
    for head in heads:
        layer, dot, number = head.rpartition(".")
        count = known.get(layer, 0)
        if not dot or not number.isdecimal() or not 1 <= int(number) <= count:
            layers = ", ".join(f"{name} (1 to {count})" for name, count in known.items())
            raise RegardError(
                f"--head {head}: use LAYER.HEAD, such as {next(iter(known), 'encoder/0')}.1. The layers "
                f"and their heads are: {layers or 'none'}."
            )
    for call in trace:
        if call.num_keys > MAX_POSITIONS:
            raise RegardError(
                f"The layer {call.name} has {integer_text(call.num_keys)} keys; at most "
                f"{integer_text(MAX_POSITIONS)} can be shown. Give a shorter input."
            )


def _bytes(trace: Trace, method: str, *, is_exact: bool) -> int:
    """Bytes of the maps of a method in a page."""
    entry = METHODS[method]
    return sum(
        packed_bytes(
            call.num_heads if entry.per_head else 1,
            call.num_queries,
            call.num_keys,
            is_exact=is_exact or call.num_keys <= 2 * TOP_ENTRIES,
        )
        for call in trace
    )


def _packed(trace: Trace, plan: _Plan, given: LookInput) -> tuple[LayerMaps, ...]:
    """The maps by method; one layer's weights are in memory at a time."""
    found = []
    for method in plan.methods:
        entry = METHODS[method]
        of_trace = {} if entry.function is not None else rollout(trace)
        for call in trace:
            values = of_trace.get(call.name) if entry.function is None else entry.function(call)
            if values is None:
                continue
            heads = [str(number + 1) for number in range(call.num_heads)]
            heads = heads if entry.per_head else ["all"]
            queries, keys = given.axes_of(call)
            found.append(
                pack_maps(
                    values[0],
                    layer=call.name,
                    method=method,
                    queries=queries,
                    keys=keys,
                    heads=heads,
                    exact=plan.exact_heads(call, heads),
                )
            )
    return tuple(found)


def _patterns(trace: Trace, given: LookInput) -> Iterator[HeadScores]:
    """The patterns of every head of self-attention; equal names are equal tokens."""
    for call in trace:
        if call.role == "self":
            names = given.record.axes[given.axes_of(call)[1]].tokens
            numbers = {name: number for number, name in enumerate(names)}
            tokens = torch.tensor([[numbers[name] for name in names]], device=call.value.device)
            yield from score_patterns([call], tokens)


def _described(trace: Trace, plan: _Plan) -> list[Method]:
    """The methods as a page shows them."""
    signed_weights = not all(call.nonnegative for call in trace)
    return [*(_method(name, METHODS[name], signed_weights) for name in plan.methods), ATTRIBUTION]


def _method(name: str, entry: MethodEntry, signed_weights: bool) -> Method:
    return Method(
        name=name,
        title=entry.title,
        meaning=entry.meaning,
        is_signed=entry.signed or (signed_weights and name == "weights"),
        is_heuristic=entry.heuristic,
    )
