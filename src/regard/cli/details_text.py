"""What a record tells of a classifier beside its scores, in lines for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def details_lines(details: dict[str, Any]) -> Iterator[str]:
    """Which labels are mixed up, how far its certainty can be believed, and the deletion test."""
    import numpy as np

    from regard.core.deletion_record import DeletionRecord
    from regard.tasks.calibration import Calibration, ReliabilityBin
    from regard.tasks.confusion import Confusion
    from regard.views.deletion_text import deletion_sentence, deletion_verdict

    if found := details.get("confusion"):
        counts = np.array(found["counts"], dtype=np.int64)
        yield ""
        yield Confusion(labels=tuple(found["labels"]), counts=counts).table()
    if found := details.get("calibration"):
        bins = tuple(ReliabilityBin(**each) for each in found["bins"])
        yield ""
        yield f"calibration: {Calibration(**{**found, 'bins': bins}).describe()}"
    if found := details.get("deletion"):
        record = DeletionRecord.from_plain(found)
        yield ""
        yield f"deletion: {deletion_sentence(record)} {deletion_verdict(record)}"
