"""Cost report page: curves against length, crossovers, tables and formulas."""

from __future__ import annotations

from collections.abc import Sequence

from regard.core.records.cost import CostReport, CostRow
from regard.views.charts.cost_curves import cost_curves_chart, value_name
from regard.views.pages.html import (
    Markup,
    definitions,
    element,
    footer,
    joined,
    page,
    scrolled,
    section,
)
from regard.views.text.costs import Column, columns, machine_text, setting_text

SECTIONS = {
    "chart": "Cost against length",
    "crossovers": "Crossovers",
    "costs": "Costs",
    "formulas": "Formulas",
}


def cost_page(report: CostReport) -> str:
    """The report as self-contained HTML."""
    sections = {
        "chart": _chart(report),
        "crossovers": _crossovers(report),
        "costs": _tables(report),
        "formulas": _formulas(report),
    }
    present = {anchor: content for anchor, content in sections.items() if content}
    links = [element("a", SECTIONS[anchor], href=f"#{anchor}") for anchor in present]
    headline = element(
        "header",
        element("h1", "regard cost"),
        element("p", setting_text(report), class_="lead"),
        element("p", element("code", report.command)),
        element("nav", *links, aria_label="Sections"),
        class_="headline",
    )
    main = element(
        "main", *(section(anchor, SECTIONS[anchor], content) for anchor, content in present.items())
    )
    foot = footer(f"regard {report.version}; {machine_text(report)}.")
    return page(title="regard: costs of attention", body=[headline, main, foot])


def _chart(report: CostReport) -> Markup:
    chart = cost_curves_chart(report)
    return scrolled(chart, f"{value_name(report)} against length") if chart else chart


def _crossovers(report: CostReport) -> Markup:
    if not report.crossovers:
        return Markup("")
    return element("ul", *(element("li", crossover.sentence) for crossover in report.crossovers))


def _tables(report: CostReport) -> Markup:
    shown = columns(report)
    headings = [
        element("th", element("button", column.heading, type="button", title=column.meaning))
        for column in shown
    ]
    name = element("th", element("button", "name", type="button"))
    bodies = [
        element("tbody", *(_row(row, shown) for row in rows))
        for rows in (report.mechanisms, report.layers)
        if rows
    ]
    width = report.num_heads * report.head_dim
    table = element(
        "table",
        element("caption", f"Mechanisms, then layers with model_dim {width}"),
        element("thead", element("tr", name, element("th", "matmul FLOPs"), *headings)),
        *bodies,
        id="costs-table",
    )
    meanings = [
        (
            "matmul FLOPs",
            "leading terms, for one head of one sequence with head_dim d, or for a layer",
        ),
        *((column.heading, column.meaning) for column in shown),
    ]
    return joined(scrolled(table, "Costs"), definitions(meanings), _remarks(report))


def _row(row: CostRow, shown: Sequence[Column]) -> Markup:
    name = element("th", row.name, scope="row", data_sort=row.name)
    formula = element("td", row.formula, data_sort=row.formula)
    cells = [
        element("td", column.text(row), data_sort=str(column.number(row) or 0)) for column in shown
    ]
    return element("tr", name, formula, *cells)


def _remarks(report: CostReport) -> Markup:
    rows = (*report.mechanisms, *report.layers)
    remarks = [(row.name, row.note) for row in rows if row.note]
    remarks += [(each.name, f"not supported: {each.reason}") for each in report.unsupported]
    if not remarks:
        return Markup("")
    return element(
        "ul", *(element("li", element("b", name), f": {text}") for name, text in remarks)
    )


def _formulas(report: CostReport) -> Markup:
    return joined(
        *(
            joined(
                element("h3", f"{formulas.name}, one head of one sequence"),
                definitions((field, formula) for field, formula, _ in formulas.by_field),
                element("p", formulas.length_note) if formulas.length_note else Markup(""),
            )
            for formulas in report.formulas
        )
    )
