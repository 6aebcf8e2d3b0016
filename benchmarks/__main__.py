"""Run the benchmarks and say which bars hold: `python -m benchmarks [NAME ...]`."""

from __future__ import annotations

import sys

import torch

from benchmarks.attention import BENCHMARKS
from regard.core.errors import RegardError
from regard.core.names import look_up


def main(names: list[str]) -> int:
    """Print every finding as it comes; the exit code says whether all bars hold."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        chosen = [look_up("benchmark", name, BENCHMARKS) for name in names or BENCHMARKS]
    except RegardError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    missed = 0
    for benchmark in chosen:
        for finding in benchmark():
            print(finding, flush=True)
            missed += not finding.holds
    print(f"{missed} bar(s) missed" if missed else "every bar holds")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
