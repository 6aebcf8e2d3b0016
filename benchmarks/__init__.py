"""Speed and memory benchmarks, as ratios measured in one process: `python -m benchmarks`."""
