"""Spoken digits, runs against logistic regression on mean MFCCs: `python -m benchmarks.fsdd FOLDER RUN ...`

One row per test split of the Free Spoken Digit Dataset: takes 0 to 4, and each speaker left out. Accuracies
have a 95 % Wilson interval over recordings. Runs are of `audio_classification`; of several runs with one
test split it is that of their mean accuracy, with as many recordings as one has: they share them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from regard.core.formatting import counted, integer_text
from regard.data import AudioFolderReader, FeatureOptions, RowErrors
from regard.data.audio.cache import cached_features

TAKES = "takes 0-4"
FEATURES = FeatureOptions(features="mfcc", sample_rate=8000, num_bands=40, trim_db=30.0)


def baseline(reader: AudioFolderReader, speaker: str | None) -> np.ndarray:
    """Whether each test recording is classified correctly: of one speaker, or of the test split."""
    splits = reader.with_split("train"), reader.with_split("test")
    if speaker is not None:
        splits = (
            replace(splits[0], without_speakers=(speaker,)),
            replace(reader, speakers=(speaker,)),
        )
    (train, train_labels), (test, test_labels) = map(examples, splits)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000))
    found: np.ndarray = model.fit(train, train_labels).predict(test) == test_labels
    return found


def examples(reader: AudioFolderReader) -> tuple[np.ndarray, np.ndarray]:
    """The mean MFCCs of each recording, and its digit."""
    rows = list(reader.rows(errors=RowErrors()))
    means = [cached_features(row.input, FEATURES).mean(axis=0) for row in rows]
    return np.stack(means), np.array([row.target for row in rows])


def run_counts(folder: Path) -> tuple[str, int, int]:
    """The test split of a run, and how many of its recordings are correct, of how many."""
    record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    counts = np.array(record["details"]["test"]["confusion"]["counts"])
    speakers = record["spec"]["task"]["test_speakers"]
    return ", ".join(speakers) or TAKES, int(np.trace(counts)), int(counts.sum())


def cell(correct: float, total: int) -> str:
    """Accuracy with its interval; `correct` is a mean over runs."""
    rate, z = correct / total, norm.ppf(0.975)
    middle = (rate + z**2 / (2 * total)) / (1 + z**2 / total)
    half = z / (1 + z**2 / total) * (rate * (1 - rate) / total + z**2 / (4 * total**2)) ** 0.5
    return "{:.1f} % ({:.1f} to {:.1f})".format(
        *(100 * each for each in (rate, middle - half, middle + half))
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, then the mean over the speakers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="the recordings")
    parser.add_argument("runs", type=Path, nargs="*", help="run folders")
    options = parser.parse_args(arguments)
    reader = AudioFolderReader(path=options.folder, target="label")
    runs: dict[str, list[tuple[int, int]]] = {}
    for folder in options.runs:
        split, *counts = run_counts(folder)
        runs.setdefault(split, []).append((counts[0], counts[1]))
    print("| test split | runs | model | logistic regression on mean MFCC |\n|---|---|---|---|")
    means: list[list[float]] = []
    for speaker in (None, *reader.all_speakers()):
        correct = baseline(reader, speaker)
        found = runs.get(speaker or TAKES, [])
        hits, total = (sum(each) for each in zip(*found, strict=True)) if found else (0, 0)
        errors = f", {counted(total - hits, 'error')} in {integer_text(total)}"
        model = cell(hits / len(found), total // len(found)) + errors if found else "—"
        own = cell(int(correct.sum()), len(correct))
        print(f"| {speaker or TAKES} | {len(found)} | {model} | {own} |", flush=True)
        if speaker:
            means.append([hits / total if found else np.nan, correct.mean()])
    model, baselines = 100 * np.mean(means, axis=0)
    mean = "—" if np.isnan(model) else f"{model:.1f} %"
    print(f"| mean of speakers | | {mean} | {baselines:.1f} % |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
