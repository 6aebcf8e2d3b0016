"""Overview of mechanisms: attention weights on a sentence, declared costs, conformance results.

    build_overview(sentence="the cat sat on the mat").mechanisms[0].weights

Mechanisms are untrained. Token vectors are sums of character n-gram vectors, used as queries and as
keys, so that equal words have equal vectors and similar words similar ones.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from regard import __version__
from regard.conformance.subject import find_subjects
from regard.conformance.suite import check_subject
from regard.conformance.table import CHECKS
from regard.core.cost import AttentionShape
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal
from regard.core.mechanism import Capabilities, Mechanism
from regard.core.records.overview import CheckRecord, CostRecord, MechanismRecord, Overview
from regard.core.registry import lookup
from regard.layers.projections import GateProjections
from regard.mechanisms import MECHANISMS, build_mechanism
from regard.mechanisms.kernels.linear_attention import KernelMechanism

DEFAULT_SENTENCE = "the cat sat on the mat because the cat was tired"
MAX_TOKENS, MAX_TOKEN_CHARACTERS = 32, 40

TOKEN_DIM = 32
# The scaled dot product of a token with itself is 3: e³ times the weight of an unrelated token.
TOKEN_NORM = math.sqrt(3 * math.sqrt(TOKEN_DIM))
NGRAM_SIZES = (2, 3, 4)

NUM_HEADS = 8
# Doubling, so that growth can be read off.
LENGTHS = tuple(2**power for power in range(7, 16))

# A window shorter than the sentence; the default radius is longer.
WEIGHTS_OPTIONS: dict[str, dict[str, Any]] = {
    "window": {"radius": 2},
    "taylor_window": {"radius": 2},
}


def build_overview(
    *,
    only: Iterable[str] = (),
    sentence: str = DEFAULT_SENTENCE,
    seed: int = 0,
    begin: Callable[[str], None] = lambda _: None,
    done: Callable[[MechanismRecord], None] = lambda _: None,
) -> Overview:
    """Records of all mechanisms, or of `only`, in the order of `MECHANISMS`.

    `begin` is called with each name before, `done` with each record after its evaluation.
    """
    selected = set(only)
    for name in selected:
        lookup("mechanism", name, MECHANISMS)
    tokens = tokenise(sentence)
    records = []
    for name in MECHANISMS:
        if selected and name not in selected:
            continue
        begin(name)
        records.append(mechanism_record(name, tokens=tokens, seed=seed))
        done(records[-1])
    return Overview(
        version=__version__,
        seed=seed,
        tokens=tokens,
        num_heads=NUM_HEADS,
        mechanisms=tuple(records),
    )


def mechanism_record(name: str, *, tokens: tuple[str, ...], seed: int = 0) -> MechanismRecord:
    """The record of one mechanism."""
    entry = lookup("mechanism", name, MECHANISMS)
    options = WEIGHTS_OPTIONS.get(name, {})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        mechanism = build_mechanism(
            name, query_dim=TOKEN_DIM, key_dim=TOKEN_DIM, max_length=len(tokens), **options
        ).eval()
        weights = token_weights(mechanism, token_vectors(tokens))
    capabilities = mechanism.capabilities
    width = MECHANISMS[name].head_dim
    (subject,) = find_subjects(name)
    checks = check_subject(subject, seed=seed).records
    return MechanismRecord(
        name=name,
        family=entry.family,
        summary=entry.summary,
        reference=entry.reference,
        capabilities=capability_phrases(capabilities),
        causal=capabilities.requires_causal,
        signed=not capabilities.nonnegative,
        weights_options=", ".join(f"{option}={value}" for option, value in options.items()),
        weights=tuple(tuple(round(weight, 6) for weight in row) for row in weights.tolist()),
        checks=tuple(
            CheckRecord(
                name=check.check,
                description=CHECKS[check.check].description,
                outcome=check.outcome,
                detail=check.detail,
            )
            for check in checks
        ),
        cost_head_dim=width,
        costs=tuple(declared_cost(name, length=length, width=width) for length in LENGTHS),
    )


def tokenise(sentence: str) -> tuple[str, ...]:
    """Split a sentence at white space."""
    tokens = tuple(sentence.split())
    if not 1 <= len(tokens) <= MAX_TOKENS:
        raise RegardError(f"The sentence has {len(tokens)} words. Use 1 to {MAX_TOKENS}.")
    for token in tokens:
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise RegardError(
                f"The word '{token[:MAX_TOKEN_CHARACTERS]}…' has {len(token)} characters. "
                f"Use words of up to {MAX_TOKEN_CHARACTERS}."
            )
    return tokens


def token_vectors(tokens: Iterable[str]) -> Float[Tensor, "length token_dim"]:
    """One vector of norm `TOKEN_NORM` per token: the sum of fixed random vectors of its n-grams."""
    sums = []
    for token in tokens:
        marked = f"<{token.casefold()}>"
        grams = [marked] + [
            marked[start : start + size]
            for size in NGRAM_SIZES
            for start in range(len(marked) - size + 1)
        ]
        sums.append(torch.stack([_gram_vector(gram) for gram in grams]).sum(dim=0))
    return functional.normalize(torch.stack(sums), dim=-1) * TOKEN_NORM


def _gram_vector(gram: str) -> Float[Tensor, " token_dim"]:
    # Python's `hash` is salted per process.
    digest = hashlib.blake2b(gram.encode(), digest_size=7).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest))
    return torch.randn(TOKEN_DIM, generator=generator)


@torch.no_grad()
def token_weights(
    mechanism: Mechanism, vectors: Float[Tensor, "length width"]
) -> Float[Tensor, "length length"]:
    """Attention weights of a single head with the vectors as queries and keys.

    Gates are projected from the vectors, as in the multi-head layer.
    """
    project = GateProjections(
        gates=mechanism.gates,
        context_dim=vectors.shape[-1],
        num_kv_heads=1,
        key_dim=vectors.shape[-1],
    )
    mask = Causal() if mechanism.capabilities.requires_causal else NO_MASK
    tensors = vectors[None, None]
    return mechanism.weights(tensors, tensors, mask, **project(vectors[None]))[0, 0]


def declared_cost(name: str, *, length: int, width: int) -> CostRecord:
    """The declared or counted cost of causal self-attention in `NUM_HEADS` heads of this width.

    Mechanisms with a `max_length` are built for this length.
    """
    # Costs follow from sizes alone: tables of position pairs need not be allocated.
    small = build_mechanism(name, query_dim=1, key_dim=1, max_length=1)
    with torch.device("meta" if small.capabilities.max_length else "cpu"):
        mechanism = build_mechanism(
            name, query_dim=width, key_dim=width, num_heads=NUM_HEADS, max_length=length
        )
    shape = AttentionShape(
        num_heads=NUM_HEADS,
        query_length=length,
        key_length=length,
        key_dim=width,
        value_dim=width,
        causal=True,
    )
    form = None
    if isinstance(mechanism, KernelMechanism):
        form = mechanism.form_for(
            query_length=length, key_length=length, key_dim=width, value_dim=width, causal=True
        )
    return CostRecord(length=length, cost=mechanism.cost(shape), form=form)


def capability_phrases(capabilities: Capabilities) -> tuple[str, ...]:
    """Capabilities as short phrases."""
    phrases = [
        f"{' and '.join(sorted(capabilities.roles, reverse=True))} attention",
        "causal only" if capabilities.requires_causal else "with or without a causal mask",
        f"masks: {', '.join(sorted(capabilities.masks)) or 'none'}",
        "rows sum to one" if capabilities.rows_sum_to_one else "rows need not sum to one",
        "weights are never negative" if capabilities.nonnegative else "weights may be negative",
        "position-aware" if capabilities.position_aware else "permutation-invariant over keys",
    ]
    if capabilities.max_length is not None:
        phrases.append("fixed maximum length")
    if capabilities.score_bias:
        phrases.append("supports a score bias such as ALiBi")
    return tuple(phrases)
