"""What lies in a run's folder.

spec.json               what was asked for, in full
vocabulary.json         text to token numbers and back
data.json               how much data there is, with fingerprints that show any later change
metrics.jsonl           loss, learning rate and validation scores, step by step; the same bits every time
timing.jsonl            how long it took, which is never the same
checkpoint.safetensors  where to go on from
model.safetensors       the weights that were kept
predictions-validation.jsonl   what those weights wrote for every held-out source, beside the right answers
predictions-test.jsonl
record.json             what came of it: scores, counts, versions; written last
bad_rows.txt            rows left out of the data, if there were any
pretraining             the folder of another run, if the model learned something else first
tensorboard             a folder of events, if they were asked for
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.atomic_write import require_writable, write_whole
from regard.core.errors import RegardError
from regard.core.registry import look_up


class RunFolder:
    """The files of one run, by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spec = path / "spec.json"
        self.vocabulary = path / "vocabulary.json"
        self.data = path / "data.json"
        self.metrics = path / "metrics.jsonl"
        self.timing = path / "timing.jsonl"
        self.checkpoint = path / "checkpoint.safetensors"
        self.model = path / "model.safetensors"
        self.predictions = {
            part: path / f"predictions-{part}.jsonl" for part in ("validation", "test")
        }
        self.record = path / "record.json"
        self.bad_rows = path / "bad_rows.txt"
        self.tensorboard = path / "tensorboard"

    @property
    def pretraining(self) -> RunFolder:
        """The run that came before, inside this one."""
        return RunFolder(self.path / "pretraining")

    @classmethod
    def existing(cls, path: Path) -> RunFolder:
        """The folder of a run that was begun before."""
        folder = cls(path)
        if not folder.spec.is_file():
            raise RegardError(
                f"'{path}' is not a run: it has no spec.json. Give the folder that `regard train` named, "
                "such as runs/pronounce-1."
            )
        return folder

    @classmethod
    def next_free(cls, name: str, *, parent: Path = Path("runs")) -> RunFolder:
        """`runs/NAME-1`, or the first number that is free."""
        number = 1
        while (parent / f"{name}-{number}").exists():
            number += 1
        return cls(parent / f"{name}-{number}")

    def require_new(self) -> None:
        """Refuse a folder that holds a run already, or files a run would write over."""
        if self.spec.exists():
            raise RegardError(
                f"'{self.path}' already holds a run. Go on with it (regard train --resume {self.path}), "
                "or choose another folder with --out."
            )
        for own in self._own():
            if own.exists():
                raise RegardError(
                    f"'{own}' is there already, and a run would write over it. Choose another folder "
                    "with --out."
                )
        if self.path.exists() and not self.path.is_dir():
            raise RegardError(f"'{self.path}' is a file. Choose a folder with --out.")
        require_writable(self.spec)

    def make(self) -> None:
        """Make the folder, if it is not there."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RegardError(
                f"The folder '{self.path}' cannot be made ({error.strerror}). Choose another with --out."
            ) from error

    def clear(self) -> None:
        """Remove what a run wrote that never got under way; `require_new` saw that it is all its own."""
        for own in self._own():
            if own.is_dir():
                shutil.rmtree(own, ignore_errors=True)
            else:
                own.unlink(missing_ok=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()

    def _own(self) -> tuple[Path, ...]:
        """Everything that a run writes."""
        return (
            self.spec,
            self.vocabulary,
            self.data,
            self.metrics,
            self.timing,
            self.checkpoint,
            self.model,
            *self.predictions.values(),
            self.record,
            self.bad_rows,
            self.tensorboard,
        )

    def write_json(self, path: Path, value: Any) -> None:
        """Write JSON so that a reader finds the old file or the new one."""
        write_whole(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def read_json(self, path: Path) -> Any:
        """Read JSON back."""
        return self._parsed(path, json.loads)

    def read_rows(self, path: Path) -> Any:
        """Read a file with a JSON value on every line."""
        # Not `splitlines`: a text may hold what ends a line elsewhere, such as U+2028.
        return self._parsed(
            path, lambda text: [json.loads(line) for line in text.split("\n") if line]
        )

    def _parsed(self, path: Path, parse: Callable[[str], Any]) -> Any:
        try:
            return parse(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise RegardError(
                f"'{path}' cannot be read ({error.strerror}). The run was perhaps stopped before it was "
                f"written: regard train --resume {self.path}"
            ) from error
        except (ValueError, RecursionError) as error:
            raise RegardError(
                f"'{path}' is not JSON ({error}). Restore it, or train the run anew."
            ) from error


# What a finished run wrote for every held-out source, kept beside the right answers.
#
# {"source": "cat", "predicted": "K AE T", "answers": ["K AE T"]}       one row an item, in their
# order
#
# Whatever is asked later about single items is answered from these rows, without the model.


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """The items of one part; `answers[i]` are the right outputs for `sources[i]`."""

    sources: tuple[str, ...]
    predicted: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.sources)


def write_predictions(
    folder: RunFolder,
    part: str,
    *,
    sources: Sequence[str],
    predicted: Sequence[str],
    answers: Sequence[Sequence[str]],
) -> None:
    """Write the file of a part; one without items has a file without rows."""
    rows = (
        {"source": source, "predicted": written, "answers": list(right)}
        for source, written, right in zip(sources, predicted, answers, strict=True)
    )
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_whole(folder.predictions[part], text)


def read_predictions(folder: RunFolder, part: str = "test") -> Predictions:
    """The predictions of a finished run on "validation" or "test"."""
    path = look_up("part", part, folder.predictions)
    if folder.record.is_file() and not path.is_file():
        raise RegardError(
            f"The run '{folder.path}' was finished without keeping its predictions: it has no "
            f"{path.name}. Remove its record.json and score it again: "
            f"regard train --resume {folder.path}"
        )
    rows = folder.read_rows(path)
    if not all(map(_is_row, rows)):
        raise RegardError(
            f"'{path}' has a row that is not a source, a prediction and answers. Restore it, or remove "
            f"it and {folder.record.name}, and score the run again: regard train --resume {folder.path}"
        )
    return Predictions(
        sources=tuple(row["source"] for row in rows),
        predicted=tuple(row["predicted"] for row in rows),
        answers=tuple(tuple(row["answers"]) for row in rows),
    )


def _is_row(row: Any) -> bool:
    match row:
        case {"source": str(), "predicted": str(), "answers": [*answers]}:
            return bool(answers) and all(isinstance(answer, str) for answer in answers)
    return False


# A run's scores on the part held out for development, and what had been spent by each of them.
#
# `metrics.jsonl` holds the scores, and the tokens and operations in the row of the same step before
# them; the clock stands in `timing.jsonl` alone. Here they are put together, for a curve against
# any budget.


class Evaluated(NamedTuple):
    """One evaluation; what it took itself is not counted yet. A score may be None: it was no number."""

    step: int
    tokens: int
    operations: int
    seconds: float
    scores: dict[str, float | None]


def evaluations(folder: RunFolder) -> list[Evaluated]:
    """All of a run, finished or not, in their order."""
    rows: list[dict[str, Any]] = folder.read_rows(folder.metrics)
    timing: list[dict[str, Any]] = folder.read_rows(folder.timing)
    try:
        seconds = {row["step"]: row["seconds"] for row in timing}
        counts = {row["step"]: row for row in rows if "tokens" in row}
        return [
            Evaluated(
                step=row["step"],
                tokens=counts[row["step"]]["tokens"],
                operations=counts[row["step"]]["operations"],
                seconds=seconds[row["step"]],
                scores=row["validation"],
            )
            for row in rows
            if "validation" in row
        ]
    except (KeyError, TypeError) as error:
        raise RegardError(
            f"'{folder.metrics}' and '{folder.timing}' do not fit, or rows are missing ({error}). "
            "Restore them, or train the run anew."
        ) from error
