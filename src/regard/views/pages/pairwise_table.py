"""All pairs of a study at once, for one of its two questions: who is better than whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from regard.core.records.study import PairVerdict, StudyRecord
from regard.views.charts.axes import Scale
from regard.views.charts.intervals import (
    HEIGHT,
    dot_row,
    grid_lines,
    row_picture,
    shared_scale,
    tick_row,
)
from regard.views.charts.variants import (
    baseline_of,
    counted,
    interval_text,
    p_text,
    score_decimals,
    score_text,
    scored,
    shortened_name,
    variant_label,
)
from regard.views.pages.html import Markup, element, joined

# Verdicts as a sign with its words: never a colour or a sign alone.


Question = Literal["method", "models"]
"""What a verdict is about: the method over seeds, or these models on other items."""

NO_CLAIM = "these runs only"
SIGNS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "better": ("▲", "better"),
        "worse": ("▼", "worse"),
        "cannot tell apart": ("≈", "apart"),
        NO_CLAIM: ("·", "only"),
    }
)
OPPOSITE = MappingProxyType({"better": "worse", "worse": "better"})


def sign_of(verdict: str) -> str:
    """The sign of a verdict."""
    return SIGNS.get(verdict, ("?", ""))[0]


def verdict_class(verdict: str) -> str:
    """The class that colours it."""
    return f"verdict verdict-{SIGNS.get(verdict, ('?', 'only'))[1]}"


def verdict_mark(verdict: str | None) -> Markup:
    """The sign and the words; a dash where the two were not compared."""
    if verdict is None:
        return element("span", "–")
    return element(
        "span",
        element("span", sign_of(verdict), aria_hidden="true"),
        f" {verdict}",
        class_=verdict_class(verdict),
    )


def verdict_between(
    record: StudyRecord, first: str, second: str, *, holds_for: Question
) -> tuple[str, PairVerdict] | None:
    """What is said of the first variant beside the second, whichever way the pair is kept."""
    for pair in record.verdicts:
        if pair.holds_for != holds_for:
            continue
        if (pair.first, pair.second) == (first, second):
            return pair.verdict, pair
        if (pair.first, pair.second) == (second, first):
            return OPPOSITE.get(pair.verdict, pair.verdict), pair
    return None


def verdict_against(record: StudyRecord, name: str) -> str | None:
    """The verdict on a variant beside the baseline, of the method over seeds."""
    baseline = baseline_of(record)
    if baseline is None:
        return None
    found = verdict_between(record, name, baseline.name, holds_for="method")
    return found[0] if found else None


LONGEST_HEADING = 26


def pair_matrix(record: StudyRecord, *, holds_for: Question) -> Markup:
    """A row and a column a variant, the best first; a sign in each cell, and its words for whoever asks."""
    variants = [variant.name for variant in scored(record)]
    heads = [
        element(
            "th", element("span", shortened_name(name, LONGEST_HEADING), title=name), scope="col"
        )
        for name in variants
    ]
    rows = []
    for first in variants:
        cells = [_cell(record, first, second, holds_for=holds_for) for second in variants]
        rows.append(element("tr", element("th", variant_label(record, first), scope="row"), *cells))
    keys = {"better": "▲ better", "worse": "▼ worse", "cannot tell apart": "≈ cannot tell apart"}
    legend = [
        element("span", text, class_=verdict_class(verdict)) for verdict, text in keys.items()
    ]
    words = element(
        "p",
        "Each row’s variant beside each column’s: ",
        *_spaced(legend),
        ".",
        class_="hint matrix-key",
    )
    table = element(
        "table",
        element("thead", element("tr", element("td", "row is …"), *heads)),
        element("tbody", *rows),
        class_="matrix verdicts",
    )
    scrolled = element(
        "div", table, class_="scroll", tabindex="0", role="region", aria_label="All pairs"
    )
    return joined(words, scrolled)


def _spaced(parts: Sequence[Markup]) -> list[str]:
    return [piece for part in parts for piece in (part, ", ")][:-1]


def _cell(record: StudyRecord, first: str, second: str, *, holds_for: Question) -> Markup:
    if first == second:
        return element("td", class_="same")
    found = verdict_between(record, first, second, holds_for=holds_for)
    if found is None:
        return element("td", element("span", "not compared", class_="unseen-text"))
    verdict, pair = found
    said = f"{first} beside {second}: {verdict}"
    decimals = score_decimals(record)
    way = 1 if pair.first == first else -1
    difference = score_text(way * pair.difference, decimals=decimals, signed=True)
    return element(
        "td",
        element("span", sign_of(verdict), aria_hidden="true"),
        element("span", said, class_="unseen-text"),
        class_=verdict_class(verdict),
        title=f"{said}, difference {difference}, p {p_text(pair.adjusted_p)}",
    )


# The pairs of a study for one of its two questions: in words and figures, and all at once as a
# matrix.
#
# With many variants the pairs with the baseline are shown, and the others opened on demand.


# As many pairs are read at a glance; four variants make six.
FEW_PAIRS = 6
AXIS_HEIGHT = 26.0


def pair_tables(record: StudyRecord, *, holds_for: Question) -> Markup:
    """Everything that was found for one question; nothing where no pair was compared."""
    pairs = [pair for pair in record.verdicts if pair.holds_for == holds_for]
    if not pairs:
        return Markup("")
    scale = _scale(pairs)
    if len(pairs) <= FEW_PAIRS:
        return _table(record, pairs, scale, caption="")
    baseline = baseline_of(record)
    name = baseline.name if baseline else ""
    shown = [pair for pair in pairs if name in (pair.first, pair.second)]
    others = [pair for pair in pairs if name not in (pair.first, pair.second)]
    parts = []
    if shown:
        parts.append(_table(record, shown, scale, caption=f"Pairs with the baseline, {name}"))
    if {pair.verdict for pair in pairs} != {NO_CLAIM}:
        parts.append(pair_matrix(record, holds_for=holds_for))
    if others:
        rest = "other " if shown else ""
        parts.append(
            element(
                "details",
                element("summary", f"The {rest}{counted(len(others), 'pair')} in figures"),
                _table(record, others, scale, caption=""),
            )
        )
    return joined(*parts)


def _scale(pairs: Sequence[PairVerdict]) -> Scale | None:
    return shared_scale(
        [0.0, *(pair.difference for pair in pairs)], [(pair.low, pair.high) for pair in pairs]
    )


def _table(
    record: StudyRecord, pairs: Sequence[PairVerdict], scale: Scale | None, *, caption: str
) -> Markup:
    with_detectable = any(pair.detectable is not None for pair in pairs)
    left, right = "first is better", "second is better"
    if not record.lower_is_better:
        left, right = right, left
    axis = element(
        "span",
        element("span", f"← {left}"),
        element("span", f"{right} →"),
        class_="axis-name two-ends",
    )
    if scale is not None:
        axis = joined(axis, row_picture(tick_row(scale, below=AXIS_HEIGHT - 6), height=AXIS_HEIGHT))
    headings = [
        element("th", "verdict", scope="col"),
        element("th", axis, scope="col", class_="drawn-cell"),
        element("th", "difference", scope="col", title="the first’s score minus the second’s"),
        element("th", "p", scope="col", title="adjusted by Holm for all pairs of this question"),
    ]
    if with_detectable:
        meaning = "the smallest difference that would probably have been found"
        headings.append(element("th", "detectable", scope="col", title=meaning))
    return element(
        "table",
        element("caption", caption) if caption else Markup(""),
        element("thead", element("tr", *headings)),
        element(
            "tbody",
            *(_row(record, pair, scale, with_detectable=with_detectable) for pair in pairs),
        ),
        class_="cards pairs",
    )


def _row(
    record: StudyRecord, pair: PairVerdict, scale: Scale | None, *, with_detectable: bool
) -> Markup:
    decimals = score_decimals(record)
    difference = score_text(pair.difference, decimals=decimals, signed=True)
    within = interval_text(pair.low, pair.high, decimals=decimals, signed=True)
    # Beside so few seeds a small p would be read as the claim that they cannot bear.
    p = "–" if pair.verdict == NO_CLAIM else p_text(pair.adjusted_p)
    words = element(
        "th",
        element("span", sign_of(pair.verdict), aria_hidden="true", class_="sign"),
        element("span", pair.words),
        scope="row",
        class_=verdict_class(pair.verdict),
    )
    drawn = Markup("")
    if scale is not None:
        drawn = row_picture(
            _unseen(pair, scale),
            grid_lines(scale, top=0.0, bottom=HEIGHT, at=0.0),
            dot_row(
                scale,
                middle=HEIGHT / 2,
                mean=None,
                low=pair.low,
                high=pair.high,
                dots=[(f"{pair.first} minus {pair.second}: {difference}", pair.difference)],
            ),
            aria_label=f"difference {difference}" + (f", 95 % interval {within}" if within else ""),
        )
    cells = [
        element("td", drawn, class_="drawn-cell"),
        element(
            "td",
            element("b", difference),
            " ",
            element("small", within or "no interval"),
            data_label="difference",
        ),
        element("td", p, data_label="p (Holm)"),
    ]
    if with_detectable:
        text = "–" if pair.detectable is None else score_text(pair.detectable, decimals=decimals)
        cells.append(element("td", text, data_label="detectable"))
    return element("tr", words, *cells)


def _unseen(pair: PairVerdict, scale: Scale) -> Markup:
    """The band around zero in which a true difference would probably have been missed."""
    if pair.detectable is None or pair.verdict == NO_CLAIM:
        return Markup("")
    left, right = (scale.place(scale.held(side * pair.detectable)) for side in (-1, 1))
    return element("rect", class_="unseen", x=left, y=3, width=right - left, height=HEIGHT - 6)
