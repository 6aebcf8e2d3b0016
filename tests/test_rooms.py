"""Each folder of src/regard imports only the rooms it may enter, and every file has a real name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "regard"

_LAYERS = {"core", "mechanisms", "layers"}
_MODELS = _LAYERS | {"models"}
_RUNS = _MODELS | {"data", "tasks", "training", "costs", "conformance"}
_STUDIES = _RUNS | {"runs"}
_CLAIMS = _STUDIES | {"studies"}

# room → the rooms it may import, besides itself
MAY_ENTER: dict[str, set[str]] = {
    "core": set(),
    "mechanisms": {"core"},
    "layers": {"core", "mechanisms"},
    "models": _LAYERS,
    "data": {"core"},
    "tasks": {"core", "data"},
    "training": {"core"},
    "costs": _MODELS,
    "conformance": _LAYERS,
    "runs": _RUNS,
    "studies": _STUDIES,
    "claims": _CLAIMS,
    "views": {"core"},
    "serving": {"core", "runs", "views"},
    "cli": _CLAIMS | {"claims", "views", "serving"},
}

NAMELESS = {"util", "utils", "helper", "helpers", "common", "base", "misc"}
DOTTED_NAME = re.compile(r"regard(\.\w+)+")


def faults(package: Path) -> list[str]:
    """Everything in the package's files that breaks a rule, one line each."""
    found = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).parts
        where = "/".join(parts)
        found += [
            f"{where}: '{part}' says nothing; name the thing that is shared"
            for part in parts
            if Path(part).stem.strip("_").split("_")[-1] in NAMELESS
        ]
        if len(parts) == 1:
            if path.name not in {"__init__.py", "__main__.py"}:
                found.append(f"{where}: a module belongs in a room: {', '.join(MAY_ENTER)}")
            continue  # the package's own face shows names from every room
        room = parts[0]
        if room not in MAY_ENTER:
            found.append(f"{where}: unknown room '{room}'; the rooms are: {', '.join(MAY_ENTER)}")
            continue
        allowed = MAY_ENTER[room] | {room}
        for line, target in entered(path, package=package):
            if target not in allowed:
                found.append(
                    f"{where}:{line}: room '{room}' may not import '{target}'; "
                    f"it may import: {', '.join(sorted(allowed))}"
                )
    return found


def entered(path: Path, *, package: Path) -> Iterator[tuple[int, str]]:
    """The line and room of each import of ours in a file, wherever in the file it stands.

    `from regard import MultiHead` counts as room 'regard': it would lead round the rules. A string
    that is a dotted name of ours counts too, since a lazy table turns it into an import.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=module, names=names, level=0):
                modules = [f"{module}.{alias.name}" for alias in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                folder = path.relative_to(package.parent).parts[:-level]
                stem = ".".join([*folder, *([module] if module else [])])
                modules = [f"{stem}.{alias.name}" for alias in names]
            case ast.Constant(value=str(text)) if DOTTED_NAME.fullmatch(text):
                modules = [text]
            case _:
                continue
        for name in modules:
            root, _, rest = name.partition(".")
            if root == "regard" and rest != "__version__":
                first = rest.partition(".")[0]
                is_room = first in MAY_ENTER or (package / first / "__init__.py").exists()
                yield node.lineno, first if first and is_room else "regard"


def test_the_package_keeps_to_its_rooms() -> None:
    assert faults(PACKAGE) == []


def test_every_room_is_in_the_table() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders <= set(MAY_ENTER)


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        (
            "core/a.py",
            "import regard.layers.b\n",
            "core/a.py:1: room 'core' may not import 'layers'",
        ),
        ("core/a.py", "from regard.mechanisms import b\n", "may not import 'mechanisms'"),
        ("core/a.py", "from regard import layers\n", "may not import 'layers'"),
        ("core/a.py", "from regard import MultiHead\n", "may not import 'regard'"),
        ("core/a.py", "import regard\n", "may not import 'regard'"),
        ("core/a.py", "from ..models import b\n", "may not import 'models'"),
        ("core/deep/a.py", "from ...models.b import c\n", "may not import 'models'"),
        (
            "views/a.py",
            "def f():\n    from regard.training import b\n",
            "views/a.py:2: room 'views'",
        ),
        ("views/a.py", "if 0:\n    import regard.models\n", "may not import 'models'"),
        ("data/a.py", "TABLE = {'b': 'regard.tasks.b'}\n", "may not import 'tasks'"),
        ("training/a.py", "import_module('regard.models')\n", "may not import 'models'"),
        ("attic/a.py", "", "unknown room 'attic'"),
        ("loose.py", "", "a module belongs in a room"),
        ("core/utils.py", "", "'utils.py' says nothing"),
        ("core/mask_helpers.py", "", "'mask_helpers.py' says nothing"),
        ("core/_common.py", "", "'_common.py' says nothing"),
        ("core/misc/a.py", "", "'misc' says nothing"),
    ],
)
def test_a_bad_example_is_found(tmp_path: Path, file: str, source: str, complaint: str) -> None:
    package = write(tmp_path, file=file, source=source)
    assert [fault for fault in faults(package) if complaint in fault], faults(package)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("layers/a.py", "import torch\nfrom regard.core.masks import Mask\n"),
        ("layers/a.py", "from . import b\nfrom .b import c\nfrom ..core import d\n"),
        ("runs/a.py", "from regard import __version__\nfrom regard.training import b\n"),
        ("cli/a.py", "VERBS = {'serve': 'regard.serving.page'}\n"),
        ("core/a.py", '"""Not regard.layers, which is named in a sentence."""\n'),
        ("data/common_voice.py", ""),
        ("__init__.py", "from regard.layers.multi_head import MultiHead\n"),
    ],
)
def test_a_good_example_passes(tmp_path: Path, file: str, source: str) -> None:
    assert faults(write(tmp_path, file=file, source=source)) == []


def write(folder: Path, *, file: str, source: str) -> Path:
    package = folder / "regard"
    path = package / file
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")
    return package
