"""STUDY/failures/KEY.json: why a run has no record. It goes when the run is tried again."""

from __future__ import annotations

import json

from regard.core.whole_file import write_whole
from regard.studies.executor import Job


def write_failure(job: Job, *, reason: str, traceback: str = "") -> None:
    """Keep the reason, and the traceback for whoever wants to know where."""
    told = {"reason": reason, "arm": job.arm, "seed": job.seed, "traceback": traceback}
    write_whole(job.failure, json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def remove_failure(job: Job) -> None:
    """Forget an earlier failure."""
    job.failure.unlink(missing_ok=True)
