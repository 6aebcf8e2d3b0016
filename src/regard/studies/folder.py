"""The study folder.

study.json                  the spec of the study, and profiles of its variants
runs/KEY                    run folders, named after the hash of their spec
failures/KEY.json           why a run failed, with traceback
record.json                 the result: scores, intervals, verdicts
alignment_agreement.json    cached agreement of attention with known alignments
page.html, table.csv        the result as a page and as a table; figures/*.svg
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.atomic_write import atomic_write
from regard.core.errors import RegardError


@dataclass(frozen=True)
class StudyFolder:
    """The paths of a study."""

    path: Path

    @property
    def study(self) -> Path:
        """The spec of the study."""
        return self.path / "study.json"

    @property
    def runs(self) -> Path:
        """The folder of the runs."""
        return self.path / "runs"

    @property
    def record(self) -> Path:
        """The result."""
        return self.path / "record.json"

    @property
    def page(self) -> Path:
        """The result as a page."""
        return self.path / "page.html"

    @property
    def table(self) -> Path:
        """The result as CSV, one row per run."""
        return self.path / "table.csv"

    @property
    def figures(self) -> Path:
        """The figures of the page as SVG."""
        return self.path / "figures"

    @property
    def alignment_agreement(self) -> Path:
        """Cached agreement of attention with known alignments, by run."""
        return self.path / "alignment_agreement.json"

    def failure(self, key: str) -> Path:
        """The reason why a run failed."""
        return self.path / "failures" / f"{key}.json"

    def make(self) -> None:
        """Create the folder; raises if it has other content."""
        if self.path.exists() and not self.study.is_file() and any(self.path.iterdir()):
            raise RegardError(
                f"'{self.path}' is not empty and not a study folder. Choose another folder with --out."
            )
        self.runs.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, value: Any) -> None:
        """Write JSON atomically."""
        atomic_write(path, json.dumps(value, indent=1, ensure_ascii=False))

    def read(self, path: Path) -> Any:
        """Read a JSON file."""
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise RegardError(
                f"'{self.path}' is not a study folder: it has no {path.name}. Give the folder printed by "
                "`regard study`."
            ) from error
        except (OSError, ValueError) as error:
            raise RegardError(
                f"'{path}' cannot be read ({error}). Run the study again: finished runs are not repeated."
            ) from error
