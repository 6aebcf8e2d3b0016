"""Recipes: TOML files with the sections of a spec, shipped in the folder `recipes`, or the user's own."""

from __future__ import annotations

import tomllib
from pathlib import Path

from regard.core.errors import RegardError
from regard.core.names import unknown_name
from regard.runs.spec import Sections

FOLDER = Path(__file__).parent / "recipes"


def shipped_recipes() -> dict[str, Path]:
    """Name → file."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def read_recipe(name: str) -> Sections:
    """A shipped recipe by name, or a file of one's own by its path, which ends in .toml."""
    shipped = shipped_recipes()
    path = shipped.get(name, Path(name))
    if name not in shipped and not name.endswith(".toml"):
        raise unknown_name("recipe", name, [*shipped, "FILE.toml"])
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RegardError(
            f"The recipe '{name}' cannot be read ({error.strerror}). Give the path of a TOML file, or "
            f"one of: {', '.join(shipped)}."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RegardError(f"The recipe '{name}' is not TOML: {error}.") from error
