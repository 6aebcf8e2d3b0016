"""Runs: a spec becomes a task and a model, training writes a run folder, and `load` reads it back.

spec (validated)  →  task + model  →  training loop  →  run folder  →  load
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.runs.build import (
        build_decoding as build_decoding,
        build_spec_model as build_spec_model,
        build_task as build_task,
    )
    from regard.runs.folder import (
        Predictions as Predictions,
        RunFolder as RunFolder,
        evaluations as evaluations,
        read_predictions as read_predictions,
    )
    from regard.runs.load import (
        EvaluationReport as EvaluationReport,
        TrainedRun as TrainedRun,
        load as load,
    )
    from regard.runs.plan import Plan as Plan, plan_run as plan_run
    from regard.runs.spec import (
        RunSpec as RunSpec,
        builtin_recipes as builtin_recipes,
        merge_sections as merge_sections,
        parse_settings as parse_settings,
        read_recipe as read_recipe,
    )
    from regard.runs.train import (
        begin_run as begin_run,
        read_spec as read_spec,
        resume_run as resume_run,
    )

__all__, __getattr__, __dir__ = lazy_exports(__name__)
