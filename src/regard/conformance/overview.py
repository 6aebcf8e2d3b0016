"""Looks at mechanisms one after another: what each reads in a sentence, its costs, its checks.

    survey(sentence="the cat sat on the mat").mechanisms[0].weights

Nothing is trained. Tokens are given vectors made of their letters, the same as queries and as keys,
so that equal words are equal and similar words similar; parameters are as they come at the seed.
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
from regard.core.records.overview import CheckRecord, CostRecord, MechanismRecord, Survey
from regard.core.registry import look_up
from regard.layers.projections import ExtraProjections
from regard.mechanisms import MECHANISMS, build_mechanism
from regard.mechanisms.kernels.linear_attention import KernelMechanism

DEFAULT_SENTENCE = "the cat sat on the mat because the cat was tired"
MAX_TOKENS, MAX_TOKEN_LETTERS = 32, 40

TOKEN_DIM = 32
# A token and itself then score 3 after division by √TOKEN_DIM: e³ times the weight of a stranger.
TOKEN_LENGTH = math.sqrt(3 * math.sqrt(TOKEN_DIM))
NGRAM_SIZES = (2, 3, 4)

NUM_HEADS = 8
# Each is twice the one before, so that growth can be read off; the last is there for that alone.
LENGTHS = tuple(2**power for power in range(7, 16))

# A band that is visible in a sentence; the default radius is longer than the sentence.
PICTURE_OPTIONS: dict[str, dict[str, Any]] = {
    "window": {"radius": 2},
    "taylor_window": {"radius": 2},
}


def survey(
    *,
    only: Iterable[str] = (),
    sentence: str = DEFAULT_SENTENCE,
    seed: int = 0,
    begin: Callable[[str], None] = lambda _: None,
    done: Callable[[MechanismRecord], None] = lambda _: None,
) -> Survey:
    """The records of every mechanism of the table, or of those named, in the table's order.

    `begin` is called with each name before, and `done` with each record after it is made.
    """
    wanted = set(only)
    for name in wanted:
        look_up("mechanism", name, MECHANISMS)
    tokens = tokenise(sentence)
    records = []
    for name in MECHANISMS:
        if wanted and name not in wanted:
            continue
        begin(name)
        records.append(survey_mechanism(name, tokens=tokens, seed=seed))
        done(records[-1])
    return Survey(
        version=__version__,
        seed=seed,
        tokens=tokens,
        num_heads=NUM_HEADS,
        mechanisms=tuple(records),
    )


def survey_mechanism(name: str, *, tokens: tuple[str, ...], seed: int = 0) -> MechanismRecord:
    """All there is to know about one mechanism of the table."""
    entry = look_up("mechanism", name, MECHANISMS)
    options = PICTURE_OPTIONS.get(name, {})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        mechanism = build_mechanism(
            name,
            query_dim=TOKEN_DIM,
            key_dim=TOKEN_DIM,
            max_length=len(tokens),
            **options,
        ).eval()
        weights = token_weights(mechanism, token_vectors(tokens))
    promised = mechanism.capabilities
    width = MECHANISMS[name].head_dim
    (subject,) = find_subjects(name)
    checks = check_subject(subject, seed=seed).records
    return MechanismRecord(
        name=name,
        family=entry.family,
        summary=entry.summary,
        reference=entry.reference,
        capabilities=capability_phrases(promised),
        causal=promised.requires_causal,
        signed=not promised.nonnegative,
        weights_options=", ".join(f"{option}={value}" for option, value in options.items()),
        weights=tuple(tuple(round(weight, 6) for weight in row) for row in weights.tolist()),
        checks=tuple(
            CheckRecord(
                name=check.check,
                demands=CHECKS[check.check].demands,
                outcome=check.outcome,
                detail=check.detail,
            )
            for check in checks
        ),
        cost_width=width,
        costs=tuple(price(name, length=length, width=width) for length in LENGTHS),
    )


def tokenise(sentence: str) -> tuple[str, ...]:
    """The words of a sentence, split at white space."""
    tokens = tuple(sentence.split())
    if not 1 <= len(tokens) <= MAX_TOKENS:
        raise RegardError(
            f"The sentence has {len(tokens)} words; a picture shows 1 to {MAX_TOKENS}. "
            f"{'Shorten it' if tokens else 'Give it some'}."
        )
    for token in tokens:
        if len(token) > MAX_TOKEN_LETTERS:
            raise RegardError(
                f"The word '{token[:MAX_TOKEN_LETTERS]}…' has {len(token)} letters; a picture "
                f"shows words of up to {MAX_TOKEN_LETTERS}. Shorten it, or put spaces into it."
            )
    return tokens


def token_vectors(tokens: Iterable[str]) -> Float[Tensor, "length token_dim"]:
    """A vector a token, `TOKEN_LENGTH` long: the sum of fixed random vectors of its n-grams."""
    sums = []
    for token in tokens:
        marked = f"<{token.casefold()}>"
        grams = [marked] + [
            marked[start : start + size]
            for size in NGRAM_SIZES
            for start in range(len(marked) - size + 1)
        ]
        sums.append(torch.stack([_gram_vector(gram) for gram in grams]).sum(dim=0))
    return functional.normalize(torch.stack(sums), dim=-1) * TOKEN_LENGTH


def _gram_vector(gram: str) -> Float[Tensor, " token_dim"]:
    # Python's own hash differs from process to process.
    digest = hashlib.blake2b(gram.encode(), digest_size=7).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest))
    return torch.randn(TOKEN_DIM, generator=generator)


@torch.no_grad()
def token_weights(
    mechanism: Mechanism, vectors: Float[Tensor, "length width"]
) -> Float[Tensor, "length length"]:
    """Who reads whom where the vectors are queries and keys, in a single head.

    Extras are computed from the vectors as the multi-head layer computes them from its input.
    """
    project = ExtraProjections(
        extras=mechanism.extras,
        context_dim=vectors.shape[-1],
        num_kv_heads=1,
        key_dim=vectors.shape[-1],
    )
    mask = Causal() if mechanism.capabilities.requires_causal else NO_MASK
    tensors = vectors[None, None]
    return mechanism.weights(tensors, tensors, mask, **project(vectors[None]))[0, 0]


def price(name: str, *, length: int, width: int) -> CostRecord:
    """The declared cost of causal self-attention in `NUM_HEADS` heads of this width.

    Mechanisms of bounded length are built just long enough.
    """
    # Costs follow from sizes alone; tables of position pairs need not really be allocated for it.
    bounded = build_mechanism(name, query_dim=1, key_dim=1, max_length=1).capabilities.max_length
    with torch.device("meta" if bounded else "cpu"):
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


def capability_phrases(promised: Capabilities) -> tuple[str, ...]:
    """What a mechanism promises, in words."""
    phrases = [
        f"{' and '.join(sorted(promised.roles, reverse=True))} attention",
        "reads the past only" if promised.requires_causal else "with or without a causal mask",
        f"masks: {', '.join(sorted(promised.masks)) or 'none'}",
        "rows sum to one" if promised.rows_sum_to_one else "rows need not sum to one",
        "weights are never negative" if promised.nonnegative else "weights may be negative",
        "takes the order of tokens into account" if promised.position_aware else "blind to order",
    ]
    if promised.max_length is not None:
        phrases.append("for a fixed greatest length")
    if promised.score_bias:
        phrases.append("takes a score bias such as ALiBi")
    return tuple(phrases)
