"""Every attention mechanism, one a file, and the table that names them.

The table holds strings, so listing the mechanisms imports neither them nor torch.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.core.errors import RegardError
from regard.core.registry import construct, unknown_name

if TYPE_CHECKING:
    from regard.core.mechanism import Mechanism


@dataclass(frozen=True)
class Entry:
    """Where a mechanism lives and what it is, in one line each.

    `head_dim` is a width of head it is used with: those whose features multiply with the width are
    used on narrow heads.
    """

    module: str
    class_name: str
    family: str
    summary: str
    reference: str
    head_dim: int = 64


MECHANISMS: dict[str, Entry] = {
    "dot": Entry(
        "scores.dot_product", "DotAttention", "score", "softmax of q·k", "Luong et al. 2015"
    ),
    "scaled_dot": Entry(
        "scores.dot_product",
        "ScaledDotAttention",
        "score",
        "softmax of q·k/√d",
        "Vaswani et al. 2017",
    ),
    "general": Entry(
        "scores.dot_product",
        "GeneralAttention",
        "score",
        "softmax of qᵀWk (bilinear)",
        "Luong et al. 2015",
    ),
    "additive": Entry(
        "scores.additive",
        "AdditiveAttention",
        "score",
        "softmax of vᵀtanh(W_q q + W_k k)",
        "Bahdanau et al. 2015",
    ),
    "location": Entry(
        "scores.synthesizer",
        "LocationAttention",
        "score",
        "softmax of Wq, keys unseen",
        "Luong et al. 2015",
    ),
    "window": Entry(
        "scores.dot_product",
        "WindowAttention",
        "score",
        "scaled dot over keys at most r away, linear cost",
        "Beltagy et al. 2020",
    ),
    "synthesizer_dense": Entry(
        "scores.synthesizer",
        "DenseSynthesizer",
        "synthesizer",
        "weights from a two-layer network on the query",
        "Tay et al. 2021",
    ),
    "synthesizer_random": Entry(
        "scores.synthesizer",
        "RandomSynthesizer",
        "synthesizer",
        "learned weights for every pair of positions",
        "Tay et al. 2021",
    ),
    "synthesizer_factorised": Entry(
        "scores.synthesizer",
        "FactorisedSynthesizer",
        "synthesizer",
        "position weights as a product of two thin matrices",
        "Tay et al. 2021",
    ),
    "elu": Entry(
        "kernels.elu", "EluAttention", "kernel", "φ(x) = elu(x) + 1", "Katharopoulos et al. 2020"
    ),
    "taylor": Entry(
        "kernels.power_series",
        "TaylorAttention",
        "kernel",
        "exp(q·k) to K terms of its Taylor series",
        "Keles et al. 2023; Arora et al. 2024",
        head_dim=16,
    ),
    "polynomial": Entry(
        "kernels.power_series",
        "PolynomialAttention",
        "kernel",
        "(q·k + c)^p",
        "Tsai et al. 2019",
        head_dim=16,
    ),
    "random_features": Entry(
        "kernels.random_features",
        "RandomFeatureAttention",
        "kernel",
        "positive random features of exp(q·k)",
        "Choromanski et al. 2021",
    ),
    "retention": Entry(
        "recurrences.decay",
        "RetentionAttention",
        "recurrence",
        "linear attention with a fixed decay a head",
        "Sun et al. 2023",
    ),
    "gated": Entry(
        "recurrences.decay",
        "GatedAttention",
        "recurrence",
        "linear attention with a learned decay a key channel",
        "Yang et al. 2024a (GLA)",
    ),
    "delta": Entry(
        "recurrences.delta",
        "DeltaAttention",
        "recurrence",
        "linear attention that overwrites instead of adding",
        "Schlag et al. 2021; Yang et al. 2024b",
    ),
    "taylor_window": Entry(
        "kernels.taylor_window",
        "TaylorWindowAttention",
        "hybrid",
        "exact softmax near, Taylor series far, one denominator",
        "Arora et al. 2024; Zhang et al. 2024",
        head_dim=16,
    ),
}


# Mechanisms of a user's own, by name; filled by `plug_in` alone, never by an import.
_PLUGGED_IN: dict[str, type[Mechanism]] = {}


def plug_in(kind: type[Mechanism]) -> str:
    """Let a mechanism of one's own be named, in this process, as those of the table; returns its name."""
    name = kind.__name__
    if name in MECHANISMS:
        raise RegardError(
            f"A mechanism called '{name}' is in the table already. Give the class another name."
        )
    _PLUGGED_IN[name] = kind
    return name


def is_plugged_in(name: str) -> bool:
    """Whether a name is that of a user's own mechanism."""
    return name in _PLUGGED_IN


def mechanism_class(name: str) -> type[Mechanism]:
    """The class behind a name of the table, or of a mechanism that was plugged in."""
    if name in _PLUGGED_IN:
        return _PLUGGED_IN[name]
    if name not in MECHANISMS:
        unknown = unknown_name("mechanism", name, [*MECHANISMS, *_PLUGGED_IN])
        raise RegardError(f"{unknown} One of your own is made known with --plugin FILE.py:CLASS.")
    entry = MECHANISMS[name]
    module = importlib.import_module(f"{__name__}.{entry.module}")
    found: type[Mechanism] = getattr(module, entry.class_name)
    return found


def build_mechanism(
    name: str,
    *,
    query_dim: int,
    key_dim: int,
    num_heads: int = 1,
    max_length: int | None = None,
    **options: Any,
) -> Mechanism:
    """A mechanism by name. Sizes go to those that need them; options must be its own.

    >>> build_mechanism("taylor", query_dim=16, key_dim=16, num_terms=3)  # doctest: +SKIP
    """
    sizes = {
        "query_dim": query_dim,
        "key_dim": key_dim,
        "num_heads": num_heads,
        "max_length": max_length,
    }
    kind = mechanism_class(name)
    return construct(kind, what=f"mechanism '{name}'", sizes=sizes, options=options)
