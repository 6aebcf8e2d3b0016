"""Multi-head attention with any mechanism: self-attention, cross-attention, grouped-query attention.

    output = W_o · concat(mechanism(W_q x, W_k c, W_v c) for each head)     (Vaswani et al. 2017)

In self-attention the context c is x; in cross-attention it is another sequence. Key/value heads may be
fewer than query heads (GQA, MQA; Shazeer 2019, Ainslie et al. 2023). The gates that a mechanism declares
are computed here from the context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float
from pydantic import SkipValidation
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.core.counting import Example
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import (
    Mechanism,
    Role,
    ScoreBias,
    State,
    Step,
    UnsupportedCallError,
    repeat_heads,
)
from regard.core.options import PositiveInt, Probability, validated
from regard.core.registry import lookup
from regard.layers.alibi import Alibi
from regard.layers.cost import SequenceShape, layer_cost
from regard.layers.dropout import Dropout
from regard.layers.names import POSITIONS
from regard.layers.positions import build_position, token_positions
from regard.layers.projections import (
    GateProjections,
    Heads,
    HeadSizes,
    build_projection,
    init_projection,
)
from regard.layers.rotary import Rotary
from regard.layers.validation import validate_sequence, validate_state
from regard.mechanisms import build_mechanism
from regard.mechanisms.compatibility import validate_mechanism, with_alternatives


def resolve_mechanism(
    mechanism: object,
    *,
    options: dict[str, Any],
    sizes: HeadSizes,
    max_length: int | None,
) -> Mechanism:
    """The mechanism itself, or one built by name with these options."""
    if isinstance(mechanism, str):
        return build_mechanism(
            mechanism,
            query_dim=sizes.head_dim,
            key_dim=sizes.head_dim,
            num_heads=sizes.num_heads,
            max_length=max_length,
            **options,
        )
    if not isinstance(mechanism, Mechanism):
        raise RegardError(_not_a_mechanism(mechanism))
    if options:
        raise RegardError(
            f"MultiHead has mechanism_options={options} for a {mechanism.name} that is already "
            "built. Pass the options to the mechanism, or pass its name."
        )
    # Parameters for one head are shared by all heads.
    built_for = getattr(mechanism, "num_heads", None)
    if isinstance(built_for, int) and built_for not in (1, sizes.num_heads):
        raise RegardError(
            f"MultiHead has num_heads={sizes.num_heads} and a {mechanism.name} built for "
            f"num_heads={built_for}: they must be equal, or the mechanism's 1. "
            f"Build it with num_heads={sizes.num_heads}, or pass its name."
        )
    return mechanism


def _not_a_mechanism(value: object) -> str:
    rule = "it must be a name from `regard list` or a Mechanism instance"
    if isinstance(value, type):
        way_out = f" Build it, e.g. {value.__name__}(…)." if issubclass(value, Mechanism) else ""
        return f"mechanism is the class {value.__name__}; {rule}.{way_out}"
    return f"mechanism is {value!r}, of type {type(value).__name__}; {rule}."


# Types whose `values` is not that of a `ScoreBias`.
NOT_SCORE_BIAS = (type, Mapping, Tensor)


def resolve_position(position: object, *, sizes: HeadSizes) -> Rotary | ScoreBias | None:
    """The position encoding itself, or one built by name; None for "none"."""
    name = position if isinstance(position, str) else _name_of(position)
    if position is None or name == "none":
        return None
    if name is not None and lookup("position", name, POSITIONS).acts_on == "tokens":
        raise RegardError(
            f"MultiHead has position '{name}', which is added to the token embeddings: pass it to the "
            "model. A MultiHead takes positions that act on heads or scores: "
            f"{', '.join(_attention_positions())}."
        )
    if isinstance(position, str):
        position = build_position(
            position,
            model_dim=sizes.model_dim,
            head_dim=sizes.head_dim,
            num_heads=sizes.num_heads,
        )
    if isinstance(position, Rotary):
        return position
    if isinstance(position, ScoreBias) and not isinstance(position, NOT_SCORE_BIAS):
        return position
    what = (
        f"the class {position.__name__} as position: build it, e.g. {position.__name__}(…)"
        if isinstance(position, type)
        else f"a position of type {type(position).__name__}"
    )
    raise RegardError(
        f"MultiHead has {what}; it must be one of the names "
        f"{', '.join(_attention_positions())}, a Rotary or score bias instance such as Alibi, or None."
    )


def _name_of(position: object) -> str | None:
    """The name in `POSITIONS` of a built position encoding; None if it has none."""
    kind = type(position).__name__
    return next((name for name, entry in POSITIONS.items() if entry.class_name == kind), None)


def _attention_positions() -> list[str]:
    return [name for name, entry in POSITIONS.items() if entry.acts_on != "tokens"]


def validate_position(
    position: Rotary | ScoreBias, *, role: Role, num_heads: int, head_dim: int
) -> None:
    """Raise an error for a position encoding in cross-attention, or of other sizes than the heads."""
    if role == "cross":
        raise RegardError(
            f"MultiHead has role 'cross' and a position ({type(position).__name__}): positions of "
            "two different sequences have no distance. Omit position, or add sinusoidal or learned "
            "positions to the token embeddings of both."
        )
    if isinstance(position, Rotary) and position.head_dim != head_dim:
        raise RegardError(
            f"MultiHead has heads of width {head_dim} and Rotary positions of "
            f"head_dim={position.head_dim}: they must be equal. Build Rotary(head_dim={head_dim})."
        )
    if isinstance(position, Alibi) and len(position.slopes) != num_heads:
        raise RegardError(
            f"MultiHead has num_heads={num_heads} and Alibi positions of "
            f"num_heads={len(position.slopes)}: they must be equal. "
            f"Build Alibi(num_heads={num_heads})."
        )


class MultiHead(nn.Module):
    """Multi-head attention from `model_dim` to `model_dim`.

    mechanism        a name (with options in `mechanism_options`) or a `Mechanism` instance
    role             "self" or "cross"
    num_kv_heads     number of key/value heads, a divisor of `num_heads`; default `num_heads`
    head_dim         width of a query and a key; default `model_dim / num_heads`
    value_dim        width of a value; default `head_dim`
    context_dim      width of the other sequence in cross-attention; default `model_dim`
    position         "rotary", "alibi", a `Rotary` or a score bias; in self-attention only
    max_length       for mechanisms with a fixed number of positions, built by name
    dropout          on the output
    attention_dropout
                     on attention weights, in `forward` while training. A mechanism without the capability
                     `dropout` then computes the weights of all pairs, in O(length²) time and memory
    validate         check the values of padding lengths in every call; shapes are checked always

    The mechanism checks its inputs and the mask, this layer only what the mechanism cannot see.
    """

    @validated
    def __init__(
        self,
        *,
        model_dim: PositiveInt,
        num_heads: PositiveInt,
        mechanism: SkipValidation[Mechanism | str] = "scaled_dot",
        mechanism_options: dict[str, Any] | None = None,
        role: Role = "self",
        num_kv_heads: PositiveInt | None = None,
        head_dim: PositiveInt | None = None,
        value_dim: PositiveInt | None = None,
        context_dim: PositiveInt | None = None,
        position: SkipValidation[Rotary | ScoreBias | str | None] = None,
        max_length: PositiveInt | None = None,
        bias: bool = True,
        dropout: Probability = 0.0,
        attention_dropout: Probability = 0.0,
        validate: bool = False,
    ) -> None:
        super().__init__()
        self.role: Role = role
        self.sizes = HeadSizes.of(
            role=self.role,
            model_dim=model_dim,
            context_dim=context_dim,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            value_dim=value_dim,
        )
        position = resolve_position(position, sizes=self.sizes)
        if position is not None:
            validate_position(
                position, role=self.role, num_heads=num_heads, head_dim=self.sizes.head_dim
            )
        mechanism = resolve_mechanism(
            mechanism, options=mechanism_options or {}, sizes=self.sizes, max_length=max_length
        )
        self.rotary = position if isinstance(position, Rotary) else None
        self.score_bias = None if isinstance(position, Rotary) else position
        validate_mechanism(mechanism, role=self.role, score_bias=self.score_bias is not None)
        self.mechanism = mechanism
        if validate:
            mechanism.validate = True
        self.projection = build_projection(role=self.role, sizes=self.sizes, bias=bias)
        self.extras = GateProjections(
            gates=mechanism.gates,
            context_dim=self.sizes.context_dim,
            num_kv_heads=self.sizes.num_kv_heads,
            key_dim=self.sizes.head_dim,
        )
        self.output = nn.Linear(num_heads * self.sizes.value_dim, model_dim, bias=bias)
        init_projection(self.output, (model_dim,))
        self.dropout = Dropout(dropout)
        self.attention_dropout = attention_dropout

    @property
    def model_dim(self) -> int:
        """The width of inputs and outputs."""
        return self.sizes.model_dim

    @property
    def max_length(self) -> int | None:
        """The greatest number of keys, if there is one."""
        return self.mechanism.capabilities.max_length

    def forward(
        self,
        x: Float[Tensor, "batch query_length model_dim"],
        context: Float[Tensor, "batch key_length context_dim"] | None = None,
        mask: Mask = NO_MASK,
    ) -> Float[Tensor, "batch query_length model_dim"]:
        source = self._context(x, context)
        query, key, value = self._heads(x, source)
        kwargs = self._mechanism_kwargs(source)
        dropout = self.attention_dropout if self.training else 0.0
        if dropout and not self.mechanism.capabilities.dropout:
            weights = self._supported(self.mechanism.weights, query, key, mask, **kwargs)
            value = repeat_heads(value, self.sizes.num_heads)
            return self._merge(F.dropout(weights, dropout) @ value)
        if dropout:
            kwargs["dropout"] = dropout
        return self._merge(self._supported(self.mechanism, query, key, value, mask, **kwargs))

    def weights(
        self,
        x: Float[Tensor, "batch query_length model_dim"],
        context: Float[Tensor, "batch key_length context_dim"] | None = None,
        mask: Mask = NO_MASK,
    ) -> Float[Tensor, "batch heads query_length key_length"]:
        """The attention weights of `forward` with the same arguments."""
        source = self._context(x, context)
        query, key, _ = self._heads(x, source)
        kwargs = self._mechanism_kwargs(source)
        return self._supported(self.mechanism.weights, query, key, mask, **kwargs)

    def start(self, batch_size: int) -> State:
        """An empty decoding state."""
        weight = self.output.weight
        state: State = self.mechanism.start(
            batch_size=batch_size,
            num_kv_heads=self.sizes.num_kv_heads,
            key_dim=self.sizes.head_dim,
            value_dim=self.sizes.value_dim,
            dtype=weight.dtype,
            device=weight.device,
        )
        return state

    def extend(
        self,
        state: State,
        context: Float[Tensor, "batch new_length context_dim"],
        mask: Mask = NO_MASK,
    ) -> State:
        """The state with the tokens of the context, which may have a mask `Padding(lengths)`."""
        self._validate_context(context)
        validate_state("MultiHead", state, batch_size=context.shape[0])
        key, value = self.projection.key_value(context)
        if self.rotary is not None:
            key = self.rotary(key, _continued(state, context))
        extended: State = self.mechanism.extend(state, key, value, mask, **self.extras(context))
        return extended

    def read(
        self, state: State, x: Float[Tensor, "batch query_length model_dim"]
    ) -> Float[Tensor, "batch query_length model_dim"]:
        """The output for queries x at the last position, over all tokens in the state."""
        validate_sequence("MultiHead", x, width=self.sizes.model_dim)
        validate_state("MultiHead", state, batch_size=x.shape[0])
        query = self.projection.query(x)
        if self.rotary is not None:
            query = self.rotary(query, (state.position - 1)[:, None].expand(-1, x.shape[1]))
        return self._merge(self.mechanism.read(state, query, **self._bias()))

    def step(self, state: State, x: Float[Tensor, "batch new_length model_dim"]) -> Step:
        """The output of the causal `forward` for new tokens, continued from `state`; in self-attention."""
        if self.role == "cross":
            raise RegardError(
                "MultiHead with role 'cross' has no step: its context is not the new token. "
                "Extend once with the context, then read with each token."
            )
        validate_sequence("MultiHead", x, width=self.sizes.model_dim)
        validate_state("MultiHead", state, batch_size=x.shape[0])
        query, key, value = self.projection(x, x)
        if self.rotary is not None:
            rotation = self.rotary.rotation(_continued(state, x), query.dtype)
            query, key = self.rotary.rotate(query, rotation), self.rotary.rotate(key, rotation)
        step = self.mechanism.step(state, query, key, value, **self._mechanism_kwargs(x))
        return Step(self._merge(step.output), step.state)

    def cost(self, shape: SequenceShape) -> Cost:
        """The cost of `forward`, counted.

        `step_matmul_flops` is that of a `step`; in cross-attention, of one `read` of the context.
        """

        def prepare(layer: MultiHead) -> Example:
            x, mask = shape.vectors(layer.sizes.model_dim), shape.mask(layer)
            empty = layer.start(shape.batch_size)
            if layer.role == "self":
                state = layer.extend(empty, x)
                step = partial(layer.step, state, x[:, :1])
                return Example(partial(layer, x, mask=mask), (x,), state, step)
            context = shape.context(layer.sizes.context_dim)
            state = layer.extend(empty, context)
            forward = partial(layer, x, context, mask)
            return Example(forward, (x, context), state, partial(layer.read, state, x[:, :1]))

        return layer_cost(self, shape, prepare, max_path_length=lambda: self._path_length(shape))

    def _path_length(self, shape: SequenceShape) -> int:
        key_length = shape.length if self.role == "self" else shape.context_length
        attention = AttentionShape(
            batch_size=shape.batch_size,
            num_heads=self.sizes.num_heads,
            num_kv_heads=self.sizes.num_kv_heads,
            query_length=shape.length,
            key_length=key_length or 0,
            key_dim=self.sizes.head_dim,
            value_dim=self.sizes.value_dim,
            causal=shape.causal,
        )
        return self.mechanism.cost(attention).max_path_length

    def _context(self, x: Tensor, context: Tensor | None) -> Tensor:
        if (context is None) != (self.role == "self"):
            way_out = (
                "pass x alone, and a mask as mask=…"
                if self.role == "self"
                else "pass the sequence to attend to"
            )
            raise RegardError(
                f"MultiHead has role '{self.role}' and was called "
                f"{'without' if context is None else 'with'} a context: {way_out}."
            )
        validate_sequence("MultiHead", x, width=self.sizes.model_dim)
        if context is None:
            return x
        self._validate_context(context)
        return context

    def _validate_context(self, context: Tensor) -> None:
        width = self.sizes.context_dim
        validate_sequence(
            "MultiHead", context, width=width, name="context", width_name="context_dim"
        )

    def _supported(self, call: Callable[..., Tensor], *inputs: Any, **kwargs: Any) -> Tensor:
        """The result of a call of the mechanism; an error names mechanisms that support it."""
        try:
            return call(*inputs, **kwargs)
        except UnsupportedCallError as error:
            key, mask = inputs[1], inputs[-1]
            raise with_alternatives(
                error, self.mechanism, role=self.role, mask=mask, key_length=key.shape[2]
            ) from error

    def _heads(self, x: Tensor, context: Tensor) -> Heads:
        """Queries, keys and values, for both `forward` and `weights`."""
        heads: Heads = self.projection(x, context)
        if self.rotary is None:
            return heads
        positions = token_positions(start=0, length=x.shape[1], device=x.device)
        rotation = self.rotary.rotation(positions, heads.query.dtype)
        return heads._replace(
            query=self.rotary.rotate(heads.query, rotation),
            key=self.rotary.rotate(heads.key, rotation),
        )

    def _bias(self) -> dict[str, Any]:
        # Mechanisms without scores do not have this argument.
        return {} if self.score_bias is None else {"bias": self.score_bias}

    def _mechanism_kwargs(self, context: Tensor) -> dict[str, Any]:
        """Gates and score bias."""
        # Most mechanisms have no gates, and call overhead counts in a decoding step.
        gates = self.extras(context) if self.mechanism.gates else {}
        return {**gates, **self._bias()}

    def _merge(self, heads: Tensor) -> Tensor:
        merged: Tensor = self.dropout(self.output(heads.transpose(1, 2).flatten(2)))
        return merged


def _continued(state: State, x: Tensor) -> Tensor:
    return token_positions(start=state.position, length=x.shape[1], device=x.device)
