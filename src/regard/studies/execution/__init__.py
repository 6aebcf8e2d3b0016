"""Executors of a study: worker processes on this machine, or a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.studies.execution.jobs import Executor as Executor, Job as Job
    from regard.studies.execution.local import LocalExecutor as LocalExecutor
    from regard.studies.execution.ray import RayExecutor as RayExecutor

__all__, __getattr__, __dir__ = lazy_exports(__name__)
