"""Statements about attention that can be run, by topic.

Every claim of a topic's file belongs to it, in the order of the file. The table holds strings, so that
listing the topics imports neither them nor torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from regard.core.registry import look_up

if TYPE_CHECKING:
    from regard.claims.engine import Claim

# topic → its module, in the order in which they are shown
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


def claims_of(topic: str) -> list[Claim]:
    """The claims of one topic."""
    from regard.claims.engine import Claim

    look_up("topic", topic, TOPICS)
    module = importlib.import_module(f"{__name__}.{TOPICS[topic]}")
    return [value for value in vars(module).values() if isinstance(value, Claim)]


def all_claims() -> dict[str, Claim]:
    """Every claim by its name."""
    return {claim.name: claim for topic in TOPICS for claim in claims_of(topic)}


def find_claim(name: str) -> Claim:
    """The claim of this name."""
    known = all_claims()
    look_up("claim", name, known)
    return known[name]
