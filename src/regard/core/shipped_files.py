"""TOML files that are shipped in a folder, one a name, beside which users have files of their own."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import RegardError
from regard.core.names import unknown_name


@dataclass(frozen=True)
class ShippedFiles:
    """`what` is what errors call one of them, such as "recipe"."""

    what: str
    folder: Path

    def paths(self) -> dict[str, Path]:
        """Name → file."""
        return {path.stem: path for path in sorted(self.folder.glob("*.toml"))}

    def read(self, name: str) -> dict[str, Any]:
        """What a shipped file says, by its name; or a file of one's own, whose path ends in .toml."""
        shipped = self.paths()
        if name not in shipped and not name.endswith(".toml"):
            raise unknown_name(self.what, name, [*shipped, "FILE.toml"])
        try:
            return tomllib.loads(shipped.get(name, Path(name)).read_text(encoding="utf-8"))
        except OSError as error:
            raise RegardError(
                f"The {self.what} '{name}' cannot be read ({error.strerror}). Give the path of a TOML "
                f"file, or one of: {', '.join(shipped)}."
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise RegardError(f"The {self.what} '{name}' is not TOML: {error}.") from error
