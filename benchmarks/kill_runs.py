"""Kill training runs at random times, resume them, and compare them with undisturbed runs.

    python -m benchmarks.kill_runs                      20 small runs, each killed three times
    python -m benchmarks.kill_runs --runs 3 --resume "regard train --resume {folder}" -- \
        regard train pronounce --out {folder} --seed {seed}

In a command, {folder} is the run folder and {seed} the number of the run; the default command to resume
is the training command with --resume added.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import torch

from regard.core.atomic_write import TEMPORARY_PREFIX
from regard.training.checkpoint import read_checkpoint
from regard.training.loop import CHECKPOINT, METRICS, MODEL

TOY = [sys.executable, "-m", "tests.factories.toy_training", "{folder}", "--seed", "{seed}"]
ORDER = "order.txt"  # the order of batches, which only the toy training writes
EVALUATING = "evaluating"
ROOT = Path(__file__).parents[1]


class Running(Protocol):
    """A process, as in `subprocess`."""

    def poll(self) -> int | None:
        """The return code, or None while it runs."""
        ...

    def kill(self) -> None:
        """SIGKILL."""
        ...

    def wait(self) -> int:
        """The return code."""
        ...


Launch = Callable[[bool], Running]  # argument: whether to resume


def run_alone(launch: Launch, folder: Path) -> float:
    """Train without kills; returns the seconds from the first written file to the end."""
    before = _listing(folder)
    running = launch(False)
    while running.poll() is None and _listing(folder) == before:
        time.sleep(0.001)
    began = time.monotonic()
    if code := running.wait():
        raise RuntimeError(f"the run in {folder} ended with code {code}")
    return time.monotonic() - began


def run_killed(
    launch: Launch, folder: Path, *, kills: int, seconds: float, rng: random.Random
) -> list[str]:
    """Train with `kills` kills; returns the phase of the run at each kill.

    `seconds` is the approximate duration of the run. Some kills wait for a file to be half written.
    """
    found = []
    for number in range(kills):
        before = _listing(folder)
        running = launch(number > 0)
        while running.poll() is None and _listing(folder) == before:
            time.sleep(0.0005)
        moment = time.monotonic() + rng.uniform(0.0, 0.6 * seconds / kills)
        while_writing = rng.random() < 0.4
        while running.poll() is None and time.monotonic() < moment:
            time.sleep(0.0005)
        latest = moment + (0.2 * seconds / kills if while_writing else 0.0)
        while (
            running.poll() is None and time.monotonic() < latest and not _has_partial_file(folder)
        ):
            pass  # a small file is written within a millisecond: do not sleep
        running.kill()
        if running.wait() != -signal.SIGKILL:
            raise RuntimeError(f"the run in {folder} ended before kill {number + 1}")
        found.append(_phase(folder))
    if code := launch(True).wait():
        raise RuntimeError(f"the run in {folder}, resumed, ended with code {code}")
    return found


def differences(one: Path, other: Path) -> list[str]:
    """Differences between two finished runs, times excluded: empty if resuming works."""
    found = [
        name
        for name in (METRICS, MODEL)
        if (one / name).read_bytes() != (other / name).read_bytes()
    ]
    first, second = read_checkpoint(one / CHECKPOINT), read_checkpoint(other / CHECKPOINT)
    if list(first.tensors) != list(second.tensors):
        found.append(f"{CHECKPOINT}: tensor names")
    found += [
        f"{CHECKPOINT}: {name}"
        for name in first.tensors.keys() & second.tensors.keys()
        if not _same_bits(first.tensors[name], second.tensors[name])
    ]
    if _without_times(first.metadata) != _without_times(second.metadata):
        found.append(f"{CHECKPOINT}: training state")
    if (one / ORDER).exists() and _order(one) != _order(other):
        found.append(ORDER)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print one line per run and a summary; exit code 1 if a run differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="random seed of the kill times")
    parser.add_argument("--resume", help="command that resumes, as one argument")
    parser.add_argument("command", nargs="*", help="training command, after --")
    options = parser.parse_args(arguments)
    start: list[str] = options.command or TOY
    resume = shlex.split(options.resume) if options.resume else [*start, "--resume"]
    rng = random.Random(options.seed)
    identical = 0
    moments: Counter[str] = Counter()
    for number in range(options.runs):
        scratch = Path(tempfile.mkdtemp(prefix="kill_runs."))
        try:
            alone, killed = scratch / "alone", scratch / "killed"
            seconds = run_alone(_launcher(start, resume, alone, number), alone)
            phases = run_killed(
                _launcher(start, resume, killed, number),
                killed,
                kills=options.kills,
                seconds=seconds,
                rng=rng,
            )
            different = differences(alone, killed)
        except RuntimeError as error:
            logs = [log.read_text(encoding="utf-8") for log in sorted(scratch.glob("*.log"))]
            print(*logs, f"error: {error}", sep="\n", file=sys.stderr)
            return 2
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        moments.update(phases)
        identical += not different
        verdict = f"differs in {', '.join(different)}" if different else "bit-identical"
        print(f"run {number + 1}, killed while {', '.join(phases)}: {verdict}", flush=True)
    summary = ", ".join(f"{count} while {what}" for what, count in sorted(moments.items()))
    print(f"{identical} of {options.runs} runs are identical to undisturbed ones; kills: {summary}")
    return 0 if identical == options.runs else 1


def _launcher(start: list[str], resume: list[str], folder: Path, seed: int) -> Launch:
    def launch(resuming: bool) -> Running:
        command = [
            word.replace("{folder}", str(folder)).replace("{seed}", str(seed))
            for word in (resume if resuming else start)
        ]
        with (folder.parent / f"{folder.name}.log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )

    return launch


def _listing(folder: Path) -> set[tuple[str, int, int]]:
    """Names, sizes and times of the files of a folder."""
    return {(path.name, size, when) for path, size, when in _entries(folder)}


def _entries(folder: Path) -> Iterator[tuple[Path, int, int]]:
    for path in folder.glob("*") if folder.is_dir() else ():
        try:
            facts = path.stat()
        except FileNotFoundError:  # renamed in between
            continue
        yield path, facts.st_size, facts.st_mtime_ns


def _has_partial_file(folder: Path) -> bool:
    return any(folder.glob(f"{TEMPORARY_PREFIX}*"))


def _phase(folder: Path) -> str:
    """What a killed run was doing, judging by its files."""
    if _has_partial_file(folder):
        return "writing"
    order = folder / ORDER
    lines = order.read_text(encoding="utf-8").splitlines() if order.exists() else []
    return "evaluating" if lines and lines[-1] == EVALUATING else "training"


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Bit-identical, including NaN; 0 differs from −0."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))


def _without_times(metadata: dict[str, Any]) -> dict[str, Any]:
    state = {
        name: value for name, value in metadata["state"].items() if not name.endswith("seconds")
    }
    return {**metadata, "state": state, "log_sizes": metadata["log_sizes"][METRICS]}


def _order(folder: Path) -> set[str]:
    """The batch of each step; a step repeated after a kill must have the same batch."""
    lines = (folder / ORDER).read_text(encoding="utf-8").splitlines()
    return set(lines) - {EVALUATING, ""}


if __name__ == "__main__":
    sys.exit(main())
