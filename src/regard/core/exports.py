"""Public names of a package, imported on first use.

A package's `__init__` lists its public names once, as imports that only a type checker runs:

    if TYPE_CHECKING:
        from regard.layers.multi_head import MultiHead as MultiHead

    __all__, __getattr__, __dir__ = lazy_exports(__name__)

`from regard.layers import MultiHead` then imports that module and no other, so `import regard` and
`regard --help` do not import torch.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path


def lazy_exports(
    package: str,
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a package, from the imports in its source."""
    modules = _type_checking_imports(package)
    exported = sorted(modules)

    def import_name(name: str) -> object:
        if name not in modules:
            near = get_close_matches(name, exported, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            # With `name` set, the interpreter adds no suggestion of its own to the traceback.
            raise AttributeError(
                f"module '{package}' has no attribute '{name}'. "
                f"It exports: {', '.join(exported)}.{hint}",
                name=name,
            )
        if modules[name] == package:  # a package inside it, which importing makes an attribute
            return import_module(f"{package}.{name}")
        value: object = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)  # the next access does not come here
        return value

    def list_names() -> list[str]:
        module = sys.modules[package]
        own = (name for name, value in vars(module).items() if _is_own(package, name, value))
        return sorted({*exported, *own})

    return exported, import_name, list_names


def _is_own(package: str, name: str, value: object) -> bool:
    """Whether `dir` lists a name: dunders, and the functions, classes and tables of the `__init__`."""
    if name.startswith("_"):
        return name.startswith("__")
    is_table = name.isupper() and name != "TYPE_CHECKING"
    return is_table or getattr(value, "__module__", None) == package


def _type_checking_imports(package: str) -> dict[str, str]:
    """Exported name → module, from the `if TYPE_CHECKING` block of the package's `__init__`."""
    source = Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8")
    return {
        alias.name: str(statement.module)
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
        if alias.asname == alias.name
    }
