"""Renders pages from the Jinja2 templates in `views/templates`: one offline HTML file each.

Everything a template writes is escaped, except charts, which are markup already. Style sheets and scripts
are files in `views/assets` that are inlined. `macros.html` has the parts that several pages share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import chain, count
from typing import Any

import jinja2
from markupsafe import Markup

from regard.core import formatting
from regard.views.charts.figure_file import asset

# Not text of a page: characters that HTML replaces or forbids, such as NUL and lone surrogates.
FORBIDDEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
# Marks on one letter beyond the eighth: a line cannot break within a letter.
MARK = r"[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
EXCESS_MARKS = re.compile(rf"((?:{MARK}){{8}})(?:{MARK})+")


@cache
def environment() -> jinja2.Environment:
    """The templates, with autoescape; an undefined name is an error."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("regard.views"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.do"],
    )
    found.filters |= {name: each for name, each in vars(formatting).items() if callable(each)}
    found.filters["anchor"] = anchor
    found.globals |= {"counted": formatting.counted, "asset": lambda name: Markup(asset(name))}
    return found


def render_page(template: str, **context: Any) -> str:
    """The page of a template; control characters are shown as escapes, letters have at most eight marks."""
    page = EXCESS_MARKS.sub(r"\1", environment().get_template(template).render(**context))
    return FORBIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), page)


def anchor(text: str) -> str:
    """A text as the id of an element: letters, digits and hyphens.

    >>> anchor("cost of a layer")
    'cost-of-a-layer'
    """
    return "-".join(re.findall(r"\w+", text)) or "section"


def unique_anchors(texts: Iterable[str]) -> list[str]:
    """The anchor of each text; of equal ones, the later have a number.

    >>> unique_anchors(["a b", "a-b"])
    ['a-b', 'a-b-2']
    """
    found: list[str] = []
    for text in texts:
        numbered = (f"{anchor(text)}-{number}" for number in count(2))
        found.append(next(name for name in chain([anchor(text)], numbered) if name not in found))
    return found
