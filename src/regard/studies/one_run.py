"""One run of a study, wherever this is called: begun, taken up where it stopped, or found finished.

The corpus is kept from run to run: the arms of a study share one, and reading it can take longer than
training a small model.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.conformance.subjects import class_at
from regard.core.errors import RegardError
from regard.core.whole_file import remove_remains
from regard.mechanisms import plug_in
from regard.runs.build import build_task
from regard.runs.run_folder import RunFolder
from regard.runs.spec import RunSpec, Sections
from regard.runs.starting import start_vocabularies
from regard.runs.train_run import begin_run, resume_run
from regard.training.folder_lock import folder_locked
from regard.training.watchers import Watcher

# Options of a task that are not about its files: runs that differ in these alone share a corpus.
NOT_OF_THE_CORPUS = ("batch_tokens", "label_smoothing", "beam_size", "length_penalty", "metric")
# A process whose study was killed leaves its folder within a few seconds.
SECONDS_TO_WAIT = 30.0

_plugged_in: set[str] = set()
_kept: dict[str, Any] = {}  # one at most


def execute(
    sections: Sections, folder: Path, plugins: Sequence[str] = (), watchers: Sequence[Watcher] = ()
) -> bool:
    """Train the run of these sections in its folder to the end; whether it got there.

    A finished run is left as it is. One with a checkpoint goes on from there; whatever else lies in
    the folder is what a killed process had just begun, and is written anew. False says that Ctrl-C
    or SIGTERM stopped it, with a checkpoint. `plugins` are mechanisms of the user's own, FILE.py:CLASS.
    """
    run = RunFolder(folder)
    if run.record.is_file():
        return True
    _plug_in_all(plugins)
    spec = RunSpec.from_sections(sections)
    goes_on = _cleared(run)
    if goes_on:
        _require_same_spec(spec, run)
        record = resume_run(run, corpus=_corpus(spec), watchers=watchers)
    else:
        record = begin_run(spec, run, corpus=_corpus(spec), watchers=watchers)
    return record is not None


def _plug_in_all(plugins: Sequence[str]) -> None:
    for target in plugins:
        if target not in _plugged_in:
            plug_in(class_at(target))
            _plugged_in.add(target)


def _corpus(spec: RunSpec) -> Any:
    """That of the last run if it serves; else it is read, and kept instead."""
    options = {
        name: value
        for name, value in asdict(spec.task_options).items()
        if name not in NOT_OF_THE_CORPUS
    }
    before = None if spec.pretraining is None else asdict(spec.pretraining.task_options)
    key = json.dumps([spec.task, options, spec.start, before])
    if key not in _kept:
        _kept.clear()  # before the next is read: there may not be room for two
        _kept[key] = build_task(spec, vocabularies=start_vocabularies(spec)).corpus
    return _kept[key]


def _cleared(run: RunFolder) -> bool:
    """Remove what is half made; whether there is a checkpoint to go on from."""
    run.make()
    patience = time.monotonic() + SECONDS_TO_WAIT
    while True:
        try:
            with folder_locked(run.path):
                remove_remains(run.path)
                if not run.checkpoint.is_file():
                    run.clear()
                    return False
                return True
        except RegardError:
            if time.monotonic() > patience:
                raise
        time.sleep(0.1)


def _require_same_spec(spec: RunSpec, run: RunFolder) -> None:
    wanted: dict[str, Any] = json.loads(json.dumps(spec.as_sections()))
    if run.read_json(run.spec) != wanted:
        raise RegardError(
            f"'{run.path}' holds a run with another spec than the study asks for. Remove the folder, or "
            "begin the study in another one."
        )
