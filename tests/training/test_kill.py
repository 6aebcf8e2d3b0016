"""Training processes that are killed or stopped by a signal, and resumed, end with the same bits."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

import pytest
from benchmarks.kill_runs import Launch, Running, differences, run_alone, run_killed
from tests.factories import toy_training as toy

from regard.training.checkpoint import read_safetensors
from regard.training.loop import CHECKPOINT, METRICS

STEPS = "70"

pytestmark = [
    pytest.mark.stress,
    pytest.mark.skipif(os.name != "posix", reason="needs a fork server and signals"),
]


class Child:
    """A process of the fork server with the interface of `subprocess.Popen`."""

    def __init__(self, process: ForkServerProcess) -> None:
        self.process = process
        process.start()

    def poll(self) -> int | None:
        return self.process.exitcode

    def kill(self) -> None:
        self.process.kill()

    def send(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait(self) -> int:
        self.process.join()
        assert self.process.exitcode is not None
        return self.process.exitcode


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServerContext]:
    """Imports everything once, so that child processes start quickly."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.factories.toy_training", "lightning.fabric"])
    yield context
    multiprocessing.forkserver._forkserver._stop()  # type: ignore[attr-defined]


def launcher(server: ForkServerContext, folder: Path, seed: int) -> Launch:
    def launch(resume: bool) -> Running:
        arguments = [str(folder), "--seed", str(seed), "--steps", STEPS]
        arguments += ["--resume"] if resume else []
        return Child(server.Process(target=toy.main, args=(arguments,)))

    return launch


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_three_kills(tmp_path: Path, server: ForkServerContext, seed: int) -> None:
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    seconds = run_alone(launcher(server, alone, seed), alone)
    run_killed(
        launcher(server, killed, seed),
        killed,
        kills=3,
        seconds=seconds,
        rng=random.Random(seed),
    )
    assert differences(alone, killed) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_saves_a_checkpoint(
    tmp_path: Path, server: ForkServerContext, number: signal.Signals
) -> None:
    folder = tmp_path / "stopped"
    launch = launcher(server, folder, 0)
    child = launch(False)
    assert isinstance(child, Child)
    wait_for(folder / METRICS)
    child.send(number)
    assert child.wait() == 0
    steps = saved_step(folder)
    assert 0 < steps < int(STEPS)
    assert launch(True).wait() == 0
    alone = tmp_path / "alone"
    run_alone(launcher(server, alone, 0), alone)
    assert differences(alone, folder) == []


def wait_for(path: Path) -> None:
    """Wait until the file is not empty."""
    latest = time.monotonic() + 60
    while not (path.exists() and path.stat().st_size):
        assert time.monotonic() < latest
        time.sleep(0.002)


def saved_step(folder: Path) -> int:
    tensors, _ = read_safetensors(folder / CHECKPOINT, way_out="")
    return int(tensors["model.calls"])
