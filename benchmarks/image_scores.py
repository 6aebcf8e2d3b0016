"""Test accuracy and AUC of runs of images with several seeds: `python -m benchmarks.image_scores RUN ...`

The mean over the runs with two 95 % intervals: over seeds (t), and over test images (percentiles of the
bootstrap: every resample has the same images for all seeds). Of two labels.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from regard.runs import load
from regard.runs.build import build_task
from regard.studies.statistics.paired import seed_interval
from regard.tasks.metrics import AUC

RESAMPLES = 2000


def test_outputs(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the two labels of every test image, and its label."""
    run = load(folder)
    task = build_task(run.spec)
    with torch.inference_mode():
        result = task.evaluate_on(run.model, task.dataset.test)
    labels = task.dataset.preprocessor.target.labels
    targets = np.array([labels.index(each) for each in task.dataset.test.references])
    return torch.as_tensor(result.outputs).double().softmax(dim=1).numpy(), targets


def scores(probabilities: np.ndarray, targets: np.ndarray) -> tuple[float, float]:
    """Accuracy in percent, and AUC."""
    accuracy = 100 * float((probabilities.argmax(axis=1) == targets).mean())
    return accuracy, AUC().of_probabilities(probabilities, targets)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", help="run folders, one per seed")
    found = [test_outputs(folder) for folder in parser.parse_args(arguments).runs]
    targets = found[0][1]
    by_seed = np.array([scores(probabilities, targets) for probabilities, _ in found])
    generator = np.random.default_rng(0)
    resampled = []
    for _ in range(RESAMPLES):
        rows = generator.integers(len(targets), size=len(targets))
        drawn = [scores(probabilities[rows], targets[rows]) for probabilities, _ in found]
        resampled.append(np.mean(drawn, axis=0))
    low, high = np.percentile(resampled, [2.5, 97.5], axis=0)
    print("| | by seed | mean | 95 % over seeds | 95 % over images |\n|---|---|---|---|---|")
    for column, (name, digits) in enumerate((("accuracy, %", 2), ("AUC", 4))):
        values = by_seed[:, column]
        seeds = seed_interval(values.tolist())
        over = f"{seeds.low:.{digits}f} to {seeds.high:.{digits}f}" if seeds else "—"
        each = ", ".join(f"{value:.{digits}f}" for value in values)
        images = f"{low[column]:.{digits}f} to {high[column]:.{digits}f}"
        print(f"| {name} | {each} | {values.mean():.{digits}f} | {over} | {images} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
