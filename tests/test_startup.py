"""Startup time: the command line imports no torch and takes little CPU time."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

import regard

COMMAND = str(Path(sys.executable).parent / "regard")
LIMIT_SECONDS = 0.4
TRIES = 5

# Runs a command in the interpreter, then prints its modules.
IN_PROCESS = """
import sys
from regard.cli.main import main
try:
    main({arguments!r})
except SystemExit as stop:
    assert not stop.code, stop.code
{report}
"""
REPORT = "print('modules:', *sorted(sys.modules))"


def modules_after(code: str) -> set[str]:
    """The modules imported by a fresh interpreter after running some code."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].removeprefix("modules:").split())


def cpu_seconds(command: list[str]) -> float:
    """User and system time of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["list"], ["list", "--json"], ["list", "models"]]
)
def test_command_does_not_import_torch(arguments: list[str]) -> None:
    modules = modules_after(IN_PROCESS.format(arguments=arguments, report=REPORT))
    assert "regard.cli.main" in modules
    assert not modules & {"torch", "numpy", "jaxtyping", "rich"}


# What the lazy exports of every package need.
EXPORTS = {"regard", "regard.core", "regard.core.exports"}


def test_import_regard_imports_no_other_module() -> None:
    modules = modules_after(f"import sys, regard\n{REPORT}")
    assert "torch" not in modules
    assert {name for name in modules if name.startswith("regard")} == EXPORTS


def test_pytest_plugin_imports_no_other_module() -> None:
    """It is imported before conftest.py, so its imports would not have shape checks."""
    modules = modules_after(f"import sys, regard.conformance.pytest_plugin\n{REPORT}")
    assert "torch" not in modules
    assert {name for name in modules if name.startswith("regard")} == EXPORTS | {
        "regard.conformance",
        "regard.conformance.pytest_plugin",
    }


@pytest.mark.parametrize("arguments", [["--help"], ["list"]])
def test_startup_time(arguments: list[str]) -> None:
    """The minimum of several runs, against noise."""
    seconds = min(cpu_seconds([COMMAND, *arguments]) for _ in range(TRIES))
    assert seconds < LIMIT_SECONDS


@pytest.mark.parametrize("name", regard.__all__)
def test_lazy_exports(name: str) -> None:
    value = getattr(regard, name)
    assert getattr(value, "__name__", name).rpartition(".")[2] == name
    assert name in dir(regard)


def test_unknown_export() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'MultiHed'\. It exports: .*MultiHead"):
        regard.MultiHed  # noqa: B018
