"""Traits of a model: what studies, plans and the command line must know of it, declared on its class.

    class Transformer(nn.Module):
        traits = Traits(
            inputs=frozenset({"tokens", "frames"}),
            targets=frozenset({"sequence"}),
            sizes={"model_dim": Size(unit=2, times="num_heads"), "feed_forward_dim": Size()},
            slots=(Slot(name="encoder"), Slot(name="decoder", causal=True), ...),
            ...
        )

There is no list of model names outside the registry: matching, planning and building read these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from regard.core.errors import RegardError

InputKind = Literal["tokens", "frames", "images"]
TargetKind = Literal["sequence", "class", "value", "positions"]


@dataclass(frozen=True, kw_only=True)
class Size:
    """A size that may be solved for, as by `--match parameters`.

    unit     values are multiples of it
    times    and of the value of this option, such as num_heads
    follows  it keeps its ratio to this option while that one is solved for; `ratio` if it is not set
    """

    unit: int = 1
    times: str | None = None
    follows: str | None = None
    ratio: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Slot:
    """An attention slot.

    option      the model option that chooses its mechanism; `fallback` is used where it is not set
    masks       the mask kinds its mechanism must take
    mechanisms  the names that can be used, where role, causality and masks do not decide it
    """

    name: str
    role: Literal["self", "cross"] = "self"
    causal: bool = False
    masks: frozenset[str] = frozenset({"padding"})
    option: str = "mechanism"
    fallback: str | None = None
    mechanisms: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """Another model for the same purpose, and its options in terms of this model's.

    options  option of the other model → the option of this one whose value it takes, rounded to the
             unit of the other model's size
    fixed    further options of the other model
    """

    model: str
    options: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What a model is for, and which of its options others may choose.

    inputs             the kinds of input it takes
    targets            the kinds of target it predicts
    sizes              options that may be solved for: the main width first, then finer ones
    slots              its attention slots
    shared_vocabulary  whether source and target must share one vocabulary
    tied               options with which they must, such as tie="all"; `untied` do without
    segments           what its segments are: "texts" of a pair, "sentences" of a document, or None
    alternatives       other models for the same purpose
    is_decoder_only    whether it can continue a text without a source
    """

    inputs: frozenset[InputKind]
    targets: frozenset[TargetKind]
    sizes: Mapping[str, Size] = field(default_factory=dict)
    slots: tuple[Slot, ...] = ()
    shared_vocabulary: bool = False
    tied: Mapping[str, str] = field(default_factory=dict)
    untied: Mapping[str, str] = field(default_factory=dict)
    segments: Literal["texts", "sentences"] | None = None
    alternatives: tuple[Alternative, ...] = ()
    is_decoder_only: bool = False


def traits_of(model: type) -> Traits:
    """The traits of a model class; a missing declaration is an error."""
    found = getattr(model, "traits", None)
    if not isinstance(found, Traits):
        raise RegardError(
            f"The model class {model.__name__} declares no traits. Add a class attribute: "
            'traits = Traits(inputs=frozenset({"tokens"}), targets=frozenset({"class"})).'
        )
    return found
