"""The command line answers at once: no torch, and little processor time."""

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

# Runs a command line in the interpreter itself, so that its modules can be asked for afterwards.
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
    """The modules that a fresh interpreter has imported after running some code."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].removeprefix("modules:").split())


def processor_seconds(command: list[str]) -> float:
    """User and system time of one run of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["list"], ["list", "--json"]])
def test_the_command_does_not_import_torch(arguments: list[str]) -> None:
    modules = modules_after(IN_PROCESS.format(arguments=arguments, report=REPORT))
    assert "regard.cli.main" in modules
    assert not modules & {"torch", "numpy", "jaxtyping", "rich"}


# What every package needs to list its public names.
EXPORTS = {"regard", "regard.core", "regard.core.exports"}


def test_import_regard_imports_nothing_else_of_ours() -> None:
    modules = modules_after(f"import sys, regard\n{REPORT}")
    assert "torch" not in modules
    assert {name for name in modules if name.startswith("regard")} == EXPORTS


def test_the_pytest_plug_in_imports_nothing_else_of_ours() -> None:
    """It is imported before conftest.py: what it imported would go without checked shapes."""
    modules = modules_after(f"import sys, regard.conformance.pytest_plugin\n{REPORT}")
    assert "torch" not in modules
    assert {name for name in modules if name.startswith("regard")} == EXPORTS | {
        "regard.conformance",
        "regard.conformance.pytest_plugin",
    }


@pytest.mark.parametrize("arguments", [["--help"], ["list"]])
def test_the_command_is_quick(arguments: list[str]) -> None:
    """The best of several tries: the others measure what else the machine is doing."""
    seconds = min(processor_seconds([COMMAND, *arguments]) for _ in range(TRIES))
    assert seconds < LIMIT_SECONDS


@pytest.mark.parametrize("name", regard.__all__)
def test_every_export_arrives_on_first_use(name: str) -> None:
    value = getattr(regard, name)
    assert getattr(value, "__name__", name) == name
    assert name in dir(regard)


def test_an_unknown_export_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'MultiHed'\. It exports: .*MultiHead"):
        regard.MultiHed  # noqa: B018
