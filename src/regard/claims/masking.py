"""Self- and cross-attention, causal masking with teacher forcing, padding masks, and BERT's input.

Dependencies are tested by gradients: queries computed from y have a gradient with respect to y and none
with respect to x; the gradient of prediction i with respect to target j is exactly zero if the causal mask
and the shift by one prevent leakage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor

from regard.claims.engine import claim, matrix_figure
from regard.core.batches import SPECIAL_TOKENS, START, TokenInput
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Padding
from regard.core.mechanism import Mechanism, Role
from regard.core.records.claim import Finding, MatrixFigure
from regard.layers.multi_head import MultiHead
from regard.mechanisms import MECHANISMS, build_mechanism
from regard.mechanisms.scores.dot_product import ScaledDotAttention
from regard.models.embeddings import TokenEmbedding
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
    source="Vaswani et al. 2017, section 3.2.3",
    proof="numeric",
    ranges={"x_length": (1, 64), "y_length": (1, 64)},
)
def roles_of_self_and_cross_attention(
    *, mechanism: str = "scaled_dot", x_length: int = 7, y_length: int = 5, seed: int = 0
) -> Finding:
    """A projection depends on the sequences with a non-zero gradient."""
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
    rows = {f"{role}: {name}": found for role in sources for name, found in sources[role].items()}
    return Finding(
        verdict="holds" if holds else "fails",
        reason=f"Queries, keys and values have gradients with respect to {_listed(sources['self'])} in "
        f"self-attention and {_listed(sources['cross'])} in cross-attention; the weights are "
        f"{_by(shapes['self'])} and {_by(shapes['cross'])}.",
        values={f"{role} weights": _by(shape) for role, shape in shapes.items()},
        figure=matrix_figure(
            "Dependence of queries, keys and values on the sequences",
            (tuple(float(name in found) for name in ("y", "x")) for found in rows.values()),
            rows=rows,
            columns=("y", "x"),
        ),
        counter_example=f"{sources} with weights {shapes}",
    )


@claim(
    statement="With the causal mask and the target shifted by one, prediction i depends on the targets "
    "before i only.",
    formula="∂ prediction i / ∂ target j = 0  ⇔  j ≥ i",
    source="Vaswani et al. 2017, section 3.1",
    proof="numeric",
    ranges={"length": (2, 32)},
)
def causal_mask_and_shift_prevent_leakage(
    *, masked: bool = True, shifted: bool = True, length: int = 8, seed: int = 0
) -> Finding:
    """In a Transformer decoder; masked=False or shifted=False shows what each is for."""
    return prediction_dependence(masked=masked, shifted=shifted, length=length, seed=seed)


@claim(
    statement="The causal mask alone, without the shift, prevents leakage of target i into prediction i.",
    formula="∂ prediction i / ∂ target j = 0  if j ≥ i",
    source="course notes: decoder masking",
    proof="numeric",
    known_false=True,
    ranges={"length": (2, 32)},
)
def causal_mask_alone_prevents_leakage(*, length: int = 8, seed: int = 0) -> Finding:
    """Diagonal of the figure: every prediction depends on its own target."""
    return prediction_dependence(masked=True, shifted=False, length=length, seed=seed)


@claim(
    statement="The shift alone, without the causal mask, prevents leakage of target i into prediction i.",
    formula="∂ prediction i / ∂ target j = 0  if j ≥ i",
    source="course notes: decoder masking",
    proof="numeric",
    known_false=True,
    ranges={"length": (2, 32)},
)
def shift_alone_prevents_leakage(*, length: int = 8, seed: int = 0) -> Finding:
    """Right of the diagonal: the target leaks through later positions."""
    return prediction_dependence(masked=False, shifted=True, length=length, seed=seed)


@claim(
    statement="Padded keys have a weight of exactly zero in every mechanism with padding masks.",
    formula="A[i, j] = 0  for j ≥ length",
    source="Vaswani et al. 2017, section 3.2.3",
    proof="numeric",
    ranges={"length": (1, 128), "real": (0, 128), "scale": (0, 1e6)},
)
def padded_keys_have_zero_weight(
    *, length: int = 9, real: int = 5, scale: float = 100.0, seed: int = 0
) -> Finding:
    """Padded keys are `scale` times as large as the others, so an unmasked one would dominate."""
    weights = {
        name: padded_weights(mechanism, length=length, real=real, scale=scale, seed=seed)
        for name, mechanism in padding_mechanisms(length, seed=seed).items()
    }
    leaks = {name: float(found[:, real:].abs().sum()) for name, found in weights.items()}
    worst = max(leaks, key=lambda name: leaks[name])
    return Finding(
        verdict="holds" if leaks[worst] == 0.0 else "fails",
        reason=f"{len(weights)} of {len(MECHANISMS)} mechanisms support padding masks; the largest total "
        f"weight of the {length - real} padded keys, {scale:g} times as large as the others, is "
        f"{leaks[worst]:g} (no tolerance).",
        values=leaks,
        figure=keys_figure({name: found[-1] for name, found in weights.items()}, real=real),
        counter_example=f"{worst} gives padded keys the weight {leaks[worst]:.3g}",
    )


@claim(
    statement="Setting the scores of padded keys to zero masks them.",
    formula="softmax(M ⊙ QKᵀ/√d),  M = 0 at padding, 1 elsewhere",
    source="course notes: padding masks",
    proof="numeric",
    known_false=True,
    ranges={"length": (1, 128), "real": (0, 128)},
)
def zero_scores_mask_padding(*, length: int = 9, real: int = 5, seed: int = 0) -> Finding:
    """e⁰ = 1: a score of zero has weight. Masking needs −∞."""
    query, key = random_heads(length=length, real=real, scale=1.0, seed=seed)
    is_real = (torch.arange(length) < real).double()
    scores = (query @ key.mT)[0, 0] / key.shape[-1] ** 0.5 * is_real
    zeroed = scores.softmax(-1)
    masked = ScaledDotAttention().weights(query, key, Padding(torch.tensor([real])))[0, 0]
    leak = float(zeroed[:, real:].sum(-1).max())
    return Finding(
        verdict="holds" if leak == 0.0 else "fails",
        reason=f"Up to {leak:.0%} of the weight of a query is on the {length - real} padded keys: each has "
        "e⁰ = 1 before normalisation. With −∞ instead it is "
        f"{float(masked[:, real:].sum(-1).max()):g}.",
        values={"padding weight": leak, "with −∞": float(masked[:, real:].sum(-1).max())},
        figure=keys_figure({"score 0": zeroed[-1], "score −∞": masked[-1]}, real=real),
        counter_example=f"with {real} real keys of {length}, padding has a weight of {leak:.3f}",
    )


@claim(
    statement="BERT's input is the sum of a token, a segment and a position embedding.",
    formula="x_t = E_token[w_t] + E_segment[s_t] + E_position[t]",
    source="Devlin et al. 2019, section 3",
    proof="numeric",
)
def bert_input_is_a_sum_of_three_embeddings(
    *, embedding_scaled: bool = False, position: str = "learned", seed: int = 0
) -> Finding:
    """Compare the input of the first layer norm with the rows of the three embeddings."""
    inputs, rows = bert_input(embedding_scaled=embedding_scaled, position=position, seed=seed)
    total = torch.stack(list(rows.values())).sum(0)
    error = float((inputs - total).abs().max())
    needed = {name: float((inputs - (total - row)).abs().max()) for name, row in rows.items()}
    holds = error < 1e-12 and min(needed.values()) > 1e-3
    return Finding(
        verdict="holds" if holds else "fails",
        reason=f"The token, segment and position embeddings sum to the model's input within {error:.1e} "
        f"(float64; tolerance 1e-12); without one of them the error is at least "
        f"{min(needed.values()):.2g}.",
        values={"error": error, **{f"error without {name}": needed[name] for name in needed}},
        figure=matrix_figure(
            "Fourth token: its three embeddings, their sum, and the model's input",
            (
                tuple(row[3, :8].tolist())
                for row in {**rows, "sum": total, "input": inputs}.values()
            ),
            rows={**rows, "sum": total, "input": inputs},
            columns=(f"feature {index}" for index in range(8)),
        ),
        counter_example=f"the input differs from the sum by {error:.3g}",
    )


def role_sources(
    role: str, mechanism: str, *, lengths: Mapping[str, int], seed: int
) -> tuple[dict[str, set[str]], tuple[int, int]]:
    """Projection → the sequences it depends on; and the shape of the weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = MultiHead(
            model_dim=WIDTH,
            num_heads=HEADS,
            mechanism=mechanism,
            role=cast("Role", role),
            max_length=max(lengths.values()),
        )
        sequences = {
            name: torch.randn(1, length, WIDTH, requires_grad=True)
            for name, length in lengths.items()
        }
    x, y = sequences["x"], sequences["y"]
    own, context = (x, x) if role == "self" else (y, x)
    sources = {}
    for name, projected in layer.projection(own, context)._asdict().items():
        gradients = torch.autograd.grad(
            projected.sum(), tuple(sequences.values()), retain_graph=True, materialize_grads=True
        )
        sources[name] = {
            sequence
            for sequence, gradient in zip(sequences, gradients, strict=True)
            if gradient.any()
        }
    mask = Causal() if layer.mechanism.capabilities.requires_causal else NO_MASK
    weights = layer.weights(own, None if role == "self" else context, mask)
    return sources, (weights.shape[-2], weights.shape[-1])


def prediction_dependence(*, masked: bool, shifted: bool, length: int, seed: int) -> Finding:
    """Whether prediction i depends on all targets before i and on no others."""
    gradients = prediction_gradients(masked=masked, shifted=shifted, length=length, seed=seed)
    before = torch.ones(length, length).tril(-1).bool()
    leak, least = float(gradients[~before].max()), float(gradients[before].min())
    row, column = divmod(int(gradients.masked_fill(before, 0).argmax()), length)
    return Finding(
        verdict="holds" if leak == 0.0 and least > 0.0 else "fails",
        reason=f"The largest gradient of prediction i with respect to targets from i on is {leak:.3g}; the "
        f"smallest with respect to targets before i is {least:.3g} (no tolerance).",
        values={"from i on": leak, "before i": least},
        figure=matrix_figure(
            f"Gradient of prediction i (row) with respect to target j (column), "
            f"{'masked' if masked else 'not masked'}, {'shifted' if shifted else 'not shifted'}",
            gradients.tolist(),
            rows=(f"prediction {index}" for index in range(length)),
            columns=(f"target {index}" for index in range(length)),
        ),
        counter_example=f"prediction {row} depends on target {column}: the gradient is "
        f"{float(gradients[row, column]):.3g}",
    )


def prediction_gradients(*, masked: bool, shifted: bool, length: int, seed: int) -> Tensor:
    """|∂ prediction i / ∂ target j| in a Transformer decoder, as the norm over a target's embedding."""
    model, context, target = small_decoder(length=length, seed=seed)
    start = torch.full((1, 1), START)
    decoder_input = torch.cat([start, target[:, :-1]], dim=1) if shifted else target
    # One copy of the target per prediction, so that one backward pass computes all gradients.
    embedded = (
        model.target_embedding.embed(decoder_input).detach().repeat(length, 1, 1).requires_grad_()
    )
    x = model.target_position(embedded)
    for block in model.decoder:
        x = block(x, context.expand(length, -1, -1), Causal() if masked else NO_MASK)
    logits = model.logits(model.decoder_norm(x))
    predictions = logits[torch.arange(length), torch.arange(length)]
    # A random direction for each: a sum over the vocabulary could cancel.
    direction = torch.randn(predictions.shape, generator=torch.Generator().manual_seed(seed))
    (gradient,) = torch.autograd.grad((predictions * direction).sum(), embedded)
    norms = gradient.norm(dim=-1)
    if not shifted:
        return norms
    # Position p holds target p − 1; the last target is not an input.
    return torch.cat([norms[:, 1:], norms.new_zeros(length, 1)], dim=1)


def small_decoder(*, length: int, seed: int) -> tuple[Transformer, Tensor, Tensor]:
    """An untrained Transformer in float64, an encoded source, and a target of this length."""
    vocabulary = 23
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(
            source=vocabulary,
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
    """Every mechanism that supports padding masks, with key_dim=8."""
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
    """Attention weights over keys of which only the first `real` are not padding."""
    query, key = random_heads(length=length, real=real, scale=scale, seed=seed)
    widths = {"one": 1, "key_dim": key.shape[-1]}
    gates = {
        gate.name: gate.activation(torch.zeros(1, 1, length, widths[gate.width]).double())
        for gate in mechanism.gates
    }
    order = Causal() if mechanism.capabilities.requires_causal else NO_MASK
    mask = order & Padding(torch.tensor([real]))
    with torch.no_grad():
        return mechanism.weights(query, key, mask, **gates)[0, 0]


def random_heads(*, length: int, real: int, scale: float, seed: int) -> tuple[Tensor, Tensor]:
    """Random queries and keys, (1, 1, length, 8); keys from `real` on are multiplied by `scale`."""
    if real > length:
        raise RegardError(
            f"real={real}: there are only {length} keys. Choose real={length} or less."
        )
    generator = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, 1, 1, length, 8, generator=generator, dtype=torch.float64)
    key[:, :, real:] *= scale
    return query, key


def bert_input(
    *, embedding_scaled: bool, position: str, seed: int
) -> tuple[Tensor, dict[str, Tensor]]:
    """Input of the first layer norm of a `TextEncoder`, and the three embeddings of each token."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = TextEncoder(
            source=29,
            model_dim=WIDTH,
            num_heads=HEADS,
            num_layers=1,
            position=position,
            embedding_scaled=embedding_scaled,
        )
    model = model.double().eval()
    tokens, segments = torch.tensor([[5, 9, 9, 7, 9]]), torch.tensor([[0, 0, 0, 1, 1]])
    inputs: list[Tensor] = []
    segment = model.segment
    assert isinstance(model.embedding, TokenEmbedding)
    assert segment is not None
    model.embedding_norm.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
    with torch.no_grad():
        model.hidden(TokenInput(tokens, torch.tensor([tokens.shape[1]]), segments))
        rows = {
            "token": model.embedding.table.weight[tokens[0]],
            "segment": segment.table.weight[segments[0]],
            "position": model.position(torch.zeros(1, tokens.shape[1], WIDTH).double())[0],
        }
    return inputs[0][0], rows


def keys_figure(rows: Mapping[str, Tensor], *, real: int) -> MatrixFigure:
    """Weights of the last query, one row per mechanism; padded keys are labelled."""
    length = len(next(iter(rows.values())))
    return matrix_figure(
        "Attention weights of the last query",
        (tuple(row.tolist()) for row in rows.values()),
        rows=rows,
        columns=("key" if index < real else "padding" for index in range(length)),
    )


def _listed(sources: Mapping[str, set[str]]) -> str:
    return ", ".join("+".join(sorted(found)) or "nothing" for found in sources.values())


def _by(shape: tuple[int, int]) -> str:
    return f"{shape[0]} × {shape[1]}"
