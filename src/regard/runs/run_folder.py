"""What lies in a run's folder.

spec.json               what was asked for, in full
vocabulary.json         text to token numbers and back
data.json               how much data there is, with fingerprints that show any later change
metrics.jsonl           loss, learning rate and dev scores, step by step; the same bits every time
timing.jsonl            how long it took, which is never the same
checkpoint.safetensors  where to go on from
model.safetensors       the weights that were kept
predictions-dev.jsonl   what those weights wrote for every held-out source, beside the right answers
predictions-test.jsonl
record.json             what came of it: scores, counts, versions; written last
bad_rows.txt            rows left out of the data, if there were any
pretraining             the folder of another run, if the model learned something else first
tensorboard             a folder of events, if they were asked for
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.core.errors import RegardError
from regard.core.whole_file import require_writable, write_whole


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
        self.predictions = {part: path / f"predictions-{part}.jsonl" for part in ("dev", "test")}
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
