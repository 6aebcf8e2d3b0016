"""Charts, HTML pages and terminal text from records; views neither compute nor train.

    from regard.views import draw_alignment, study_page

`draw_*` functions write figure files (.svg or .png), `*_page` functions return self-contained HTML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.views.charts.autoencoders import (
        draw_singular_values as draw_singular_values,
        draw_tree as draw_tree,
    )
    from regard.views.charts.claim_curves import draw_claim as draw_claim
    from regard.views.charts.classification import (
        confusion_table as confusion_table,
        reliability_chart as reliability_chart,
    )
    from regard.views.charts.cost_curves import draw_cost_curves as draw_cost_curves
    from regard.views.charts.document import draw_document as draw_document
    from regard.views.charts.heatmap import draw_alignment as draw_alignment
    from regard.views.charts.learning_curves import draw_learning_curve as draw_learning_curve
    from regard.views.pages.claims import claim_page as claim_page
    from regard.views.pages.costs import cost_page as cost_page
    from regard.views.pages.document import document_page as document_page
    from regard.views.pages.overview import overview_page as overview_page
    from regard.views.pages.study import study_page as study_page, write_figures as write_figures
    from regard.views.text.claims import claim_text as claim_text, claims_table as claims_table
    from regard.views.text.costs import cost_text as cost_text, module_text as module_text
    from regard.views.text.study import study_csv as study_csv, study_table as study_table

__all__, __getattr__, __dir__ = lazy_exports(__name__)
