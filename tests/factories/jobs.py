"""Small jobs, and mechanisms that disturb the process they are in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.factories.toy_language import TINY, tiny_sections, write_words

from regard.runs.folder import RunFolder
from regard.studies.execution.jobs import Job

# Ends its process at a call, the first time only; where the call is number 0, whenever it is imported.
DEADLY = '''
"""A mechanism that kills its own process in the middle of a training."""
import os
import signal
from pathlib import Path

from regard.mechanisms.scores.dot_product import DotAttention

CALLS = 0
if {calls} == 0:
    os.kill(os.getpid(), signal.SIGKILL)


class {name}(DotAttention):
    def read(self, *arguments, **words):
        global CALLS
        CALLS += 1
        marker = Path(__file__).with_name("{name}.died")
        if CALLS == {calls} and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().read(*arguments, **words)
'''

# So that a signal comes before the end on the quickest of machines.
SLOW = '''
"""A mechanism that takes its time until it is told to hurry, by a file beside it."""
import time
from pathlib import Path

from regard.mechanisms.scores.dot_product import DotAttention


class Slow(DotAttention):
    def read(self, *arguments, **words):
        if not Path(__file__).with_name("hurry").exists():
            time.sleep(0.1)
        return super().read(*arguments, **words)
'''


def toy_job(
    study: Path, *, seed: int = 0, key: str = "", plugins: tuple[str, ...] = (), **changes: Any
) -> Job:
    """A run of a few quick steps in its place in a study; `changes` are put over its sections."""
    study.mkdir(exist_ok=True)
    pairs = study / "words.dict"
    if not pairs.exists():
        write_words(pairs, count=120)
    key = key or f"run{seed}"
    return Job(
        key=key,
        variant="toy",
        seed=seed,
        sections=tiny_sections(pairs, seed=seed, threads=1, **changes),
        folder=study / "runs" / key,
        plugins=plugins,
    )


def deadly_job(study: Path, *, calls: int, name: str = "Deadly") -> Job:
    """A job whose process dies at a call of its mechanism, of which there are some hundred."""
    text = DEADLY.format(name=name, calls=calls)
    training = {"steps": 12, "checkpoint_every": 1}
    return _job_with_plugin(study, name=name, text=text, training=training)


def slow_job(study: Path) -> Job:
    """A job that takes seconds, and saves nothing before its end unless it is stopped."""
    training = {"steps": 100, "evaluate_every": 100, "checkpoint_seconds": 3600.0}
    return _job_with_plugin(study, name="Slow", text=SLOW, training=training)


def _job_with_plugin(study: Path, *, name: str, text: str, training: dict[str, Any]) -> Job:
    study.mkdir(exist_ok=True)
    file = study / f"{name}.py"
    file.write_text(text)
    model = {**TINY, "mechanism": name}
    return toy_job(study, key=name, model=model, training=training, plugins=(f"{file}:{name}",))


def without_times(folder: Path) -> dict[str, Any]:
    """All that a run came to, and that must not depend on how it came there."""
    run = RunFolder(folder)
    record = json.loads(run.record.read_text())
    del record["outcome"]["seconds"]
    del record["spec"]["task"]["pairs"]
    parts = [run.predictions["validation"], run.predictions["test"], run.metrics, run.model]
    return {"record": record, **{part.name: part.read_bytes() for part in parts}}
