"""Spoken digits, runs against logistic regression on mean MFCCs: `python -m benchmarks.fsdd FOLDER RUN ...`

One row per test split of the Free Spoken Digit Dataset: takes 0 to 4, and each speaker left out. Accuracies
have a 95 % Wilson interval. Runs are of `audio_classification`; those of one test split are pooled.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from regard.data import AudioFolderReader, FeatureOptions, RowErrors
from regard.data.audio.cache import cached_features

TAKES = "takes 0-4"
FEATURES = FeatureOptions(features="mfcc", sample_rate=8000, num_bands=40, trim_db=30.0)


def baseline(reader: AudioFolderReader, speaker: str | None) -> np.ndarray:
    """Whether each test recording is classified correctly: of one speaker, or of the test split."""
    if speaker is None:
        splits = reader.with_split("train"), reader.with_split("test")
    else:
        splits = replace(reader, without_speakers=(speaker,)), replace(reader, speakers=(speaker,))
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


def cell(correct: int, total: int) -> str:
    """Accuracy with its interval, and the counts."""
    interval = binomtest(correct, total).proportion_ci(method="wilson")
    percents = [100 * value for value in (correct / total, interval.low, interval.high)]
    return "{:.1f} % ({:.1f} to {:.1f}), {} of {}".format(*percents, correct, total)


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
        model = cell(hits, total) if found else "—"
        own = cell(int(correct.sum()), len(correct))
        print(f"| {speaker or TAKES} | {len(found)} | {model} | {own} |", flush=True)
        if speaker:
            means.append([hits / total if found else np.nan, correct.mean()])
    print("| mean of speakers | | {:.1f} % | {:.1f} % |".format(*100 * np.mean(means, axis=0)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
