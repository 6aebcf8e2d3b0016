"""Studies as TOML files: those shipped in the folder `shipped`, one a file, or the user's own."""

from __future__ import annotations

from pathlib import Path

from regard.core.shipped_files import ShippedFiles

STUDIES = ShippedFiles("study", Path(__file__).parent / "shipped")
shipped_studies = STUDIES.paths
read_study = STUDIES.read
