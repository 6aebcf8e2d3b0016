"""The pairs of a study for one of its two questions: in words and figures, and all at once as a matrix.

With many arms the pairs with the baseline are shown, and the others opened on demand.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.core.study_record import PairVerdict, StudyRecord
from regard.views.chart_scale import Scale
from regard.views.dot_row import HEIGHT, dot_row, grid_lines, row_picture, shared_scale, tick_row
from regard.views.markup import Markup, element, joined
from regard.views.pair_matrix import pair_matrix
from regard.views.study_arms import (
    baseline_of,
    counted,
    interval_text,
    p_text,
    score_decimals,
    score_text,
)
from regard.views.verdict_mark import NO_CLAIM, Question, sign_of, verdict_class

# As many pairs are read at a glance; four arms make six.
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
