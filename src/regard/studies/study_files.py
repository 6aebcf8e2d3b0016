"""Studies as TOML files: those shipped in the folder `shipped`, one a file, or the user's own."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from regard.core.errors import RegardError
from regard.core.names import unknown_name

FOLDER = Path(__file__).parent / "shipped"


def shipped_studies() -> dict[str, Path]:
    """Name → file."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def read_study(name: str) -> dict[str, Any]:
    """The sections of a shipped study by its name, or of a file of one's own, which ends in .toml."""
    shipped = shipped_studies()
    if name not in shipped and not name.endswith(".toml"):
        raise unknown_name("study", name, [*shipped, "FILE.toml"])
    try:
        return tomllib.loads(shipped.get(name, Path(name)).read_text(encoding="utf-8"))
    except OSError as error:
        raise RegardError(
            f"The study '{name}' cannot be read ({error.strerror}). Give the path of a TOML file, or one "
            f"of: {', '.join(shipped)}."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RegardError(f"The study '{name}' is not TOML: {error}.") from error
