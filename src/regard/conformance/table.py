"""The conformance checks: name, module and one-line description.

A check is a public function of one of the `MODULES` with a case as its only argument; the description is
its docstring. The files are parsed, not imported, so that listing the checks does not import torch.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

# In the order in which checks are run and shown.
MODULES = (
    "declared",
    "equivalence",
    "masking",
    "numerics",
    "decoding",
    "gradients",
    "declared_cost",
)


@dataclass(frozen=True)
class Check:
    """The module of `regard.conformance` that defines the check, and what it verifies."""

    module: str
    description: str


def _checks_of(module: str) -> dict[str, Check]:
    source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    return {
        node.name: Check(module, (ast.get_docstring(node) or "").rstrip("."))
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and ast.unparse(node.args) == "case: Case"
    }


CHECKS: dict[str, Check] = {
    name: check for module in MODULES for name, check in _checks_of(module).items()
}
