"""Charts, HTML pages and terminal text from records; views neither compute nor train.

    from regard.views import draw_alignment, study_page

`draw_*` functions write figure files (.svg or .png), `*_page` functions return self-contained HTML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.views.charts.claims import draw_claim as draw_claim
    from regard.views.charts.costs import draw_cost_curves as draw_cost_curves
    from regard.views.charts.document import draw_document as draw_document
    from regard.views.charts.heatmap import draw_alignment as draw_alignment
    from regard.views.charts.image import draw_image as draw_image
    from regard.views.charts.look import draw_look as draw_look
    from regard.views.charts.run import write_run_figures as write_run_figures
    from regard.views.charts.sound import draw_sound as draw_sound
    from regard.views.charts.study import write_figures as write_figures
    from regard.views.charts.trees import draw_tree as draw_tree
    from regard.views.pages.claims import claim_page as claim_page
    from regard.views.pages.costs import cost_page as cost_page
    from regard.views.pages.document import document_page as document_page
    from regard.views.pages.look import look_page as look_page
    from regard.views.pages.overview import overview_page as overview_page
    from regard.views.pages.run import run_page as run_page
    from regard.views.pages.study import study_page as study_page
    from regard.views.text.claims import claim_text as claim_text, claims_table as claims_table
    from regard.views.text.costs import cost_text as cost_text, module_text as module_text
    from regard.views.text.run import run_text as run_text
    from regard.views.text.study import study_table as study_table

__all__, __getattr__, __dir__ = lazy_exports(__name__)
