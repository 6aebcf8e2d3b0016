"""The checks as pytest tests: `parametrize_checks` and `--regard-check`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_attention.py"

DECORATED = """
from my_attention import CosineAttention
from regard.conformance import parametrize_checks

class Doubled(CosineAttention):
    def attend(self, *args):
        return 2 * super().attend(*args)

CHOSEN = ["forward_equals_weights", "rejects_overlong", "state_form"]

@parametrize_checks(CosineAttention, only=CHOSEN, options={"temperature": 3.0})
def test_sound(check):
    check()

@parametrize_checks(Doubled, only=CHOSEN, seed=4)
def test_broken(check):
    check()
"""


def pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-rfs", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_decorator_makes_a_test_of_every_check(tmp_path: Path) -> None:
    (tmp_path / "my_attention.py").write_text(EXAMPLE.read_text(encoding="utf-8"))
    (tmp_path / "test_mine.py").write_text(DECORATED)
    shown = pytest_in(tmp_path).stdout
    assert "1 failed, 3 passed, 2 skipped" in shown
    assert "FAILED test_mine.py::test_broken[forward_equals_weights]" in shown
    assert "Doubled fails forward_equals_weights (seed 4): " in shown
    assert "it declares no max_length" in shown


def test_the_option_adds_the_checks_to_a_run(tmp_path: Path) -> None:
    target = f"{EXAMPLE}:CosineAttention"
    done = pytest_in(tmp_path, "--regard-check", target, "-k", "state or overlong", "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CosineAttention[state_select] PASSED" in done.stdout
    assert "CosineAttention[rejects_overlong] SKIPPED" in done.stdout
    assert "deselected" in done.stdout


def test_a_mistake_in_the_option_is_a_usage_error(tmp_path: Path) -> None:
    done = pytest_in(tmp_path, "--regard-check", "nowhere.py:Mine")
    assert done.returncode == 4
    assert "nowhere.py" in done.stderr


def test_without_the_option_nothing_is_added(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(): pass\n")
    assert "1 passed" in pytest_in(tmp_path).stdout
