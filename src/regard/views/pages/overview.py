"""Overview page of all mechanisms: a gallery of attention heatmaps, costs, and the conformance matrix.

The cost table has a body for every length and head width, of which one length is shown. Rows are sorted
within their body, so mechanisms of one head width stay together.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from regard.core.formatting import factor_text, flops_text, integer_text, weight_text
from regard.core.records.overview import CheckRecord, MechanismRecord, Outcome, Overview
from regard.views.charts.costs import LengthCost, cost_charts, costs_by_length, head_dims
from regard.views.charts.heatmap import colour_ramp, mechanism_heatmap, mechanism_limit
from regard.views.charts.plot import TONES
from regard.views.pages.render import render_page, unique_anchors
from regard.views.text.costs import FLOPS_MEANING, PATH, STEPS, Column

DEFAULT_LENGTH = 4096
SECTIONS = {"gallery": "Attention patterns", "costs": "Costs", "checks": "Conformance checks"}
OUTCOMES: dict[Outcome, tuple[str, str]] = {
    "passed": ("✓", "passed"),
    "failed": ("✗", "failed"),
    "not_applicable": ("–", "does not apply"),
}


def overview_page(overview: Overview) -> str:
    """The overview as self-contained HTML."""
    names = [record.name for record in overview.mechanisms]
    checks = _by_check(overview)
    return render_page(
        "overview.html",
        overview=overview,
        sections=SECTIONS,
        outcomes=overview.totals(),
        anchors=dict(zip(names, unique_anchors(names), strict=True)),
        tones={family: number % TONES for number, family in enumerate(overview.families)},
        heatmap=mechanism_heatmap,
        ramp=_ramp,
        charts=cost_charts(overview),
        columns=COLUMNS,
        **cost_table(overview),
        checks=checks,
        check_anchors=dict(zip(checks, unique_anchors(checks), strict=True)),
        icons=OUTCOMES,
        failed=_reasons(checks, "failed"),
        not_applicable=_reasons(checks, "not_applicable"),
    )


def _ramp(record: MechanismRecord) -> str:
    return colour_ramp(weight_text(mechanism_limit(record)), signed=record.signed)


Checks = dict[str, dict[str, CheckRecord]]


def _by_check(overview: Overview) -> Checks:
    """The outcomes of each check by mechanism."""
    found: Checks = {}
    for record in overview.mechanisms:
        for check in record.checks:
            found.setdefault(check.name, {})[record.name] = check
    return found


def _reasons(checks: Checks, outcome: Outcome) -> dict[str, dict[str, list[str]]]:
    """By check, each distinct reason for this outcome and its mechanisms."""
    found: dict[str, dict[str, list[str]]] = {}
    for check, by_name in checks.items():
        for name, record in by_name.items():
            if record.outcome == outcome:
                reasons = found.setdefault(check, {})
                reasons.setdefault(record.detail or "no reason was given", []).append(name)
    return found


GROWTH_MEANING = "growth of the FLOPs when the length doubles: ×2 is linear, ×4 quadratic"
COLUMNS = (
    Column("FLOPs", f"{FLOPS_MEANING} operation", "cost.flops", flops_text),
    Column("length ×2", GROWTH_MEANING, "doubling_factor", factor_text),
    Column("memory", "peak number of elements during a call", "cost.memory"),
    Column("parameters", "trainable parameters", "cost.parameters"),
    Column("state", "elements of the decoding state after this many tokens", "cost.state"),
    Column(*STEPS, "cost.sequential_steps"),
    Column(*PATH, "cost.max_path_length"),
)


class CostRow(NamedTuple):
    """A mechanism, its cost at a length, and the length of the bar behind its FLOPs, from 0 to 1."""

    record: MechanismRecord
    at: LengthCost
    share: float


def cost_table(overview: Overview) -> dict[str, Any]:
    """`lengths` with texts, the `shown_length`, and `bodies`: a length and the rows of one head width."""
    costs = {
        record.name: {at.length: at for at in costs_by_length(record)}
        for record in overview.mechanisms
    }
    lengths = sorted({length for by_length in costs.values() for length in by_length})
    bodies = []
    for length in lengths:
        for head_dim in head_dims(overview):
            here = [
                (record, costs[record.name][length])
                for record in overview.mechanisms
                if record.cost_head_dim == head_dim and length in costs[record.name]
            ]
            most = max((at.cost.flops for _, at in here), default=0)
            bodies.append((length, [CostRow(each, at, _share(at, most)) for each, at in here]))
    shown = DEFAULT_LENGTH if DEFAULT_LENGTH in lengths else max(lengths, default=0)
    texts = {length: integer_text(length) for length in lengths}
    return {"lengths": texts, "shown_length": shown, "bodies": bodies}


def _share(at: LengthCost, most: int) -> float:
    """On a logarithmic scale of three powers of ten."""
    return max(1 + math.log10(max(at.cost.flops, 1) / max(most, 1)) / 3, 0.0)
