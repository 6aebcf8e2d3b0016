"""What lies in a study's folder.

study.json              what was asked for, and what was found out before the first run
runs/KEY                the runs, each an ordinary run folder named after the hash of its spec
failures/KEY.json       why a run failed
record.json             everything the page shows, made from the runs
page.html, table.csv    the record to look at and to reckon with; figures/*.svg
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.atomic_write import write_whole
from regard.core.errors import RegardError


@dataclass(frozen=True)
class StudyFolder:
    """The paths of a study."""

    path: Path

    @property
    def study(self) -> Path:
        """What was asked for."""
        return self.path / "study.json"

    @property
    def runs(self) -> Path:
        """The folder of the runs."""
        return self.path / "runs"

    @property
    def record(self) -> Path:
        """What was found."""
        return self.path / "record.json"

    @property
    def page(self) -> Path:
        """The record as a page."""
        return self.path / "page.html"

    @property
    def table(self) -> Path:
        """The record as a table, one row a run."""
        return self.path / "table.csv"

    @property
    def figures(self) -> Path:
        """Where the pictures of the page lie."""
        return self.path / "figures"

    @property
    def agreements(self) -> Path:
        """How well runs agree with known alignments, kept because it takes a second a run."""
        return self.path / "agreements.json"

    def failure(self, key: str) -> Path:
        """Why a run failed."""
        return self.path / "failures" / f"{key}.json"

    def make(self) -> None:
        """The folder, unless something else lies there."""
        if self.path.exists() and not self.study.is_file() and any(self.path.iterdir()):
            raise RegardError(
                f"'{self.path}' holds other things than a study. Choose another folder with --out."
            )
        self.runs.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, value: Any) -> None:
        """Plain values as a whole file of JSON."""
        write_whole(path, json.dumps(value, indent=1, ensure_ascii=False))

    def read(self, path: Path) -> Any:
        """The values of a file of JSON."""
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise RegardError(
                f"'{self.path}' is not the folder of a study: it has no {path.name}. Give the folder that "
                "`regard study` named at its end."
            ) from error
        except (OSError, ValueError) as error:
            raise RegardError(
                f"'{path}' cannot be read ({error}). Run the study again: finished runs are not repeated."
            ) from error
