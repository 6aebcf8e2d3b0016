"""Look page: the attention of a model on one input, or of two models side by side.

The records are JSON in the page, and its script draws them: hundreds of maps from packed bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from regard.core.errors import RegardError
from regard.core.formatting import printable, truncate
from regard.core.records.look import LookRecord
from regard.views.charts.faithfulness import deletion_curves, sufficiency_curves
from regard.views.charts.sound import audio_uri
from regard.views.pages.render import render_page

MAX_RECORDS, MAX_TITLE = 2, 90
# In a script element, and where `render_page` would change characters.
ESCAPED = re.compile(r"[^ -~]|[<>&]")


def look_page(
    records: Sequence[LookRecord], *, live: bool = False, models: Sequence[str] = ()
) -> str:
    """One record, or two beside each other with their difference, as self-contained HTML.

    A `live` page asks its server for other inputs and for changed attention, see `assets/look.js`, of the
    `models`, by default those of the records; it may start without a record.
    """
    if len(records) > MAX_RECORDS or not (records or live):
        raise RegardError(
            f"The page of {len(records)} records of attention cannot be drawn. Pass one, or two to compare."
        )
    title = truncate(printable(" ".join(records[0].title.split())), MAX_TITLE) if records else ""
    names = [record.model for record in records]
    return render_page(
        "look.html",
        records=records,
        live=live,
        title=title,
        names=names,
        faithfulness=[
            (record.model, curves, deletion_curves(curves), sufficiency_curves(curves))
            for record in records
            for curves in record.faithfulness
        ],
        data=_data(records, live=live, models=models or names),
    )


def _data(records: Sequence[LookRecord], *, live: bool, models: Sequence[str]) -> Markup:
    """What the script of the page reads, as JSON of ASCII characters."""
    fields: dict[str, Any] = {
        "live": live,
        "models": list(models),
        "chosen": [record.model for record in records] or list(models[:1]),
        "audio": [audio_uri(record.sound) if record.sound else "" for record in records],
    }
    written = ", ".join(record.as_json() for record in records)
    text = f'{json.dumps(fields, ensure_ascii=False)[:-1]}, "records": [{written}]}}'
    return Markup(ESCAPED.sub(_escape, text))


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
