"""The charts of quality against each cost, side by side; a cost that is the same for all is a sentence."""

from __future__ import annotations

from regard.core.study_record import StudyRecord
from regard.views.cost_measures import MEASURES, all_alike, priced
from regard.views.front_chart import front_chart
from regard.views.markup import Markup, element, joined


def front_section(record: StudyRecord) -> Markup:
    """The charts and sentences; nothing where fewer than two arms have a score."""
    charts, alike = [], []
    for measure in MEASURES:
        arms = priced(record, measure)
        if len(arms) < 2:
            continue
        if all_alike(arms, measure):
            alike.append(f"{measure.name} ({measure.text(arms[0])})")
            continue
        title = element(
            "figcaption",
            element("b", measure.name.capitalize()),
            element("small", measure.meaning),
        )
        charts.append(element("figure", title, front_chart(record, measure)))
    if not charts and not alike:
        return Markup("")
    words = (
        "A full point is on the front: no arm scores better for as little. A ring is beaten by "
        "another arm; the line through a point is its 95 % interval. The front goes by means, and "
        "neighbours whose intervals overlap may change places."
    )
    parts = []
    if charts:
        parts += [element("p", words, class_="hint"), element("div", *charts, class_="fronts")]
    if alike:
        parts.append(element("p", f"The same for all arms: {', '.join(alike)}.", class_="hint"))
    return joined(*parts)
