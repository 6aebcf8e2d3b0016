"""Trained runs of every kind of input, and clients of a server for them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.testclient import TestClient
from tests.factories import tiny_runs
from tests.factories.images import write_classes
from tests.factories.sounds import write_digits
from tests.factories.tiny_runs import TRAINING, train_tiny

from regard.runs.load import TrainedRun, load
from regard.serving.app import create_app
from regard.serving.limits import Limits
from regard.serving.models import served_models
from regard.serving.queue import WorkQueue

ADDRESS = "http://127.0.0.1:8000"


def image_sections(folder: Path) -> dict[str, Any]:
    """Grey images of 4×4 pixels."""
    task = {"name": "image_classification", "train_file": str(write_classes(folder / "images"))}
    model = {"name": "vision_transformer", "model_dim": 8, "num_heads": 2, "num_layers": 1}
    return {"task": task, "model": {**model, "stem": {"patch_size": 2}}, "training": TRAINING}


def sound_sections(folder: Path) -> dict[str, Any]:
    """Tones of 0.3 seconds."""
    task = {"name": "audio_classification", "train_file": str(write_digits(folder / "digits"))}
    features = {"sample_rate": 8000, "num_bands": 8, "hop_ms": 20.0, "validation_fraction": 0.3}
    model = {"name": "structured", "model_dim": 8, "hidden_dim": 0, "hops": 2}
    return {"task": {**task, **features}, "model": model, "training": TRAINING}


KINDS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "seq2seq": tiny_runs.seq2seq,
    "classifier": tiny_runs.classifier,
    "numbers": tiny_runs.regression,
    "language_model": tiny_runs.language_model,
    "images": image_sections,
    "sounds": sound_sections,
}


@pytest.fixture(scope="session")
def run_folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a run by its kind, trained on first use."""
    place = tmp_path_factory.mktemp("served")

    def folder(kind: str) -> Path:
        if not (place / kind).exists():
            train_tiny(KINDS[kind], place / kind)
        return place / kind

    return folder


@pytest.fixture(scope="session")
def runs(run_folders: Callable[[str], Path]) -> dict[str, TrainedRun]:
    return {kind: load(run_folders(kind)) for kind in KINDS}


class Served(NamedTuple):
    """A client in this process, and the queue behind it."""

    client: TestClient
    queue: WorkQueue
    app: Any


Serve = Callable[..., Served]


@pytest.fixture
def serve(runs: dict[str, TrainedRun]) -> Iterator[Serve]:
    """Serve the runs, or those of given kinds, with changed limits."""
    queues: list[WorkQueue] = []

    def start(*kinds: str, key: str | None = None, **limits: Any) -> Served:
        chosen = Limits(**limits)
        queues.append(queue := WorkQueue(chosen))
        models = served_models([runs[kind] for kind in kinds or KINDS], chosen)
        app = create_app(models, queue, limits=chosen, key=key)
        return Served(TestClient(app, base_url=ADDRESS), queue, app)

    yield start
    for queue in queues:
        queue.close(timeout=5.0)


@pytest.fixture(scope="module")
def client(runs: dict[str, TrainedRun]) -> Iterator[TestClient]:
    """A client of a server with the default limits; its requests share one event loop."""
    limits = Limits()
    queue = WorkQueue(limits)
    app = create_app(served_models(list(runs.values()), limits), queue, limits=limits)
    with TestClient(app, base_url=ADDRESS) as opened:
        yield opened
    queue.close(timeout=5.0)


class Process:
    """A server in a process of its own, on a free port of this machine."""

    def __init__(self, *arguments: object, **environment: str) -> None:
        command = [sys.executable, "-m", "regard", "serve", *map(str, arguments), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--threads", "1"],
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.search(r"http://[\d.]+:(\d+)/", line)
        assert found is not None, line + self.process.stderr.read()
        self.url, self.port = found[0], int(found[1])

    def post(self, path: str, headers: dict[str, str] | None = None, **body: Any) -> Any:
        """The answer to a POST as JSON."""
        request = urllib.request.Request(
            self.url + path,
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **(headers or {})},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def get(self, path: str) -> Any:
        """The answer to a GET as JSON."""
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return json.loads(answer.read())

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Exit code and what was logged after the first line."""
        self.process.send_signal(number)
        _, log = self.process.communicate(timeout=60)
        return self.process.returncode, log


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def begin(*arguments: object, **environment: str) -> Process:
        started.append(Process(*arguments, **environment))
        return started[-1]

    yield begin
    for each in started:
        each.process.kill()
        each.process.wait()
