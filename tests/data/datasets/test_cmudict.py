"""The embedded dictionary: all of it, and without importing the package that carries it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from regard.core.errors import RegardError
from regard.data.datasets import cmudict
from regard.data.readers.text_file import BadRows


def test_every_entry_is_read() -> None:
    rows = list(cmudict.embedded_dictionary().rows(bad=BadRows()))
    assert len(rows) == 134_860
    assert len({row.source for row in rows}) == 126_052
    assert len({phone for row in rows for phone in row.target.split()}) == 39
    said = [row.target for row in rows if row.source == "tomato"]
    assert said == ["T AH M EY T OW", "T AH M AA T OW"]


def test_the_package_is_not_imported() -> None:
    script = (
        "import sys\n"
        "from regard.data.datasets.cmudict import embedded_dictionary\n"
        "embedded_dictionary()\n"
        "sys.exit('pocketsphinx' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_its_absence_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cmudict, "PACKAGE", "no_such_package")
    with pytest.raises(RegardError, match="pip install no_such_package"):
        cmudict.embedded_dictionary()
