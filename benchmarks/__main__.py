"""Run the benchmarks and say which bars hold: `python -m benchmarks [--give-back] [NAME ...]`.

Those that read corpora find them through REGARD_DATA, and are left out, with the reason, where it
names no folder or a rival is not installed.

Freed memory is kept (regard.core.malloc), for our code and its rivals alike; `--give-back` measures
with the allocator as it comes.
"""

from __future__ import annotations

import sys

import torch

from benchmarks.attention import BENCHMARKS as ATTENTION
from benchmarks.costs import costs
from benchmarks.decoding import decoding
from benchmarks.hierarchical import hierarchical
from benchmarks.language_models import language_models
from benchmarks.planning import planning
from benchmarks.recursive_autoencoder import recursive_autoencoder
from benchmarks.study_execution import study_execution
from benchmarks.study_statistics import study_statistics
from benchmarks.training import training
from regard.core.errors import RegardError
from regard.core.malloc import keep_freed_memory
from regard.core.registry import look_up

GIVE_BACK = "--give-back"

BENCHMARKS = {
    **ATTENTION,
    "training": training,
    "decoding": decoding,
    "language_models": language_models,
    "hierarchical": hierarchical,
    "recursive_autoencoder": recursive_autoencoder,
    "costs": costs,
    "planning": planning,
    "study_execution": study_execution,
    "study_statistics": study_statistics,
}


def main(names: list[str]) -> int:
    """Print every finding as it comes; the exit code says whether all bars hold."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    give_back = GIVE_BACK in names
    names = [name for name in names if name != GIVE_BACK]
    kept = not give_back and keep_freed_memory()
    kept_or_not = "kept" if kept else "given back"
    print(f"one thread unless said; freed memory is {kept_or_not}, for all rivals alike")
    try:
        chosen = [look_up("benchmark", name, BENCHMARKS) for name in names or BENCHMARKS]
    except RegardError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    missed = 0
    for benchmark in chosen:
        try:
            for finding in benchmark():
                print(finding, flush=True)
                missed += not finding.holds
        except (RegardError, ImportError) as error:
            print(f"left out  {benchmark.__name__}: {error}", flush=True)
    print(f"{missed} bar(s) missed" if missed else "every bar holds")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
