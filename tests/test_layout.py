"""The layout of src/regard: who may import whom, sizes of files and folders, names of files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "regard"

MAX_FILES = 20  # in one folder
MAX_LINES = 500  # in one file

_LAYERS = {"core", "mechanisms", "layers"}
_MODELS = _LAYERS | {"models"}
_RUNS = _MODELS | {"data", "tasks", "training", "costs", "conformance"}
_EXPLAIN = _RUNS | {"runs"}
_STUDIES = _EXPLAIN | {"explain"}
_CLAIMS = _STUDIES | {"studies"}

# package → the packages it may import, besides itself
MAY_IMPORT: dict[str, set[str]] = {
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
    "explain": _EXPLAIN,
    "studies": _STUDIES,
    "claims": _CLAIMS | {"views"},
    "views": {"core"},
    "serving": {"core", "runs", "explain", "views"},
    "integrations": _EXPLAIN | {"explain"},
    "api": _CLAIMS | {"claims", "views", "serving", "integrations"},
    "cli": _CLAIMS | {"claims", "views", "serving", "integrations", "api"},
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
                found.append(f"{where}: a module belongs in a package: {', '.join(MAY_IMPORT)}")
            continue  # the public names of regard come from every package
        name = parts[0]
        if name not in MAY_IMPORT:
            found.append(
                f"{where}: unknown package '{name}'; the packages are: {', '.join(MAY_IMPORT)}"
            )
            continue
        allowed = MAY_IMPORT[name] | {name}
        for line, target in imported(path, package=package):
            if target not in allowed:
                found.append(
                    f"{where}:{line}: package '{name}' may not import '{target}'; "
                    f"it may import: {', '.join(sorted(allowed))}"
                )
    return found


def imported(path: Path, *, package: Path) -> Iterator[tuple[int, str]]:
    """The line and package of each import of regard in a file, at any level of nesting.

    `from regard import MultiHead` counts as package 'regard': it would bypass the rules. A string
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
                is_package = first in MAY_IMPORT or (package / first / "__init__.py").exists()
                yield node.lineno, first if first and is_package else "regard"


def test_import_directions() -> None:
    assert faults(PACKAGE) == []


def test_every_package_has_a_rule() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders <= set(MAY_IMPORT)


def test_folders_fit_on_a_screen() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    counts = {str(folder): len(list(folder.glob("*.py"))) for folder in folders}
    assert {name: count for name, count in counts.items() if count > MAX_FILES} == {}


def test_files_are_not_too_long() -> None:
    lines = {str(path): len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}


def test_no_two_files_import_each_other() -> None:
    modules = {module_name(path): path for path in PACKAGE.rglob("*.py")}
    imports = {name: imported_modules(path) & set(modules) for name, path in modules.items()}
    assert [(a, b) for a in imports for b in imports[a] if a < b and a in imports[b]] == []


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found - {module_name(path)}


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        (
            "core/a.py",
            "import regard.layers.b\n",
            "core/a.py:1: package 'core' may not import 'layers'",
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
            "views/a.py:2: package 'views'",
        ),
        ("views/a.py", "if 0:\n    import regard.models\n", "may not import 'models'"),
        ("data/a.py", "TABLE = {'b': 'regard.tasks.b'}\n", "may not import 'tasks'"),
        ("training/a.py", "import_module('regard.models')\n", "may not import 'models'"),
        ("attic/a.py", "", "unknown package 'attic'"),
        ("loose.py", "", "a module belongs in a package"),
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
