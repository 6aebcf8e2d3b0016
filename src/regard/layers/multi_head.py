"""Multi-head attention: any mechanism, several times over, between linear projections.

    output = W_o · concat(mechanism(W_q x, W_k c, W_v c) for each head)     (Vaswani et al. 2017)

In self-attention the context c is x itself; in cross-attention it is another sequence. Key/value
heads may be fewer than query heads (grouped queries; Shazeer 2019, Ainslie et al. 2023). Whatever
the mechanism declares as `extras` is computed here from the context.
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
from regard.core.registry import look_up
from regard.layers.alibi import Alibi
from regard.layers.cost import SequenceShape, cost_of, per_position, read_products, require_shape
from regard.layers.dropout import Dropout
from regard.layers.positions import POSITIONS, build_position, token_positions
from regard.layers.projections import (
    ExtraProjections,
    Heads,
    HeadSizes,
    build_projection,
    given_role,
    reset,
)
from regard.layers.rotary import Rotary
from regard.layers.validation import (
    require_dropout,
    require_mask,
    require_positive,
    require_sequence,
    require_state,
)
from regard.mechanisms import build_mechanism
from regard.mechanisms.compatibility import require_call_fit, require_fit

# The mechanism of a layer: already built, or named and then built for the layer's heads.


def given_mechanism(
    mechanism: object,
    *,
    options: dict[str, Any],
    sizes: HeadSizes,
    max_length: int | None,
) -> Mechanism:
    """The mechanism itself, or the one of this name with these options."""
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
        raise RegardError(_no_mechanism(mechanism))
    if options:
        raise RegardError(
            f"MultiHead has mechanism_options={options} for a {mechanism.name} that is already "
            "built. Give the options to the mechanism, or give it by name."
        )
    # Parameters for one head are shared by all.
    built_for = getattr(mechanism, "num_heads", None)
    if isinstance(built_for, int) and built_for not in (1, sizes.num_heads):
        raise RegardError(
            f"MultiHead has num_heads={sizes.num_heads} and a {mechanism.name} built for "
            f"num_heads={built_for}: they must be equal, or the mechanism's 1. "
            f"Build it with num_heads={sizes.num_heads}, or give it by name."
        )
    return mechanism


def _no_mechanism(given: object) -> str:
    rule = "give a name of `regard list` or a built Mechanism"
    if isinstance(given, type):
        way_out = f": build it, e.g. {given.__name__}(…)" if issubclass(given, Mechanism) else ""
        return f"mechanism is a class; {rule}; you gave the class {given.__name__}{way_out}."
    return f"mechanism is {given!r}, of type {type(given).__name__}; {rule}."


# The positions of an attention layer: already built, or named and then built for its heads.


NONE = "none"
# Classes, and these kinds of object, have a method `values` that has nothing to do with scores.
NO_SCORE_BIAS = (type, Mapping, Tensor)


def given_position(position: object, *, sizes: HeadSizes) -> Rotary | ScoreBias | None:
    """The positions themselves, or those of this name; "none" is None."""
    name = position if isinstance(position, str) else _name_of(position)
    if position is None or name == NONE:
        return None
    if name is not None and look_up("position", name, POSITIONS).acts_on == "tokens":
        raise RegardError(
            f"MultiHead has position '{name}', which is added to the tokens: it is given to the "
            "model, before its first block. A MultiHead takes those that act on heads or scores: "
            f"{', '.join(_inside_attention())}."
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
    if isinstance(position, ScoreBias) and not isinstance(position, NO_SCORE_BIAS):
        return position
    what = (
        f"the class {position.__name__} as position: build it, e.g. {position.__name__}(…)"
        if isinstance(position, type)
        else f"a position of type {type(position).__name__}"
    )
    raise RegardError(
        f"MultiHead has {what}; it must be one of the names "
        f"{', '.join(_inside_attention())}, a built Rotary or a score bias such as Alibi, or None."
    )


def _name_of(position: object) -> str | None:
    """The name in the table of positions already built; None if they are not of the table."""
    kind = type(position).__name__
    return next((name for name, entry in POSITIONS.items() if entry.class_name == kind), None)


def _inside_attention() -> list[str]:
    return [name for name, entry in POSITIONS.items() if entry.acts_on != "tokens"]


# Whether positions that act inside the attention fit the attention they are given to.


def require_position_fit(
    position: Rotary | ScoreBias, *, role: Role, num_heads: int, head_dim: int
) -> None:
    """Refuse positions across two sequences, and positions of other sizes than the heads'."""
    if role == "cross":
        raise RegardError(
            f"MultiHead has role 'cross' and a position ({type(position).__name__}): positions of "
            "two different sequences have no distance. Leave position out, or add sinusoidal or "
            "learned positions to the tokens of both."
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
    """A mechanism with `num_heads` heads, as a layer from `model_dim` to `model_dim`.

    mechanism        a name of the table (its options in `mechanism_options`), or one already built
    num_kv_heads     key/value heads, a divisor of `num_heads`; as many unless given
    head_dim         width of a query and a key; `model_dim / num_heads` unless given
    value_dim        width of a value; `head_dim` unless given
    context_dim      width of the other sequence, with role "cross"; `model_dim` unless given
    position         "rotary" or "alibi", or a built `Rotary` or score bias; for role "self"
    max_length       for mechanisms, given by name, whose number of positions is bounded
    dropout          on the output; never on weights, or `weights` would not be what was used
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
        self.role: Role = given_role(role)
        require_dropout("MultiHead", dropout)
        if max_length is not None:
            require_positive("MultiHead", max_length=max_length)
        self.sizes = HeadSizes.of(
            role=self.role,
            model_dim=model_dim,
            context_dim=context_dim,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            value_dim=value_dim,
        )
        position = given_position(position, sizes=self.sizes)
        if position is not None:
            require_position_fit(
                position, role=self.role, num_heads=num_heads, head_dim=self.sizes.head_dim
            )
        mechanism = given_mechanism(
            mechanism, options=mechanism_options or {}, sizes=self.sizes, max_length=max_length
        )
        self.rotary = position if isinstance(position, Rotary) else None
        self.score_bias = None if isinstance(position, Rotary) else position
        require_fit(mechanism, role=self.role, score_bias=self.score_bias is not None)
        self.mechanism = mechanism
        self.projection = build_projection(role=self.role, sizes=self.sizes, bias=bias)
        self.extras = ExtraProjections(
            extras=mechanism.extras,
            context_dim=self.sizes.context_dim,
            num_kv_heads=self.sizes.num_kv_heads,
            key_dim=self.sizes.head_dim,
        )
        self.output = nn.Linear(num_heads * self.sizes.value_dim, model_dim, bias=bias)
        reset(self.output, (model_dim,))
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "batch query_length model_dim"],
        context: Float[Tensor, "batch key_length context_dim"] | None = None,
        mask: Mask = NO_MASK,
    ) -> Float[Tensor, "batch query_length model_dim"]:
        read = self._context(x, context)
        heads = self._heads(x, read, mask)
        return self._merge(self.mechanism(*heads, mask, **self._words(read)))

    def weights(
        self,
        x: Float[Tensor, "batch query_length model_dim"],
        context: Float[Tensor, "batch key_length context_dim"] | None = None,
        mask: Mask = NO_MASK,
    ) -> Float[Tensor, "batch heads query_length key_length"]:
        """Who read whom in `forward` of the same arguments."""
        read = self._context(x, context)
        query, key, _ = self._heads(x, read, mask)
        return self.mechanism.weights(query, key, mask, **self._words(read))

    def start(self, batch_size: int) -> State:
        """The state before any token."""
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
        """The state after taking the context in; its rows may be padded: `Padding(lengths)`."""
        self._require_context(context)
        require_mask(mask)
        require_state("MultiHead", state, batch_size=context.shape[0])
        key, value = self.projection.key_value(context)
        if self.rotary is not None:
            key = self.rotary(key, _continued(state, context))
        extended: State = self.mechanism.extend(state, key, value, mask, **self.extras(context))
        return extended

    def read(
        self, state: State, x: Float[Tensor, "batch query_length model_dim"]
    ) -> Float[Tensor, "batch query_length model_dim"]:
        """What x reads from everything taken in, standing at the last position taken in."""
        require_sequence("MultiHead", x, width=self.sizes.model_dim)
        require_state("MultiHead", state, batch_size=x.shape[0])
        query = self.projection.query(x)
        if self.rotary is not None:
            query = self.rotary(query, (state.position - 1)[:, None].expand(-1, x.shape[1]))
        return self._merge(self.mechanism.read(state, query, **self._bias()))

    def step(self, state: State, x: Float[Tensor, "batch new_length model_dim"]) -> Step:
        """The rows that the causal `forward` would give the new tokens, in self-attention."""
        if self.role == "cross":
            raise RegardError(
                "MultiHead with role 'cross' has no step: its context is not the new token. "
                "Extend once with the context, then read with each token."
            )
        require_sequence("MultiHead", x, width=self.sizes.model_dim)
        require_state("MultiHead", state, batch_size=x.shape[0])
        query, key, value = self.projection(x, x)
        if self.rotary is not None:
            rotation = self.rotary.rotation(_continued(state, x), query.dtype)
            query, key = self.rotary.turn(query, rotation), self.rotary.turn(key, rotation)
        step = self.mechanism.step(state, query, key, value, **self._words(x))
        return Step(self._merge(step.output), step.state)

    def cost(self, shape: SequenceShape) -> Cost:
        """What `forward` takes: the projections, the positions and the mechanism.

        `step_products` are those of a `step`; with role "cross", of reading the context once more.
        """
        require_shape("MultiHead", shape)
        key_length = shape.length if self.role == "self" else shape.context_length
        if key_length is None:
            raise RegardError("The cost of role 'cross' needs a SequenceShape with context_length.")
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
        extras = self.extras.cost(rows=shape.batch_size * key_length)
        if self.role == "self":
            extras = per_position(extras, length=shape.length)
        else:
            attended = replace(attended, step_products=read_products(self.mechanism, attention))
        return (
            self.projection.cost(
                batch_size=shape.batch_size, query_length=shape.length, key_length=key_length
            )
            + extras
            + self._position_cost(shape)
            + attended
            + per_position(cost_of(self.output, rows=shape.rows), length=shape.length)
        )

    def _position_cost(self, shape: SequenceShape) -> Cost:
        if self.rotary is None:
            return Cost()
        turned = shape.rows * (self.sizes.query_width + self.sizes.key_width)
        return self.rotary.cost(shape) + self.rotary.turn_cost(numbers=turned)

    def _context(self, x: Tensor, context: Tensor | None) -> Tensor:
        if (context is None) != (self.role == "self"):
            way_out = (
                "pass x alone, and a mask as mask=…"
                if self.role == "self"
                else "pass the sequence to be read"
            )
            raise RegardError(
                f"MultiHead has role '{self.role}' and was called "
                f"{'without' if context is None else 'with'} a context: {way_out}."
            )
        require_sequence("MultiHead", x, width=self.sizes.model_dim)
        if context is None:
            return x
        self._require_context(context)
        return context

    def _require_context(self, context: Tensor) -> None:
        width = self.sizes.context_dim
        require_sequence(
            "MultiHead", context, width=width, name="context", width_name="context_dim"
        )

    def _heads(self, x: Tensor, context: Tensor, mask: Mask) -> Heads:
        """The one way to queries, keys and values, for `forward` and `weights` alike."""
        require_mask(mask)
        require_call_fit(self.mechanism, role=self.role, mask=mask, key_length=context.shape[1])
        heads: Heads = self.projection(x, context)
        if self.rotary is None:
            return heads
        positions = token_positions(start=0, length=x.shape[1], device=x.device)
        rotation = self.rotary.rotation(positions, heads.query.dtype)
        return heads._replace(
            query=self.rotary.turn(heads.query, rotation), key=self.rotary.turn(heads.key, rotation)
        )

    def _bias(self) -> dict[str, Any]:
        # Mechanisms without scores have no such argument.
        return {} if self.score_bias is None else {"bias": self.score_bias}

    def _words(self, context: Tensor) -> dict[str, Any]:
        """What the mechanism is told by name."""
        # Most mechanisms want no extras, and a step of decoding is too short to call for nothing.
        extras = self.extras(context) if self.mechanism.extras else {}
        return {**extras, **self._bias()}

    def _merge(self, heads: Tensor) -> Tensor:
        merged: Tensor = self.dropout(self.output(heads.transpose(1, 2).flatten(2)))
        return merged


def _continued(state: State, x: Tensor) -> Tensor:
    return token_positions(start=state.position, length=x.shape[1], device=x.device)
