"""Claims page: an index by topic, then every claim with its figure, values and code.

Claims that are known to be false are shown beside the correct ones. Verdicts have an icon and text,
never a colour alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from regard.core.records.claim import ClaimRecord
from regard.views.charts import claims as figures
from regard.views.pages.render import render_page, unique_anchors
from regard.views.text import claims as text

TILES = {"holds": "hold", "holds if": "hold if …", "fails": "fail"}


def claim_page(records: Sequence[ClaimRecord]) -> str:
    """All claims as self-contained HTML, in the given order."""
    counts = Counter(record.verdict for record in records)
    tiles = {each: TILES.get(each, each) for each in text.ICONS if counts[each]}
    names = [record.name for record in records]
    return render_page(
        "claims.html",
        records=records,
        numbers={"claims": len(records)}
        | {name: counts[verdict] for verdict, name in tiles.items()}
        | {"not as expected": len(text.unexpected(records))},
        verdicts={"": "all"} | {each: f"{text.ICONS[each]} {tiles[each]}" for each in tiles},
        topics=by_topic(records),
        groups=with_false_claims,
        anchors=dict(zip(names, unique_anchors(names), strict=True)),
        text=text,
        figures=figures,
    )


def by_topic(records: Sequence[ClaimRecord]) -> dict[str, list[ClaimRecord]]:
    """Records by topic, in order of appearance."""
    topics: dict[str, list[ClaimRecord]] = {}
    for record in records:
        topics.setdefault(record.topic, []).append(record)
    return topics


def with_false_claims(records: Sequence[ClaimRecord]) -> list[list[ClaimRecord]]:
    """Groups of a claim and the known-false ones that follow it, which are shown side by side."""
    groups: list[list[ClaimRecord]] = []
    for record in records:
        if record.known_false and groups:
            groups[-1].append(record)
        else:
            groups.append([record])
    return groups
