"""Kill trainings at random moments, resume them, and compare them with trainings that were left alone.

    python -m benchmarks.kill_runs                      20 small runs, each killed three times
    python -m benchmarks.kill_runs --runs 3 --resume "regard train --resume {folder}" -- \\
        regard train pronounce --out {folder} --seed {seed}

In the words of a command, {folder} stands for the run folder and {seed} for the number of the run; the
command that resumes is the first one with --resume added unless it is given.
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
ORDER = "order.txt"  # the order of batches, which only the toy tells
EVALUATING = "evaluating"
ROOT = Path(__file__).parents[1]


class Running(Protocol):
    """A process, as `subprocess` has it."""

    def poll(self) -> int | None:
        """The return code, or None while it runs."""
        ...

    def kill(self) -> None:
        """SIGKILL."""
        ...

    def wait(self) -> int:
        """The return code."""
        ...


Launch = Callable[[bool], Running]  # given whether to resume


def run_alone(launch: Launch, folder: Path) -> float:
    """Train without disturbance; the seconds from the first sign of life to the end."""
    before = _listing(folder)
    running = launch(False)
    while running.poll() is None and _listing(folder) == before:
        time.sleep(0.001)
    began = time.monotonic()
    if code := running.wait():
        raise RuntimeError(f"the run in {folder} ended with code {code}")
    return time.monotonic() - began


def run_killed(
    launch: Launch, folder: Path, *, kills: int, seconds: float, chance: random.Random
) -> list[str]:
    """Train, killed so many times; what was going on at each kill.

    `seconds` is about how long the run takes. Some kills wait for a file to be half written.
    """
    found = []
    for number in range(kills):
        before = _listing(folder)
        running = launch(number > 0)
        while running.poll() is None and _listing(folder) == before:
            time.sleep(0.0005)
        moment = time.monotonic() + chance.uniform(0.0, 0.6 * seconds / kills)
        in_writing = chance.random() < 0.4
        while running.poll() is None and time.monotonic() < moment:
            time.sleep(0.0005)
        latest = moment + (0.2 * seconds / kills if in_writing else 0.0)
        while running.poll() is None and time.monotonic() < latest and not _remains(folder):
            pass  # a small file is written within a millisecond: no time to sleep
        running.kill()
        if running.wait() != -signal.SIGKILL:
            raise RuntimeError(f"the run in {folder} ended before kill {number + 1}")
        found.append(_going_on(folder))
    if code := launch(True).wait():
        raise RuntimeError(f"the run in {folder}, resumed, ended with code {code}")
    return found


def differences(one: Path, other: Path) -> list[str]:
    """In what two finished runs differ, times not counted: nothing, if resuming works."""
    found = [
        name
        for name in (METRICS, MODEL)
        if (one / name).read_bytes() != (other / name).read_bytes()
    ]
    first, second = read_checkpoint(one / CHECKPOINT), read_checkpoint(other / CHECKPOINT)
    if list(first.tensors) != list(second.tensors):
        found.append(f"{CHECKPOINT}: the names of its tensors")
    found += [
        f"{CHECKPOINT}: {name}"
        for name in first.tensors.keys() & second.tensors.keys()
        if not _same_bits(first.tensors[name], second.tensors[name])
    ]
    if _timeless(first.facts) != _timeless(second.facts):
        found.append(f"{CHECKPOINT}: its counters")
    if (one / ORDER).exists() and _order(one) != _order(other):
        found.append(ORDER)
    return found


def main(words: list[str] | None = None) -> int:
    """Print one line a run and the sum of them; the exit code says whether all runs are the same."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--resume", help="the command that resumes, in one word")
    parser.add_argument("command", nargs="*", help="the command that trains, after --")
    given = parser.parse_args(words)
    start: list[str] = given.command or TOY
    resume = shlex.split(given.resume) if given.resume else [*start, "--resume"]
    chance = random.Random(given.seed)
    same = 0
    moments: Counter[str] = Counter()
    for number in range(given.runs):
        scratch = Path(tempfile.mkdtemp(prefix="kill_runs."))
        try:
            alone, killed = scratch / "alone", scratch / "killed"
            seconds = run_alone(_launcher(start, resume, alone, number), alone)
            going_on = run_killed(
                _launcher(start, resume, killed, number),
                killed,
                kills=given.kills,
                seconds=seconds,
                chance=chance,
            )
            unlike = differences(alone, killed)
        except RuntimeError as error:
            logs = [log.read_text(encoding="utf-8") for log in sorted(scratch.glob("*.log"))]
            print(*logs, f"error: {error}", sep="\n", file=sys.stderr)
            return 2
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        moments.update(going_on)
        same += not unlike
        verdict = f"differs in {', '.join(unlike)}" if unlike else "the same bits"
        print(f"run {number + 1}, killed while {', '.join(going_on)}: {verdict}", flush=True)
    told = ", ".join(f"{count} while {what}" for what, count in sorted(moments.items()))
    print(f"{same} of {given.runs} runs are the same as undisturbed ones; kills: {told}")
    return 0 if same == given.runs else 1


def _launcher(start: list[str], resume: list[str], folder: Path, seed: int) -> Launch:
    def launch(resuming: bool) -> Running:
        words = [
            word.replace("{folder}", str(folder)).replace("{seed}", str(seed))
            for word in (resume if resuming else start)
        ]
        with (folder.parent / f"{folder.name}.log").open("ab") as log:
            return subprocess.Popen(
                words, cwd=ROOT, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"}
            )

    return launch


def _listing(folder: Path) -> set[tuple[str, int, int]]:
    """What lies in the folder: it changes when anything is written there."""
    return {(path.name, size, when) for path, size, when in _entries(folder)}


def _entries(folder: Path) -> Iterator[tuple[Path, int, int]]:
    for path in folder.glob("*") if folder.is_dir() else ():
        try:
            facts = path.stat()
        except FileNotFoundError:  # renamed just now
            continue
        yield path, facts.st_size, facts.st_mtime_ns


def _remains(folder: Path) -> bool:
    return any(folder.glob(f"{TEMPORARY_PREFIX}*"))


def _going_on(folder: Path) -> str:
    """What a killed run was doing, as far as it left a trace."""
    if _remains(folder):
        return "writing"
    order = folder / ORDER
    lines = order.read_text(encoding="utf-8").splitlines() if order.exists() else []
    return "evaluating" if lines and lines[-1] == EVALUATING else "training"


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal to the last bit; NaN too, and 0 is not −0."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))


def _timeless(facts: dict[str, Any]) -> dict[str, Any]:
    counters = {name: value for name, value in facts["counters"].items() if name != "seconds"}
    return {**facts, "counters": counters, "lengths": facts["lengths"][METRICS]}


def _order(folder: Path) -> set[str]:
    """Which batch came at which place; a place told twice, after a kill, must tell the same."""
    lines = (folder / ORDER).read_text(encoding="utf-8").splitlines()
    return set(lines) - {EVALUATING, ""}


if __name__ == "__main__":
    sys.exit(main())
