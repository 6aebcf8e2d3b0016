"""Running many claims: one that cannot be decided here says why, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from regard.claims.claim import Claim
from regard.core.claim_record import ClaimRecord
from regard.core.errors import RegardError

TRAINS = "it trains models, which takes longer than the others together; add --trained"


def run_claims(
    claims: Iterable[Claim],
    *,
    trained: bool = False,
    begin: Callable[[Claim], None] = lambda _: None,
    done: Callable[[ClaimRecord], None] = lambda _: None,
) -> list[ClaimRecord]:
    """A record for every claim, in their order; of those that train only with `trained`.

    A claim that lacks something, such as a package or the records of a study, has a record without a
    finding that says what. A mistake of ours in a claim is an error as anywhere else.
    """
    records = []
    for claim in claims:
        begin(claim)
        record = _record(claim if trained or not claim.trained else _waiting(claim, TRAINS))
        records.append(record)
        done(record)
    return records


def _record(claim: Claim) -> ClaimRecord:
    try:
        return claim.run()
    except RegardError as error:
        return _waiting(claim, str(error)).run()


def _waiting(claim: Claim, reason: str) -> Claim:
    """The claim with what it waits for; what it waited for before is the better reason."""
    return replace(claim, waits=claim.waits or reason)
