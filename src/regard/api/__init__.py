"""One function per verb of the command line, with its options as keyword arguments.

    import regard

    run = regard.train("pronounce", recipe="pronounce-quick", set={"model.num_layers": 2})
    regard.predict(run, ["attention"])

Functions return records, write the files that the verb writes, and print nothing: `log` receives lines
about the progress. `regard.claims` and `regard.data` have the functions of the verbs of their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.api.costs import cost as cost
    from regard.api.cross_validation import (
        CrossValidation as CrossValidation,
        cross_validate as cross_validate,
    )
    from regard.api.listing import list_names as list_names
    from regard.api.looking import LookView as LookView, look as look
    from regard.api.mechanisms import (
        check as check,
        list_mechanisms as list_mechanisms,
        overview as overview,
    )
    from regard.api.planning import PlanReport as PlanReport, plan as plan
    from regard.api.reports import report as report
    from regard.api.serving import serve as serve
    from regard.api.settings import list_settings as list_settings
    from regard.api.studies import study as study
    from regard.api.training import predict as predict, train as train

__all__, __getattr__, __dir__ = lazy_exports(__name__)
