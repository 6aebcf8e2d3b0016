"""The study folder.

manifest.json               size and SHA-256 of the JSON files, and the keys of the finished runs
study.json                  the spec of the study, and profiles of its variants
runs/KEY                    run folders, named after the hash of their spec
failures/KEY.json           why a run failed, with traceback
record.json                 the result: scores, intervals, verdicts
alignment_agreement.json    cached agreement of attention with known alignments
page.html, table.csv        the result as a page and as a table; figures/*.svg

The JSON files are written through the manifest (`core/manifest.py`) and compared with it when they are
read. Every run folder has a manifest of its own. Symbolic links inside the folder are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.atomic_write import TEMPORARY_PREFIX, remove_temporary_files
from regard.core.errors import RegardError
from regard.core.manifest import MANIFEST, Manifest, validate_no_link
from regard.runs.folder import as_json_text
from regard.training.process import folder_lock

FINISHED = "finished"  # a fact of the manifest
LOCK_TIMEOUT = 30.0


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

    @property
    def failures(self) -> Path:
        """The folder of failures."""
        return self.path / "failures"

    def failure(self, key: str) -> Path:
        """The reason why a run failed."""
        return self.failures / f"{key}.json"

    @property
    def manifest(self) -> Manifest:
        """The manifest of the JSON files."""
        return Manifest(self.path, way_out=self._way_out)

    def _way_out(self, name: str) -> str:
        if name == self.record.name:
            return f"Restore it from a copy, or compare the runs again: regard report {self.path}"
        return (
            "Restore it from a copy, or remove it and run the study again: finished runs are kept."
        )

    def make(self) -> None:
        """Create the folder, or clean up after a killed study; raises if it has other content."""
        if self.path.exists() and not self.study.is_file() and not self._is_empty():
            raise RegardError(
                f"'{self.path}' is not empty and not a study folder. Choose another folder with --out."
            )
        self.validate_links()
        self.runs.mkdir(parents=True, exist_ok=True)
        for folder in (self.path, self.failures, self.figures):
            remove_temporary_files(folder)
        if not self.study.is_file() and not self.manifest.path.exists():
            self.manifest.create()

    def _is_empty(self) -> bool:
        """Whether it has no files, or those of a study without its study.json."""
        own = {path.name for path in (*self._files(), self.runs, self.failures, self.figures)}
        names = {path.name for path in self.path.iterdir()}
        others = {name for name in names - own if not name.startswith(TEMPORARY_PREFIX)}
        is_ours = MANIFEST in names or not self.runs.is_dir() or not any(self.runs.iterdir())
        return not others and is_ours

    def _files(self) -> tuple[Path, ...]:
        files = (self.study, self.record, self.page, self.table, self.alignment_agreement)
        return (*files, self.manifest.path)

    def validate_links(self) -> None:
        """Raise if a file or folder that is read or written is a symbolic link."""
        folders = (self.runs, self.failures, self.figures)
        for path in (*self._files(), *folders):
            validate_no_link(path)
        for folder in folders:
            for path in folder.iterdir() if folder.is_dir() else ():
                validate_no_link(path)

    @contextmanager
    def _written(self) -> Iterator[Manifest]:
        """The manifest, locked: a study and a report may write at the same time."""
        with folder_lock(self.path, timeout=LOCK_TIMEOUT):
            if not self.study.is_file() and not self.manifest.path.exists():
                self.manifest.create()
            yield self.manifest

    def write(self, path: Path, value: Any) -> None:
        """Write JSON atomically."""
        self.write_text(path, as_json_text(value))

    def write_text(self, path: Path, text: str) -> None:
        """Write a text file atomically."""
        with self._written() as manifest:
            manifest.replace(path, text)

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""
        name = path.relative_to(self.path).as_posix()
        with self._written() as manifest:
            if path.exists() or path.is_symlink() or name in manifest.read().files:
                manifest.remove([path])

    def is_listed(self, path: Path) -> bool:
        """Whether the file was written."""
        return path.relative_to(self.path).as_posix() in self.manifest.read().files

    def finished_keys(self) -> set[str]:
        """The keys of runs that a record of the study had."""
        return set(self.manifest.read().facts.get(FINISHED, ()))

    def set_finished(self, keys: Iterable[str]) -> None:
        """Remember the runs that are finished, so that a missing one is noticed."""
        with self._written() as manifest:
            manifest.set_facts(**{FINISHED: sorted(keys)})

    def read(self, path: Path) -> Any:
        """Read a JSON file."""
        text = self.read_text(path)
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RegardError(
                f"'{path}' cannot be read ({error}). Run the study again: finished runs are not repeated."
            ) from error

    def read_text(self, path: Path) -> str:
        """Read a file as it was written."""
        try:
            if not self.study.is_file() and not self.manifest.path.exists():
                raise FileNotFoundError
            return self.manifest.read_bytes(path).decode("utf-8")
        except FileNotFoundError as error:
            raise RegardError(
                f"'{self.path}' is not a study folder: it has no {path.name}. Give the folder printed by "
                "`regard study`."
            ) from error
