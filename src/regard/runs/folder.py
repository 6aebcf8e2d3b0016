"""The run folder: its files, predictions and learning curve.

spec.json               the validated spec, every option written out
preprocessor.json       vocabularies, labels, standardisation
data.json               dataset sizes and fingerprints
metrics.jsonl           loss, learning rate and validation scores by step; reproducible byte for byte
timing.jsonl            seconds and tokens per second
checkpoint.safetensors  everything needed to resume
model.safetensors       the best checkpoint
predictions-validation.jsonl   its predictions on the validation split, with references
predictions-test.jsonl         and on the test split
record.json             the result: scores, counts, versions; written last
row_errors.txt            rows left out of the data, if there were any
pretraining             the run folder of the pre-training, if there is one
tensorboard             TensorBoard logs, with --tensorboard
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator, with_config
from typing_extensions import TypedDict

from regard.core.atomic_write import atomic_write, validate_writable
from regard.core.errors import RegardError
from regard.core.records.record import parse_json
from regard.core.registry import lookup


@with_config(ConfigDict(extra="allow", strict=True))
class RunRecord(TypedDict):
    """What others read of record.json; it has more."""

    spec: dict[str, Any]
    scores: dict[str, dict[str, float | None]]
    outcome: dict[str, Any]
    data: dict[str, Any]
    details: NotRequired[dict[str, Any]]


class RunFolder:
    """The paths of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spec = path / "spec.json"
        self.preprocessor = path / "preprocessor.json"
        self.data = path / "data.json"
        self.metrics = path / "metrics.jsonl"
        self.timing = path / "timing.jsonl"
        self.checkpoint = path / "checkpoint.safetensors"
        self.model = path / "model.safetensors"
        self.predictions = {
            split: path / f"predictions-{split}.jsonl" for split in ("validation", "test")
        }
        self.record = path / "record.json"
        self.row_errors = path / "row_errors.txt"
        self.tensorboard = path / "tensorboard"

    @property
    def pretraining(self) -> RunFolder:
        """The run folder of the pre-training."""
        return RunFolder(self.path / "pretraining")

    @classmethod
    def existing(cls, path: Path) -> RunFolder:
        """The folder of an existing run."""
        folder = cls(path)
        if not folder.spec.is_file():
            raise RegardError(
                f"'{path}' is not a run: it has no spec.json. Give the folder printed by `regard train`, "
                "such as runs/pronounce-1."
            )
        return folder

    @classmethod
    def next_free(cls, name: str, *, parent: Path = Path("runs")) -> RunFolder:
        """`runs/NAME-1`, or the first free number."""
        number = 1
        while (parent / f"{name}-{number}").exists():
            number += 1
        return cls(parent / f"{name}-{number}")

    def validate_new(self) -> None:
        """Raise if the folder contains a run, or files that a run would overwrite."""
        if self.spec.exists():
            raise RegardError(
                f"'{self.path}' already contains a run. Resume it (regard train --resume {self.path}), or "
                "choose another folder with --out."
            )
        for path in self._files():
            if path.exists():
                raise RegardError(
                    f"'{path}' already exists and would be overwritten. Choose another folder with --out."
                )
        if self.path.exists() and not self.path.is_dir():
            raise RegardError(f"'{self.path}' is a file. Choose a folder with --out.")
        validate_writable(self.spec)

    def make(self) -> None:
        """Create the folder if needed."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RegardError(
                f"The folder '{self.path}' cannot be created ({error.strerror}). Choose another with --out."
            ) from error

    def clear(self) -> None:
        """Remove the files of a run that failed before its first checkpoint."""
        for path in self._files():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()

    def _files(self) -> tuple[Path, ...]:
        """Every path a run writes."""
        return (
            self.spec,
            self.preprocessor,
            self.data,
            self.metrics,
            self.timing,
            self.checkpoint,
            self.model,
            *self.predictions.values(),
            self.record,
            self.row_errors,
            self.tensorboard,
        )

    def write_json(self, path: Path, value: Any) -> None:
        """Write JSON atomically."""
        atomic_write(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def read_json(self, path: Path) -> Any:
        """Read a JSON file."""
        return self._parse(path, json.loads)

    def read_record(self) -> dict[str, Any]:
        """Read and validate record.json."""
        record: dict[str, Any] = parse_json(
            RunRecord,
            self._parse(self.record, str),
            problem=f"'{self.record}' is not the record of a run",
            way_out=f"Remove it and evaluate the run again: regard train --resume {self.path}",
        )
        return record

    def read_jsonl(self, path: Path) -> Any:
        """Read a JSON Lines file."""
        # Not `splitlines`, which also splits at U+2028 inside a string.
        return self._parse(
            path, lambda text: [json.loads(line) for line in text.split("\n") if line]
        )

    def _parse(self, path: Path, parse: Callable[[str], Any]) -> Any:
        try:
            return parse(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise RegardError(
                f"'{path}' cannot be read ({error.strerror}). If the run was stopped before, resume it: "
                f"regard train --resume {self.path}"
            ) from error
        except (ValueError, RecursionError) as error:
            raise RegardError(
                f"'{path}' is not JSON ({error}). Restore it, or start a new run."
            ) from error


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """Predictions on one split: texts, labels, numbers or lists of tokens, as the task predicts them.

    One row per item: {"input": "cat", "prediction": "K AE T", "references": ["K AE T"]}

    `inputs` are the printable names of the items. A list of references is read as a tuple of alternatives
    where predictions are texts.
    """

    inputs: tuple[str, ...]
    predictions: tuple[Any, ...]
    references: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.inputs)


def write_predictions(
    folder: RunFolder,
    split: str,
    *,
    inputs: Sequence[str],
    predictions: Sequence[Any],
    references: Sequence[Any],
) -> None:
    """Write the predictions on a split; an empty split gives an empty file."""
    rows = (
        {"input": name, "prediction": prediction, "references": reference}
        for name, prediction, reference in zip(inputs, predictions, references, strict=True)
    )
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    atomic_write(folder.predictions[split], text)


def read_predictions(folder: RunFolder, split: str = "test") -> Predictions:
    """The predictions of a finished run on "validation" or "test"."""
    path = lookup("split", split, folder.predictions)
    if folder.record.is_file() and not path.is_file():
        raise RegardError(
            f"The finished run '{folder.path}' has no {path.name}. Remove its record.json and evaluate it "
            f"again: regard train --resume {folder.path}"
        )
    try:
        rows = [PredictionRow.model_validate(row) for row in folder.read_jsonl(path)]
    except ValidationError as error:
        raise RegardError(
            f"'{path}' has a row without input, prediction and references. Restore it, or remove it "
            f"and {folder.record.name}, and evaluate the run again: regard train --resume {folder.path}"
        ) from error
    return Predictions(
        inputs=tuple(row.input for row in rows),
        predictions=tuple(row.prediction for row in rows),
        references=tuple(
            tuple(row.references)
            if isinstance(row.prediction, str) and isinstance(row.references, list)
            else row.references
            for row in rows
        ),
    )


class PredictionRow(BaseModel):
    """A row of a predictions file."""

    model_config = ConfigDict(strict=True)

    input: str
    prediction: str | float | list[str]
    references: str | float | list[str]

    @model_validator(mode="after")
    def _references_fit(self) -> Self:
        several = isinstance(self.references, list)
        if several and (
            isinstance(self.prediction, float)
            or (isinstance(self.prediction, str) and not self.references)
        ):
            raise ValueError("the references do not fit the prediction")
        return self


class EvaluationPoint(NamedTuple):
    """A point of the learning curve: validation scores, and the budget used before. NaN scores are None."""

    step: int
    tokens: int
    flops: int
    seconds: float
    scores: dict[str, float | None]


def evaluations(folder: RunFolder) -> list[EvaluationPoint]:
    """The learning curve of a run, finished or not, from metrics.jsonl and timing.jsonl."""
    rows: list[dict[str, Any]] = folder.read_jsonl(folder.metrics)
    timing: list[dict[str, Any]] = folder.read_jsonl(folder.timing)
    try:
        seconds = {row["step"]: row["seconds"] for row in timing}
        counts = {row["step"]: row for row in rows if "tokens" in row}
        return [
            EvaluationPoint(
                step=row["step"],
                tokens=counts[row["step"]]["tokens"],
                flops=counts[row["step"]]["flops"],
                seconds=seconds[row["step"]],
                scores=row["validation"],
            )
            for row in rows
            if "validation" in row
        ]
    except (KeyError, TypeError) as error:
        raise RegardError(
            f"'{folder.metrics}' and '{folder.timing}' do not match, or rows are missing ({error}). "
            "Restore them, or start a new run."
        ) from error
