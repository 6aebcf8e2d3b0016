"""Speed and memory against their bars, as ratios measured in one process: `python -m benchmarks`."""
