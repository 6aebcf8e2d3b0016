"""Statements about attention that can be run, by topic, each with a verdict.

    from regard.claims import get_claim

    record = get_claim("self-attention-is-permutation-equivariant").run(causal=True)
    print(record.finding.verdict)

`TOPICS` maps each topic to its module. Listing the topics imports neither these modules nor torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports
from regard.core.registry import lookup

if TYPE_CHECKING:
    from regard.claims.engine import (
        Claim as Claim,
        claim as claim,
        run_claims as run_claims,
        run_with_settings as run_with_settings,
    )
    from regard.core.records.claim import (
        ClaimRecord as ClaimRecord,
        Curve as Curve,
        CurveFigure as CurveFigure,
        Finding as Finding,
        MatrixFigure as MatrixFigure,
        read_records as read_records,
        records_as_json as records_as_json,
    )

__all__, __getattr__, __dir__ = lazy_exports(__name__)
__all__ += ["TOPICS", "all_claims", "get_claim", "list_claims"]

# topic → module, in the order in which topics are run and shown
TOPICS: dict[str, str] = {
    module.replace("_", " "): module
    for module in (
        "penalties",
        "layer_costs",
        "positions",
        "masking",
        "architectures",
        "kernel_features",
        "kernel_costs",
        "selection",
        "hierarchy",
        "autoencoders",
        "decoders",
        "limits",
        "closed_book_qa",
    )
}


def list_claims(topic: str) -> list[Claim]:
    """The claims of one topic, in the order of its file."""
    from regard.claims.engine import Claim

    lookup("topic", topic, TOPICS)
    module = importlib.import_module(f"{__name__}.{TOPICS[topic]}")
    return [value for value in vars(module).values() if isinstance(value, Claim)]


def all_claims() -> dict[str, Claim]:
    """Every claim by its name."""
    return {claim.name: claim for topic in TOPICS for claim in list_claims(topic)}


def get_claim(name: str) -> Claim:
    """The claim with this name."""
    known = all_claims()
    lookup("claim", name, known)
    return known[name]
