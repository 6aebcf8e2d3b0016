"""Cost report page: curves against length, crossovers, tables and formulas."""

from __future__ import annotations

from regard.core.records.cost import CostReport
from regard.views.charts.costs import cost_curves_chart, value_name
from regard.views.pages.render import render_page
from regard.views.text.costs import columns, machine_text, setting_text

SECTIONS = {
    "chart": "Cost against length",
    "crossovers": "Crossovers",
    "costs": "Costs",
    "formulas": "Formulas",
}


def cost_page(report: CostReport) -> str:
    """The report as self-contained HTML."""
    chart = cost_curves_chart(report)
    present = {"chart": chart, "crossovers": report.crossovers, "costs": True}
    present["formulas"] = report.formulas
    rows = (*report.mechanisms, *report.layers)
    remarks = [(row.name, row.note) for row in rows if row.note]
    remarks += [(each.name, f"not supported: {each.reason}") for each in report.unsupported]
    return render_page(
        "costs.html",
        report=report,
        sections={anchor: title for anchor, title in SECTIONS.items() if present[anchor]},
        chart=chart,
        chart_name=f"{value_name(report)} against length",
        columns=columns(report),
        remarks=remarks,
        setting=setting_text(report),
        machine=machine_text(report),
    )
