"""Which part of the data a pair belongs to: train, dev or test.

The part follows from a hash of the source text alone. So all pairs with the same source are in
the same part, and a pair keeps its part when the file grows, is sorted, or is read elsewhere.
"""

from __future__ import annotations

import hashlib
from typing import Literal

from regard.core.errors import RegardError

Part = Literal["train", "dev", "test"]


def part_of(source: str, *, salt: str = "regard", dev: float = 0.05, test: float = 0.05) -> Part:
    """The part of a source; about `dev` and `test` of all sources are held out.

    Another `salt` gives another split. A larger `dev` moves sources from train to dev only, since test
    is taken from the other end.
    """
    if not (min(dev, test) >= 0 and dev + test < 1):
        raise RegardError(
            f"dev={dev}, test={test}: fractions are at least 0, and together leave some for train. "
            "Use such as dev=0.05, test=0.05."
        )
    digest = hashlib.blake2b(f"{salt}\0{source}".encode(), digest_size=8).digest()
    place = int.from_bytes(digest, "big") / 2**64
    if place < dev:
        return "dev"
    return "test" if place >= 1 - test else "train"
