"""The run folder: its files, predictions and learning curve.

manifest.json           the key of the spec, and size and SHA-256 of every other file
spec.json               the validated spec, every option written out
preprocessor.json       vocabularies, labels, standardisation
data.json               dataset sizes and fingerprints
metrics.jsonl           loss, learning rate and validation scores by step; reproducible byte for byte
timing.jsonl            seconds, tokens per second and peak memory
checkpoint.safetensors  everything needed to resume
model.safetensors       the best checkpoint
predictions-validation.jsonl   its predictions on the validation split, with references
predictions-test.jsonl         and on the test split
record.json             the result: scores, counts, versions; written last
row_errors.txt            rows left out of the data, if there were any
pretraining             the run folder of the pre-training, if there is one
tensorboard             TensorBoard logs, with --tensorboard
page.html               the run as a page, by `regard report`; no part of the run
faithfulness.json       how faithful the methods of explain are; no part of the run

Files are written through the manifest (`core/manifest.py`) and compared with it when they are read, so
that a file that was damaged, edited or exchanged is an error. metrics.jsonl and timing.jsonl grow: until
the run is finished, their content up to the last checkpoint is compared. The manifest of the pre-training
is a file of the run. Symbolic links inside the folder are refused.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator, with_config
from typing_extensions import TypedDict

from regard.core.atomic_write import validate_writable
from regard.core.errors import RegardError
from regard.core.manifest import Content, Manifest, validate_no_link
from regard.core.records.record import parse_json
from regard.core.registry import lookup
from regard.training.process import folder_lock

EXTENDING = "extending"  # facts of the manifest
EXTENDED_FROM = "extended_from"


def as_json_text(value: Any) -> str:
    """JSON as it is written to files."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


@with_config(ConfigDict(extra="allow", strict=True))
class RecordFile(TypedDict):
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
        self.page = path / "page.html"
        self.faithfulness = path / "faithfulness.json"
        self.manifest = Manifest(path, way_out=self._way_out)

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

    @property
    def exists(self) -> bool:
        """Whether there is a run in the folder, or a part of one."""
        return any(path.exists() or path.is_symlink() for path in self._files())

    def lock(self) -> AbstractContextManager[None]:
        """An exclusive lock, held while the folder is written."""
        return folder_lock(self.path)

    def verify(
        self, *, key: str | None = None, checkpoint: bool = False, is_resumed: bool = False
    ) -> Content:
        """Raise if a file was modified, exchanged, removed or added since it was written.

        `key` must be the key of the run. The checkpoint may be missing, and is compared only with
        `checkpoint`. A run that `is_resumed` may lack what is written last: predictions and record.
        """
        for path in (*self._files(), self.pretraining.path):
            validate_no_link(path)
        content = self.manifest.read()
        if not is_resumed and EXTENDING in content.facts:
            raise RegardError(
                f"The run '{self.path}' is being extended. Continue: regard train --resume {self.path}"
            )
        if key is not None and key not in content.keys:
            raise RegardError(
                f"'{self.path}' contains another run: its key is {', '.join(content.keys)}, not {key}. It "
                "was extended, or exchanged with another. Restore it, or remove the folder and train the "
                "run again."
            )
        logs = {self.metrics, self.timing}
        names = [
            path.name
            for path in self._files()
            if path not in (self.tensorboard, self.manifest.path)
            and (path != self.checkpoint or checkpoint)
            and (path not in logs or path.name in {**content.logs, **content.files})
        ]
        inner = f"{self.pretraining.path.name}/{self.manifest.path.name}"
        last = [self.record.name, *(path.name for path in self.predictions.values())]
        return self.manifest.verify(
            [*names, *([inner] if inner in content.files else [])],
            may_be_missing=last if is_resumed else (),
        )

    def _way_out(self, name: str) -> str:
        last = (self.record, *self.predictions.values())
        if name in {path.name for path in last}:
            return (
                f"Restore it from a copy, or remove it and {self.record.name} and evaluate the run again: "
                f"regard train --resume {self.path}"
            )
        return "Restore it from a copy, or train the run again in another folder."

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
            resume = f"regard train --resume {self.path}"
            way_out = (
                f"It is finished: train it longer ({resume} --extend STEPS)"
                if self.record.exists()
                else f"Resume it ({resume})"
            )
            raise RegardError(
                f"'{self.path}' already contains a run. {way_out}, or choose another folder with --out."
            )
        validate_no_link(self.pretraining.path)
        for path in self._files():
            validate_no_link(path)
            # A manifest without a spec was left by a run that was killed at once.
            if path.exists() and path != self.manifest.path:
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
        if self.path.is_dir() and not any(self.path.iterdir()):
            self.path.rmdir()

    def _files(self) -> tuple[Path, ...]:
        """Every path a run writes; the manifest is removed last."""
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
            self.manifest.path,
        )

    def write(self, path: Path, text: str) -> None:
        """Write a text file atomically, and list it in the manifest."""
        self.manifest.replace(path, text)

    def write_json(self, path: Path, value: Any) -> None:
        """Write JSON, as `write`."""
        self.write(path, as_json_text(value))

    def write_record(self, record: dict[str, Any]) -> None:
        """Write record.json, and list the logs, which are complete."""
        self.manifest.replace(
            self.record, as_json_text(record), complete_logs=[self.metrics.name, self.timing.name]
        )

    def read_json(self, path: Path) -> Any:
        """Read a JSON file."""
        return self._parse(path, json.loads)

    def read_record(self) -> dict[str, Any]:
        """Read and validate record.json."""
        record: dict[str, Any] = parse_json(
            RecordFile,
            self._parse(self.record, str),
            problem=f"'{self.record}' is not the record of a run",
            way_out=f"Remove it and evaluate the run again: regard train --resume {self.path}",
        )
        return record

    def read_jsonl(self, path: Path) -> Any:
        """Read a JSON Lines file."""
        return self._parse(path, _json_rows)

    def read_log(self, path: Path) -> list[dict[str, Any]]:
        """The complete rows of a log that may still grow; none if it does not exist yet.

        Up to the last checkpoint it is compared with the manifest; before the first one it is not listed.
        """
        validate_no_link(path)
        if not path.is_file():
            return []
        content = self.manifest.read()
        is_listed = path.name in {**content.logs, **content.files}
        rows: list[dict[str, Any]] = self._parse(
            path,
            lambda text: _json_rows(text[: text.rfind("\n") + 1]),
            read=self.manifest.read_bytes if is_listed else Path.read_bytes,
        )
        return rows

    def _parse(
        self,
        path: Path,
        parse: Callable[[str], Any],
        *,
        read: Callable[[Path], bytes] | None = None,
    ) -> Any:
        try:
            content = (read or self.manifest.read_bytes)(path)
        except OSError as error:
            raise RegardError(
                f"'{path}' cannot be read ({error.strerror}). If the run was stopped before, resume it: "
                f"regard train --resume {self.path}"
            ) from error
        try:
            return parse(content.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise RegardError(
                f"'{path}' is not JSON ({error}). Restore it, or start a new run."
            ) from error


def _json_rows(text: str) -> list[Any]:
    # Not `splitlines`, which also splits at U+2028 inside a string.
    return [json.loads(line) for line in text.split("\n") if line]


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
    folder.write(folder.predictions[split], text)


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


class Logs(NamedTuple):
    """The rows of metrics.jsonl and timing.jsonl."""

    metrics: list[dict[str, Any]]
    timing: list[dict[str, Any]]


def read_logs(folder: RunFolder) -> Logs:
    """The logs of a run, finished or not; of one that is training, up to the last step that both have."""
    metrics, timing = folder.read_log(folder.metrics), folder.read_log(folder.timing)
    if folder.record.is_file():
        return Logs(metrics, timing)
    last = timing[-1].get("step", 0) if timing else 0
    return Logs([row for row in metrics if row.get("step", 0) <= last], timing)


class EvaluationPoint(NamedTuple):
    """A point of the learning curve: validation scores, and the budget used before. NaN scores are None."""

    step: int
    tokens: int
    flops: int
    seconds: float
    scores: dict[str, float | None]


def evaluations(folder: RunFolder, logs: Logs | None = None) -> list[EvaluationPoint]:
    """The learning curve of a run, finished or not, from its logs, which are read unless given."""
    if logs is None:
        logs = Logs(folder.read_jsonl(folder.metrics), folder.read_jsonl(folder.timing))
    try:
        seconds = {row["step"]: row["seconds"] for row in logs.timing}
        counts = {row["step"]: row for row in logs.metrics if "tokens" in row}
        return [
            EvaluationPoint(
                step=row["step"],
                tokens=counts[row["step"]]["tokens"],
                flops=counts[row["step"]]["flops"],
                seconds=seconds[row["step"]],
                scores=row["validation"],
            )
            for row in logs.metrics
            if "validation" in row
        ]
    except (KeyError, TypeError) as error:
        raise RegardError(
            f"'{folder.metrics}' and '{folder.timing}' do not match, or rows are missing ({error}). "
            "Restore them, or start a new run."
        ) from error
