"""One card a mechanism: what it is, and the heat map of what it reads in the sentence."""

from __future__ import annotations

from regard.core.records import MechanismRecord, Survey
from regard.views.heatmap import heatmap, legend
from regard.views.markup import Markup, element


def picture_wall(survey: Survey) -> Markup:
    """The cards in the order of the survey; a family has a colour."""
    return element(
        "div",
        *(_card(record, survey) for record in survey.mechanisms),
        class_="wall",
        style=f"--tokens:{len(survey.tokens)}",
    )


def _card(record: MechanismRecord, survey: Survey) -> Markup:
    mask = "causal" if record.causal else "unmasked"
    drawn = f"{mask}, {record.weights_options}" if record.weights_options else mask
    family = survey.families.index(record.family)
    return element(
        "article",
        element(
            "header",
            element("span", record.family, class_=f"family family-{family}"),
            element("span", drawn, class_="drawn"),
        ),
        element("h3", record.name),
        element("p", record.summary, class_="summary"),
        element("figure", heatmap(record, tokens=survey.tokens)),
        element("p", element("span", class_="pair-text"), legend(record), class_="under"),
        element("p", record.reference, class_="reference"),
        element(
            "details",
            element("summary", "what it promises"),
            element("ul", *(element("li", phrase) for phrase in record.capabilities)),
        ),
        class_="card",
        id=f"mechanism-{record.name}",
    )
