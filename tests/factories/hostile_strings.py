"""Strings that break out of markup, scripts, templates, terminals and layouts, and records full of them."""

from __future__ import annotations

import dataclasses
import typing
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from regard.core.records.claim import ClaimRecord
from regard.core.records.cost import CostReport
from regard.core.records.image import FeatureMaps, ImageRecord
from regard.core.records.look import LayerMaps
from regard.core.records.sound import SoundRecord
from regard.core.records.study import PairVerdict

# A payload that runs sets this; see tests/browser.
RUNS = "window.__pwned=1"

STRINGS = {
    "script": f"<script>{RUNS}</script>",
    "closed script": f"</script><script>{RUNS}</script>",
    "closed style": f"</style><script>{RUNS}</script>",
    "closed title": f"</title></textarea></noscript><script>{RUNS}</script>",
    "double quote": f'" onload="{RUNS}" x="',
    "single quote": f"' onmouseover='{RUNS}' autofocus onfocus='{RUNS}",
    "no quote": f" onclick={RUNS} tabindex=0 ",
    "closed tag": f'"><img src=x onerror="{RUNS}">',
    "comment": f"<!--><script>{RUNS}</script><!-- --!>",
    "cdata": f"]]><script>{RUNS}</script><![CDATA[",
    "url": f"javascript:{RUNS}//",
    "data url": f"data:text/html,<script>parent.{RUNS}</script>",
    "svg": f"</svg></text><svg/onload={RUNS}><animate onbegin={RUNS} attributeName=x>",
    "frame": f"<iframe srcdoc='<script>top.{RUNS}</script>'></iframe><base href=//x.y/>",
    "entities": f"&#60;script&#62;{RUNS}&lt;/script&gt;&quot;&amp;&nbsp;&notit;",
    "template": "{{7*7}}{% raw %}{% endraw %}{# x #}${7*7}<%= 7*7 %>",
    "script text": f"\\u003cscript\\u003e';{RUNS};//`${{{RUNS}}}`\\",
    "style text": "};body{display:none}*{background:url(//x.y)}/*",
    "style value": "red;display:none;--x:expression(1)",
    "control": "".join(map(chr, [*range(9), 11, 12, *range(14, 32), *range(127, 160)])),
    "escape sequence": "\x1b[31m\x1b]0;title\x07\x9b31m",
    "reordered": "\u202egnp.exe\u2066\u200f\u061c",
    "invisible": "\u200b\u200d\u2060\ufeff\u00ad\U000e0041",
    "combining": "e" + "\u0301\u0336\u20dd" * 60,
    "long word": "W" * 10_000,
    "spaces": "\n\t\r\n \u00a0\u2028\u2029 .",
    "surrogate": "\ud800 \udfff\ud83d",
    "astral": "日本語 \U0001f469\u200d\U0001f680 ﷽ \U0010ffff \ufffe İıß",
    "formula": '=HYPERLINK("//x.y";"=1+1")\'@-+',
    "path": "../../etc/passwd%00%2e%2e%2f%3Cscript%3E\\..\\" + "9" * 400,
}
assert len(STRINGS) == 30

# Fields whose values are words of regard, or keys that pages look up.
VOCABULARY = {
    (PairVerdict, "verdict"),
    (CostReport, "machine"),
    (CostReport, "mode"),
    (SoundRecord, "spectrogram"),
    (ImageRecord, "pixels"),
    (FeatureMaps, "levels"),
    *((LayerMaps, name) for name in ("tiles", "exact_values", "top_indices", "top_values")),
}


def harmless(text: str) -> str:
    """A string of the same length with words of the same length, of letters only."""
    return "".join(" " if char.isspace() else "x" for char in text)


def with_string(record: Any, text: str) -> Any:
    """The record with `text` on both sides of every string in it, keys of mappings included.

    Strings that were equal or empty remain so; words of regard are not changed.
    """
    return _changed(record, lambda found: f"{text}{found}{text}" if found else found)


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case Mapping():
            return {_changed(key, change): _changed(item, change) for key, item in value.items()}
        case tuple() | list():
            return tuple(_changed(item, change) for item in value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {
                name: _changed(getattr(value, name), _for_field(type(value), name, change))
                for name in _open_fields(type(value))
            }
            return dataclasses.replace(value, **fields)
    return value


@cache
def _open_fields(kind: type) -> tuple[str, ...]:
    """The fields that may have any string."""
    hints = get_type_hints(kind)
    return tuple(
        field.name
        for field in dataclasses.fields(kind)
        if (kind, field.name) not in VOCABULARY and not _is_literal(hints[field.name])
    )


def _is_literal(hint: Any) -> bool:
    if get_origin(hint) in (typing.Annotated, typing.Union):
        return any(map(_is_literal, get_args(hint)))
    return get_origin(hint) is Literal


def _for_field(kind: type, name: str, change: Callable[[str], str]) -> Callable[[str], str]:
    if (kind, name) != (ClaimRecord, "name"):
        return change
    # Names of claims have no spaces and no control characters; the record validates it.
    return lambda text: "".join(
        char for char in change(text) if unicodedata.category(char)[0] not in "CZ"
    )
