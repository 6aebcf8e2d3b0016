"""Studies: variants trained under one budget with paired seeds, and compared statistically; run reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.studies.execution.local import LocalExecutor as LocalExecutor
    from regard.studies.execution.ray import RayExecutor as RayExecutor
    from regard.studies.folder import StudyFolder as StudyFolder
    from regard.studies.prepare import (
        PreparedStudy as PreparedStudy,
        prepare_study as prepare_study,
    )
    from regard.studies.run_comparison import compare_runs as compare_runs
    from regard.studies.run_report import run_record as run_record
    from regard.studies.spec import (
        StudySpec as StudySpec,
        builtin_studies as builtin_studies,
        read_study as read_study,
    )
    from regard.studies.study import run_study as run_study, write_record as write_record

__all__, __getattr__, __dir__ = lazy_exports(__name__)
