"""Roles and masks: what is read by whom, and what must not be.

Roles are read off the layer by gradients: a query that comes from y has one towards y and none towards x.
So is what a prediction of the decoder sees: the gradient of prediction i towards target j is zero, not
small, where the mask and the shift by one keep j from it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from regard.claims.engine import claim
from regard.core.batches import SPECIAL_TOKENS, START
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Padding
from regard.core.mechanism import Mechanism
from regard.core.records.claim import Finding, MatrixPicture
from regard.layers.multi_head import MultiHead
from regard.mechanisms import MECHANISMS, build_mechanism
from regard.mechanisms.scores.dot_product import ScaledDotAttention
from regard.models.seq2seq.transformer import Transformer
from regard.models.text_encoder import TextEncoder

WIDTH, HEADS = 16, 2
STATED_ROLES = {
    "self": {"query": {"x"}, "key": {"x"}, "value": {"x"}},
    "cross": {"query": {"y"}, "key": {"x"}, "value": {"x"}},
}


@claim(
    statement="In self-attention over x, queries, keys and values come from x; in attention of y over x, "
    "queries come from y, keys and values from x.",
    formula="self: Q, K, V ← X, A is n × n;  cross: Q ← Y, K, V ← X, A is m × n",
    source="seed 001; Vaswani et al. 2017, section 3.2.3",
    proof="numeric",
    ranges={"x_length": (1, 64), "y_length": (1, 64)},
)
def roles_of_self_and_cross_attention(
    *, mechanism: str = "scaled_dot", x_length: int = 7, y_length: int = 5, seed: int = 0
) -> Finding:
    """Which sequence each comes from is where its gradient is not zero."""
    found = {
        role: role_sources(role, mechanism, lengths={"x": x_length, "y": y_length}, seed=seed)
        for role in STATED_ROLES
    }
    sources = {role: sources for role, (sources, _) in found.items()}
    shapes = {role: shape for role, (_, shape) in found.items()}
    holds = sources == STATED_ROLES and shapes == {
        "self": (x_length, x_length),
        "cross": (y_length, x_length),
    }
    return Finding(
        verdict="holds" if holds else "fails",
        because=f"Gradients of queries, keys and values lead to {_listed(sources['self'])} in "
        f"self-attention and to {_listed(sources['cross'])} in cross-attention; the weights are "
        f"{_by(shapes['self'])} and {_by(shapes['cross'])}.",
        figures={f"{role} weights": _by(shape) for role, shape in shapes.items()},
        picture=roles_picture(sources),
        counter_example=f"{sources} with weights {shapes}",
    )


@claim(
    statement="With the causal mask and the output shifted by one, prediction i sees the targets before i "
    "and no other.",
    formula="∂ prediction i / ∂ target j = 0  exactly if j ≥ i",
    source="seed 001; Vaswani et al. 2017, section 3.1",
    proof="numeric",
    ranges={"length": (2, 32)},
)
def mask_and_shift_hide_the_answer(
    *, masked: bool = True, shifted: bool = True, length: int = 8, seed: int = 0
) -> Finding:
    """In a Transformer's decoder; leave the mask or the shift away to see what each is for."""
    return what_predictions_see(masked=masked, shifted=shifted, length=length, seed=seed)


@claim(
    statement="The causal mask alone, the output not shifted, keeps prediction i from seeing target i.",
    formula="∂ prediction i / ∂ target j = 0  if j ≥ i",
    source="the variant without the shift of seed 001's question 5",
    proof="numeric",
    marked_wrong=True,
    ranges={"length": (2, 32)},
)
def mask_alone_hides_the_answer(*, length: int = 8, seed: int = 0) -> Finding:
    """The diagonal of the picture: every prediction is shown its own answer."""
    return what_predictions_see(masked=True, shifted=False, length=length, seed=seed)


@claim(
    statement="The shift by one alone, without the mask, keeps prediction i from seeing target i.",
    formula="∂ prediction i / ∂ target j = 0  if j ≥ i",
    source="the variant without the mask of seed 001's question 5",
    proof="numeric",
    marked_wrong=True,
    ranges={"length": (2, 32)},
)
def shift_alone_hides_the_answer(*, length: int = 8, seed: int = 0) -> Finding:
    """Everything right of the diagonal: the answer comes back through its neighbours."""
    return what_predictions_see(masked=False, shifted=True, length=length, seed=seed)


@claim(
    statement="Padded keys get a weight of exactly zero, in every mechanism that takes padding.",
    formula="A[i, j] = 0  for j ≥ length",
    source="seed 001; Vaswani et al. 2017, section 3.2.3",
    proof="numeric",
    ranges={"length": (1, 128), "real": (0, 128), "scale": (0, 1e6)},
)
def padded_keys_have_zero_weight(
    *, length: int = 9, real: int = 5, scale: float = 100.0, seed: int = 0
) -> Finding:
    """The padded keys are `scale` times as large as the others, so that they would win if they could."""
    weights = {
        name: padded_weights(mechanism, length=length, real=real, scale=scale, seed=seed)
        for name, mechanism in padding_mechanisms(length, seed=seed).items()
    }
    leaks = {name: float(found[:, real:].abs().sum()) for name, found in weights.items()}
    worst = max(leaks, key=lambda name: leaks[name])
    return Finding(
        verdict="holds" if leaks[worst] == 0.0 else "fails",
        because=f"Of {len(MECHANISMS)} mechanisms {len(weights)} take padding; the most that any of them "
        f"gives to its {length - real} padded keys together, {scale:g} times as large as the real, is "
        f"{leaks[worst]:g}, without any tolerance.",
        figures=leaks,
        picture=keys_picture({name: found[-1] for name, found in weights.items()}, real=real),
        counter_example=f"{worst} gives padded keys the weight {leaks[worst]:.3g}",
    )


@claim(
    statement="Setting the scores of padded keys to zero keeps them from being read.",
    formula="softmax(M ⊙ QKᵀ/√d),  M = 0 at padding, 1 elsewhere",
    source="seed 001's mask of zeros and ones, laid on the scores",
    proof="numeric",
    marked_wrong=True,
    ranges={"length": (1, 128), "real": (0, 128)},
)
def zero_scores_hide_padded_keys(*, length: int = 9, real: int = 5, seed: int = 0) -> Finding:
    """e⁰ = 1: a score of zero is a score like any other. It takes −∞."""
    query, key = drawn_heads(length=length, real=real, scale=1.0, seed=seed)
    is_real = (torch.arange(length) < real).double()
    scores = (query @ key.mT)[0, 0] / key.shape[-1] ** 0.5 * is_real
    zeroed = scores.softmax(-1)
    masked = ScaledDotAttention().weights(query, key, Padding(torch.tensor([real])))[0, 0]
    leak = float(zeroed[:, real:].sum(-1).max())
    return Finding(
        verdict="holds" if leak == 0.0 else "fails",
        because=f"Up to {leak:.0%} of what a query reads comes from the {length - real} padded keys: "
        "each gets e⁰ = 1 before normalising. With −∞ in their place it is "
        f"{float(masked[:, real:].sum(-1).max()):g}.",
        figures={"read from padding": leak, "with −∞": float(masked[:, real:].sum(-1).max())},
        picture=keys_picture({"score 0": zeroed[-1], "score −∞": masked[-1]}, real=real),
        counter_example=f"with {real} of {length} keys real, padding gets {leak:.3f} of a row",
    )


@claim(
    statement="BERT's input is the sum of a token, a segment and a position embedding.",
    formula="x_t = E_token[w_t] + E_segment[s_t] + E_position[t]",
    source="seed 001; Devlin et al. 2019, section 3",
    proof="numeric",
)
def bert_input_is_a_sum_of_three(
    *, embedding_scaled: bool = False, position: str = "learned", seed: int = 0
) -> Finding:
    """What the model gives to its first norm, held against the rows of its three tables."""
    entered, rows = bert_input(embedding_scaled=embedding_scaled, position=position, seed=seed)
    total = torch.stack(list(rows.values())).sum(0)
    error = float((entered - total).abs().max())
    needed = {name: float((entered - (total - row)).abs().max()) for name, row in rows.items()}
    holds = error < 1e-12 and min(needed.values()) > 1e-3
    return Finding(
        verdict="holds" if holds else "fails",
        because=f"Token, segment and position rows add up to the model's input within {error:.1e} "
        f"(float64, below 1e-12); without one of them the error is {min(needed.values()):.2g} or more.",
        figures={"error": error, **{f"error without {name}": needed[name] for name in needed}},
        picture=sum_picture({**rows, "their sum": total, "the input": entered}),
        counter_example=f"the input differs from the sum by {error:.3g}",
    )


def role_sources(
    role: str, mechanism: str, *, lengths: Mapping[str, int], seed: int
) -> tuple[dict[str, set[str]], tuple[int, int]]:
    """By head part, the sequences that it has a gradient towards; and the shape of the weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = MultiHead(
            model_dim=WIDTH,
            num_heads=HEADS,
            mechanism=mechanism,
            role=role,
            max_length=max(lengths.values()),
        )
        given = {
            name: torch.randn(1, length, WIDTH, requires_grad=True)
            for name, length in lengths.items()
        }
    own, context = (given["x"], given["x"]) if role == "self" else (given["y"], given["x"])
    parts = layer.projection(own, context)._asdict()
    sources = {}
    for name, part in parts.items():
        inputs = tuple(given.values())
        slopes = torch.autograd.grad(part.sum(), inputs, retain_graph=True, materialize_grads=True)
        sources[name] = {each for each, slope in zip(given, slopes, strict=True) if slope.any()}
    mask = Causal() if layer.mechanism.capabilities.requires_causal else NO_MASK
    weights = layer.weights(own, None if role == "self" else context, mask)
    return sources, (weights.shape[-2], weights.shape[-1])


def what_predictions_see(*, masked: bool, shifted: bool, length: int, seed: int) -> Finding:
    """The finding about one decoder: nothing from place i on, and everything before it."""
    slopes = prediction_slopes(masked=masked, shifted=shifted, length=length, seed=seed)
    before = torch.ones(length, length).tril(-1).bool()
    leak, least = float(slopes[~before].max()), float(slopes[before].min())
    row, column = divmod(int(slopes.masked_fill(before, 0).argmax()), length)
    return Finding(
        verdict="holds" if leak == 0.0 and least > 0.0 else "fails",
        because=f"The largest gradient of prediction i towards a target from i on is {leak:.3g}; the "
        f"smallest towards a target before i is {least:.3g}. Zero is exact, without a tolerance.",
        figures={"from i on": leak, "before i": least},
        picture=MatrixPicture(
            title=f"How strongly prediction i (row) depends on target j (column), "
            f"{'masked' if masked else 'not masked'}, {'shifted' if shifted else 'not shifted'}",
            values=tuple(tuple(values) for values in slopes.tolist()),
            row_labels=tuple(f"prediction {place}" for place in range(length)),
            column_labels=tuple(f"target {place}" for place in range(length)),
        ),
        counter_example=f"prediction {row} depends on target {column}: its gradient is "
        f"{float(slopes[row, column]):.3g}",
    )


def prediction_slopes(*, masked: bool, shifted: bool, length: int, seed: int) -> Tensor:
    """|∂ prediction i / ∂ target j| in a Transformer's decoder, the norm over a target's vector."""
    model, context, target = small_decoder(length=length, seed=seed)
    start = torch.full((1, 1), START)
    fed = torch.cat([start, target[:, :-1]], dim=1) if shifted else target
    # A copy of the target for each prediction, so that one backward pass gives the gradients of all.
    embedded = model.target_embedding(fed).detach().repeat(length, 1, 1).requires_grad_()
    x = model.target_position(embedded)
    for block in model.decoder:
        x = block(x, context.expand(length, -1, -1), Causal() if masked else NO_MASK)
    logits = model.logits(model.decoder_norm(x))
    predictions = logits[torch.arange(length), torch.arange(length)]
    # A direction of its own for each: the sum over the vocabulary could cancel.
    direction = torch.randn(predictions.shape, generator=torch.Generator().manual_seed(seed))
    (slope,) = torch.autograd.grad((predictions * direction).sum(), embedded)
    by_place = slope.norm(dim=-1)
    if not shifted:
        return by_place
    # Place p holds target p − 1, and the last target is not fed.
    return torch.cat([by_place[:, 1:], by_place.new_zeros(length, 1)], dim=1)


def small_decoder(*, length: int, seed: int) -> tuple[Transformer, Tensor, Tensor]:
    """A fresh Transformer in float64, an encoded source for it, and a target of so many tokens."""
    vocabulary = 23
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(
            source_vocabulary=vocabulary,
            target_vocabulary=vocabulary,
            model_dim=WIDTH,
            num_heads=HEADS,
            num_layers=2,
            tie="none",
        )
        context = torch.randn(1, 6, WIDTH, dtype=torch.float64)
        target = torch.randint(len(SPECIAL_TOKENS), vocabulary, (1, length))
    return model.double().eval(), context, target


def padding_mechanisms(length: int, *, seed: int) -> dict[str, Mechanism]:
    """Every mechanism of the table that takes padding, built for keys of eight features."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        built = {
            name: build_mechanism(name, query_dim=8, key_dim=8, max_length=length).double()
            for name in MECHANISMS
        }
    return {name: each for name, each in built.items() if "padding" in each.capabilities.masks}


def padded_weights(
    mechanism: Mechanism, *, length: int, real: int, scale: float, seed: int
) -> Tensor:
    """The weights of one row of keys of which the first `real` are real."""
    query, key = drawn_heads(length=length, real=real, scale=scale, seed=seed)
    widths = {"one": 1, "key_dim": key.shape[-1]}
    extras = {
        extra.name: extra.squash(torch.zeros(1, 1, length, widths[extra.width]).double())
        for extra in mechanism.extras
    }
    order = Causal() if mechanism.capabilities.requires_causal else NO_MASK
    mask = order & Padding(torch.tensor([real]))
    with torch.no_grad():
        return mechanism.weights(query, key, mask, **extras)[0, 0]


def drawn_heads(*, length: int, real: int, scale: float, seed: int) -> tuple[Tensor, Tensor]:
    """Queries and keys of one head, (1, 1, length, 8); keys from `real` on are `scale` times as large."""
    if real > length:
        raise RegardError(
            f"real={real}: of {length} keys no more can be real. Choose length or less."
        )
    generator = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, 1, 1, length, 8, generator=generator, dtype=torch.float64)
    key[:, :, real:] *= scale
    return query, key


def bert_input(
    *, embedding_scaled: bool, position: str, seed: int
) -> tuple[Tensor, dict[str, Tensor]]:
    """What reaches the first norm of a `TextEncoder` for two short texts, and the three rows of each."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = TextEncoder(
            vocabulary=29,
            model_dim=WIDTH,
            num_heads=HEADS,
            num_layers=1,
            position=position,
            embedding_scaled=embedding_scaled,
        )
    model = model.double().eval()
    tokens, segments = torch.tensor([[5, 9, 9, 7, 9]]), torch.tensor([[0, 0, 0, 1, 1]])
    entered: list[Tensor] = []
    model.embedding_norm.register_forward_pre_hook(lambda _, given: entered.append(given[0]))
    with torch.no_grad():
        model.hidden(tokens, torch.tensor([tokens.shape[1]]), segments)
        rows = {
            "token": model.embedding.table.weight[tokens[0]],
            "segment": model.segment.table.weight[segments[0]],
            "position": model.position(torch.zeros(1, tokens.shape[1], WIDTH).double())[0],
        }
    return entered[0][0], rows


def roles_picture(sources: Mapping[str, Mapping[str, set[str]]]) -> MatrixPicture:
    """A row for each part of each role, a column for each sequence; 1 where it comes from it."""
    rows = {f"{role}: {part}": found for role in sources for part, found in sources[role].items()}
    return MatrixPicture(
        title="What comes from which sequence",
        values=tuple(tuple(float(name in found) for name in ("y", "x")) for found in rows.values()),
        row_labels=tuple(rows),
        column_labels=("y", "x"),
    )


def keys_picture(rows: Mapping[str, Tensor], *, real: int) -> MatrixPicture:
    """What the last query reads, a row for each way; padded keys are called so."""
    length = len(next(iter(rows.values())))
    return MatrixPicture(
        title="What the last query reads of each key",
        values=tuple(tuple(row.tolist()) for row in rows.values()),
        row_labels=tuple(rows),
        column_labels=tuple("key" if place < real else "padding" for place in range(length)),
    )


def sum_picture(rows: Mapping[str, Tensor]) -> MatrixPicture:
    """The vectors of one token, in the second text, feature by feature."""
    return MatrixPicture(
        title="The fourth token: its three rows, their sum, and what the model is given",
        values=tuple(tuple(row[3, :8].tolist()) for row in rows.values()),
        row_labels=tuple(rows),
        column_labels=tuple(f"feature {place}" for place in range(8)),
    )


def _listed(sources: Mapping[str, set[str]]) -> str:
    return ", ".join("+".join(sorted(found)) or "nothing" for found in sources.values())


def _by(shape: tuple[int, int]) -> str:
    return f"{shape[0]} × {shape[1]}"
