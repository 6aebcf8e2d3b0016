"""Small jobs, and mechanisms that crash or slow down their process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.factories.toy_pronunciation import TINY, tiny_sections, write_dictionary

from regard.runs.folder import RunFolder
from regard.studies.execution.jobs import Job

# Kills its process at call number `calls`, once; with 0, at every import.
CRASHING = '''
"""A mechanism that kills its process during training."""
import os
import signal
from pathlib import Path

from regard.mechanisms.scores.dot_product import DotAttention

CALLS = 0
if {calls} == 0:
    os.kill(os.getpid(), signal.SIGKILL)


class {name}(DotAttention):
    def read(self, *arguments, **kwargs):
        global CALLS
        CALLS += 1
        marker = Path(__file__).with_name("{name}.crashed")
        if CALLS == {calls} and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().read(*arguments, **kwargs)
'''

# So that a signal arrives before the end.
SLOW = '''
"""A mechanism that is slow until a file `hurry` exists."""
import time
from pathlib import Path

from regard.mechanisms.scores.dot_product import DotAttention


class Slow(DotAttention):
    def read(self, *arguments, **kwargs):
        if not Path(__file__).with_name("hurry").exists():
            time.sleep(0.1)
        return super().read(*arguments, **kwargs)
'''


def toy_job(
    study: Path, *, seed: int = 0, key: str = "", plugins: tuple[str, ...] = (), **changes: Any
) -> Job:
    """A run of a few steps in a study's folder; `changes` override its sections."""
    study.mkdir(exist_ok=True)
    pairs = study / "words.dict"
    if not pairs.exists():
        write_dictionary(pairs, count=120)
    key = key or f"run{seed}"
    return Job(
        key=key,
        variant="toy",
        seed=seed,
        sections=tiny_sections(pairs, seed=seed, threads=1, **changes),
        folder=study / "runs" / key,
        plugins=plugins,
    )


def crashing_job(study: Path, *, calls: int, name: str = "Crashing") -> Job:
    """A job whose process crashes at a call of its mechanism, of about a hundred."""
    text = CRASHING.format(name=name, calls=calls)
    training = {"steps": 12, "checkpoint_every": 1}
    return _job_with_plugin(study, name=name, text=text, training=training)


def slow_job(study: Path) -> Job:
    """A job that takes seconds, and checkpoints only when it is stopped."""
    training = {"steps": 100, "evaluate_every": 100, "checkpoint_seconds": 3600.0}
    return _job_with_plugin(study, name="Slow", text=SLOW, training=training)


def _job_with_plugin(study: Path, *, name: str, text: str, training: dict[str, Any]) -> Job:
    study.mkdir(exist_ok=True)
    file = study / f"{name}.py"
    file.write_text(text)
    model = {**TINY, "mechanism": name}
    return toy_job(study, key=name, model=model, training=training, plugins=(f"{file}:{name}",))


def comparable_outputs(folder: Path) -> dict[str, Any]:
    """The outputs of a run without times, which must not depend on how it was executed."""
    run = RunFolder(folder)
    record = json.loads(run.record.read_text())
    del record["outcome"]["seconds"], record["outcome"]["evaluation_seconds"]
    del record["spec"]["task"]["train_file"]
    record["spec"].pop("plugins", None)  # with the paths of their files
    files = [run.predictions["validation"], run.predictions["test"], run.metrics, run.model]
    return {"record": record, **{file.name: file.read_bytes() for file in files}}
