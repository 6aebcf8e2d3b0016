"""Multi-head attention with any mechanism: self-attention, cross-attention, grouped-query attention.

    output = W_o · concat(mechanism(W_q x, W_k c, W_v c) for each head)     (Vaswani et al. 2017)

In self-attention the context c is x; in cross-attention it is another sequence. Key/value heads may be
fewer than query heads (GQA, MQA; Shazeer 2019, Ainslie et al. 2023). The gates that a mechanism declares
are computed here from the context.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import Mechanism, Role, ScoreBias, State, Step
from regard.core.registry import lookup
from regard.layers.alibi import Alibi
from regard.layers.cost import (
    SequenceShape,
    cost_of,
    per_position,
    read_matmul_flops,
    validate_sequence_shape,
)
from regard.layers.dropout import Dropout
from regard.layers.positions import POSITIONS, build_position, token_positions
from regard.layers.projections import (
    GateProjections,
    Heads,
    HeadSizes,
    build_projection,
    init_projection,
    resolve_role,
)
from regard.layers.rotary import Rotary
from regard.layers.validation import (
    validate_dropout,
    validate_mask,
    validate_positive,
    validate_sequence,
    validate_state,
)
from regard.mechanisms import build_mechanism
from regard.mechanisms.compatibility import validate_mechanism, validate_mechanism_call


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
    dropout          on the output, not on attention weights, so that `weights` are those used
    """

    def __init__(
        self,
        *,
        model_dim: int,
        num_heads: int,
        mechanism: Mechanism | str = "scaled_dot",
        mechanism_options: dict[str, Any] | None = None,
        role: str = "self",
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        value_dim: int | None = None,
        context_dim: int | None = None,
        position: Rotary | ScoreBias | str | None = None,
        max_length: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.role: Role = resolve_role(role)
        validate_dropout("MultiHead", dropout)
        if max_length is not None:
            validate_positive("MultiHead", max_length=max_length)
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

    def forward(
        self,
        x: Float[Tensor, "batch query_length model_dim"],
        context: Float[Tensor, "batch key_length context_dim"] | None = None,
        mask: Mask = NO_MASK,
    ) -> Float[Tensor, "batch query_length model_dim"]:
        source = self._context(x, context)
        heads = self._heads(x, source, mask)
        return self._merge(self.mechanism(*heads, mask, **self._mechanism_kwargs(source)))

    def weights(
        self,
        x: Float[Tensor, "batch query_length model_dim"],
        context: Float[Tensor, "batch key_length context_dim"] | None = None,
        mask: Mask = NO_MASK,
    ) -> Float[Tensor, "batch heads query_length key_length"]:
        """The attention weights of `forward` with the same arguments."""
        source = self._context(x, context)
        query, key, _ = self._heads(x, source, mask)
        return self.mechanism.weights(query, key, mask, **self._mechanism_kwargs(source))

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
        validate_mask(mask)
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
        """The cost of `forward`: projections, positions and mechanism.

        `step_matmul_flops` is that of a `step`; in cross-attention, of one `read` of the context.
        """
        validate_sequence_shape("MultiHead", shape)
        key_length = shape.length if self.role == "self" else shape.context_length
        if key_length is None:
            raise RegardError(
                "MultiHead.cost with role 'cross' needs a SequenceShape with context_length."
            )
        attention = AttentionShape(
            batch_size=shape.batch_size,
            num_heads=self.sizes.num_heads,
            num_kv_heads=self.sizes.num_kv_heads,
            query_length=shape.length,
            key_length=key_length,
            key_dim=self.sizes.head_dim,
            value_dim=self.sizes.value_dim,
            causal=shape.causal,
        )
        attended = self.mechanism.cost(attention)
        gates = self.extras.cost(rows=shape.batch_size * key_length)
        if self.role == "self":
            gates = per_position(gates, length=shape.length)
        else:
            attended = replace(
                attended, step_matmul_flops=read_matmul_flops(self.mechanism, attention)
            )
        return (
            self.projection.cost(
                batch_size=shape.batch_size, query_length=shape.length, key_length=key_length
            )
            + gates
            + self._position_cost(shape)
            + attended
            + per_position(cost_of(self.output, rows=shape.positions), length=shape.length)
        )

    def _position_cost(self, shape: SequenceShape) -> Cost:
        if self.rotary is None:
            return Cost()
        turned = shape.positions * (self.sizes.query_width + self.sizes.key_width)
        return self.rotary.cost(shape) + self.rotary.rotate_cost(numbers=turned)

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

    def _heads(self, x: Tensor, context: Tensor, mask: Mask) -> Heads:
        """Queries, keys and values, for both `forward` and `weights`."""
        validate_mask(mask)
        validate_mechanism_call(
            self.mechanism, role=self.role, mask=mask, key_length=context.shape[1]
        )
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
