"""What each arm of a study sets, option by option."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from regard.core.study_record import StudyRecord
from regard.views.markup import Markup, element
from regard.views.study_arms import arm_label


def settings_table(record: StudyRecord) -> Markup:
    """What each arm sets, an option a column."""
    by_arm = {arm.name: flat_settings(arm.settings) for arm in record.arms}
    names = list(dict.fromkeys(name for settings in by_arm.values() for name in settings))
    if not names:
        return Markup("")
    rows = [
        element(
            "tr",
            element("th", arm_label(record, arm), scope="row"),
            *(element("td", settings.get(name, "")) for name in names),
        )
        for arm, settings in by_arm.items()
    ]
    heads = [element("th", text, scope="col") for text in ("arm", *names)]
    table = element(
        "table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="plain"
    )
    return element(
        "div", table, class_="scroll", tabindex="0", role="region", aria_label="Settings"
    )


def flat_settings(settings: Mapping[str, Any], *, before: str = "") -> dict[str, str]:
    """Options by their whole names, values as text.

    >>> flat_settings({"model": {"mechanism": "dot", "heads": 4}, "seed": None})
    {'model.mechanism': 'dot', 'model.heads': '4', 'seed': 'null'}
    """
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat_settings(value, before=f"{before}{name}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            found[f"{before}{name}"] = text
    return found
