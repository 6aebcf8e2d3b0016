"""Attention mechanisms: softmax scores, kernels (linear attention), linear recurrences.

    from regard.mechanisms import MECHANISMS, build_mechanism

The table holds strings, so that listing the mechanisms imports neither them nor torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.core.exports import lazy_exports
from regard.core.registry import Registry, build_from_signature

if TYPE_CHECKING:
    from regard.core.mechanism import (
        Capabilities as Capabilities,
        Gate as Gate,
        Mechanism as Mechanism,
        Step as Step,
    )
    from regard.mechanisms.kernels.elu import EluAttention as EluAttention
    from regard.mechanisms.kernels.linear_attention import (
        FeatureKernel as FeatureKernel,
        KernelMechanism as KernelMechanism,
    )
    from regard.mechanisms.kernels.power_series import (
        PolynomialAttention as PolynomialAttention,
        TaylorAttention as TaylorAttention,
    )
    from regard.mechanisms.kernels.random_features import (
        RandomFeatureAttention as RandomFeatureAttention,
    )
    from regard.mechanisms.kernels.taylor_window import (
        TaylorWindowAttention as TaylorWindowAttention,
    )
    from regard.mechanisms.recurrences.decay import (
        GatedAttention as GatedAttention,
        RetentionAttention as RetentionAttention,
    )
    from regard.mechanisms.recurrences.delta import DeltaAttention as DeltaAttention
    from regard.mechanisms.recurrences.recurrence import RecurrentMechanism as RecurrentMechanism
    from regard.mechanisms.scores.additive import AdditiveAttention as AdditiveAttention
    from regard.mechanisms.scores.dot_product import (
        DotAttention as DotAttention,
        GeneralAttention as GeneralAttention,
        ScaledDotAttention as ScaledDotAttention,
        WindowAttention as WindowAttention,
    )
    from regard.mechanisms.scores.kv_cache import KVCache as KVCache
    from regard.mechanisms.scores.softmax import ScoredMechanism as ScoredMechanism
    from regard.mechanisms.scores.synthesizer import (
        DenseSynthesizer as DenseSynthesizer,
        FactorisedSynthesizer as FactorisedSynthesizer,
        LocationAttention as LocationAttention,
        RandomSynthesizer as RandomSynthesizer,
    )

__all__, __getattr__, __dir__ = lazy_exports(__name__)


@dataclass(frozen=True)
class Entry:
    """Module, class and one-line description of a mechanism.

    `head_dim` is a typical head width; mechanisms whose features grow quickly with it use narrow heads.
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
        "softmax of Wq, independent of the keys",
        "Luong et al. 2015",
    ),
    "window": Entry(
        "scores.dot_product",
        "WindowAttention",
        "score",
        "scaled dot over keys at most r positions away, linear cost",
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
        "position weights as a product of two low-rank matrices",
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
        "linear attention with a fixed decay per head",
        "Sun et al. 2023",
    ),
    "gated": Entry(
        "recurrences.decay",
        "GatedAttention",
        "recurrence",
        "linear attention with a learned decay per key channel",
        "Yang et al. 2024a (GLA)",
    ),
    "delta": Entry(
        "recurrences.delta",
        "DeltaAttention",
        "recurrence",
        "linear attention with the delta rule: writes replace instead of add",
        "Schlag et al. 2021; Yang et al. 2024b",
    ),
    "taylor_window": Entry(
        "kernels.taylor_window",
        "TaylorWindowAttention",
        "hybrid",
        "softmax in a window, Taylor series beyond it, one denominator",
        "Arora et al. 2024; Zhang et al. 2024",
        head_dim=16,
    ),
}


def _is_mechanism(kind: type) -> bool:
    from regard.core.mechanism import Mechanism

    return issubclass(kind, Mechanism)


REGISTRY: Registry[Mechanism] = Registry("mechanism", MECHANISMS, __name__, _is_mechanism)


def is_plugin(name: str) -> bool:
    """Whether a name is that of a user's mechanism."""
    return name in REGISTRY.plugins


def mechanism_class(name: str) -> type[Mechanism]:
    """The class of a built-in mechanism or a plug-in, by name."""
    return REGISTRY.load(name)


def build_mechanism(
    name: str,
    *,
    query_dim: int,
    key_dim: int,
    num_heads: int = 1,
    max_length: int | None = None,
    **options: Any,
) -> Mechanism:
    """Build a mechanism by name. It gets the sizes it accepts; an unknown option is an error.

    >>> build_mechanism("taylor", query_dim=16, key_dim=16, num_terms=3)  # doctest: +SKIP
    """
    sizes = {
        "query_dim": query_dim,
        "key_dim": key_dim,
        "num_heads": num_heads,
        "max_length": max_length,
    }
    kind = mechanism_class(name)
    return build_from_signature(kind, what=f"mechanism '{name}'", sizes=sizes, options=options)
