"""Run the benchmarks and check their thresholds: `python -m benchmarks [--default-allocator] [NAME ...]`.

Corpora are found through REGARD_DATA; benchmarks without their corpus or without an installed baseline
are skipped, with the reason.

By default freed memory is kept (`regard.core.malloc`), for our code and the baselines alike;
`--default-allocator` measures without that.
"""

from __future__ import annotations

import sys

import torch

from benchmarks.attention import BENCHMARKS as ATTENTION
from benchmarks.audio import audio
from benchmarks.costs import costs
from benchmarks.decoding import decoding
from benchmarks.hierarchical import hierarchical
from benchmarks.images import images
from benchmarks.language_models import language_models
from benchmarks.look import look
from benchmarks.planning import planning
from benchmarks.recursive_autoencoder import recursive_autoencoder
from benchmarks.seeding import seeding
from benchmarks.study_execution import study_execution
from benchmarks.study_statistics import study_statistics
from benchmarks.training import training
from benchmarks.views import views
from regard.core.errors import RegardError
from regard.core.malloc import keep_freed_memory
from regard.core.registry import lookup

DEFAULT_ALLOCATOR = "--default-allocator"

BENCHMARKS = {
    **ATTENTION,
    "training": training,
    "seeding": seeding,
    "decoding": decoding,
    "language_models": language_models,
    "hierarchical": hierarchical,
    "recursive_autoencoder": recursive_autoencoder,
    "costs": costs,
    "planning": planning,
    "study_execution": study_execution,
    "study_statistics": study_statistics,
    "views": views,
    "look": look,
    "audio": audio,
    "images": images,
}


def main(names: list[str]) -> int:
    """Print every measurement; exit code 1 if a threshold is missed."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    keep = DEFAULT_ALLOCATOR not in names and keep_freed_memory()
    names = [name for name in names if name != DEFAULT_ALLOCATOR]
    allocator = "keeps freed memory" if keep else "is the default"
    print(f"one thread unless stated; the allocator {allocator}, for all systems alike")
    try:
        selected = [lookup("benchmark", name, BENCHMARKS) for name in names or BENCHMARKS]
    except RegardError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    missed = 0
    for benchmark in selected:
        try:
            for measurement in benchmark():
                print(measurement, flush=True)
                missed += not measurement.passed
        except (RegardError, ImportError) as error:
            print(f"skipped  {benchmark.__name__}: {error}", flush=True)
    print(f"{missed} threshold(s) missed" if missed else "every threshold is met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
