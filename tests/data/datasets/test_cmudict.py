"""CMUdict and G2P alignments: a small file of the same layout, and the installed packages."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from regard.core.errors import RegardError
from regard.data.datasets import cmudict
from regard.data.datasets.cmudict import (
    PHONES,
    G2PAlignment,
    cmudict_pairs,
    g2p_alignments,
    lexicon_name,
    parse_alignment,
)
from regard.data.readers.text_file import RowErrors

ALIGNMENTS = [
    ("abide", "a}ə b}b i}ˈaɪ d}d e}_"),
    ("axe", "a}ˈæ x}k|s e}_"),
    ("knife", "k|n}n i}ˈaɪ f}f e}_"),
    ("loch", "l}l o}ɑ c|h}x"),
    ("cat", "c}k a}æ"),
]


def test_cmudict() -> None:
    rows = list(cmudict_pairs().rows(errors=RowErrors()))
    assert len(rows) == 134_860
    assert len({row.input for row in rows}) == 126_052
    assert len({phone for row in rows for phone in row.target.split()}) == 39
    pronunciations = [row.target for row in rows if row.input == "tomato"]
    assert pronunciations == ["T AH M EY T OW", "T AH M AA T OW"]


def test_pocketsphinx_is_not_imported() -> None:
    script = (
        "import sys\n"
        "from regard.data.datasets.cmudict import cmudict_pairs\n"
        "cmudict_pairs()\n"
        "sys.exit('pocketsphinx' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_missing_pocketsphinx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cmudict, "PACKAGE", "no_such_package")
    with pytest.raises(RegardError, match="pip install no_such_package"):
        cmudict_pairs()


@pytest.fixture
def lexicon(tmp_path: Path) -> Path:
    path = tmp_path / "a lexicon?.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE g2p_alignments (id INTEGER, word TEXT, alignment TEXT)")
        database.executemany(
            "INSERT INTO g2p_alignments VALUES (0, ?, ?)", [*ALIGNMENTS, ("hole", None)]
        )
        database.commit()
    return path


def test_alignments(lexicon: Path) -> None:
    found = g2p_alignments(["knife", "axe", "zebra"], path=lexicon)
    assert found == {
        "knife": G2PAlignment("knife", ("N", "AY", "F"), ((0, 1), (2,), (3,))),
        "axe": G2PAlignment("axe", ("AE", "K", "S"), ((0,), (1,), (1,))),
    }


def test_invalid_alignments_are_skipped(lexicon: Path) -> None:
    # An unknown phone; letters that do not spell the word; no alignment.
    assert g2p_alignments(["loch", "cat", "hole", "abide"], path=lexicon).keys() == {"abide"}


@pytest.mark.parametrize(
    "text", ["", "cat", "c}k", "ca}k t}t", "c}k a}æ t}q", "c}_ a}_ t}_", "c}k  a}æ t}t", "}"]
)
def test_parse_invalid_alignment(text: str) -> None:
    assert parse_alignment("cat", text) is None


def test_file_is_opened_read_only(lexicon: Path) -> None:
    before = lexicon.read_bytes()
    lexicon.chmod(0o444)
    g2p_alignments(["axe"], path=lexicon)
    assert lexicon.read_bytes() == before
    assert list(lexicon.parent.iterdir()) == [lexicon]


def test_invalid_lexicon(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.db"
    with pytest.raises(RegardError, match="no readable alignments"):
        g2p_alignments(["axe"], path=path)
    assert not path.exists()
    path.write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(RegardError, match="--force-reinstall gruut-lang-en"):
        g2p_alignments(["axe"], path=path)


def test_missing_gruut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cmudict, "ALIGNMENTS_MODULE", "no_such_package")
    with pytest.raises(RegardError, match=r"pip install 'regard\[alignments\]'"):
        g2p_alignments(["axe"])


def test_phones_are_those_of_cmudict() -> None:
    rows = cmudict_pairs().rows(errors=RowErrors())
    assert set(PHONES.values()) == {phone for row in rows for phone in row.target.split()}


@pytest.mark.skipif(
    find_spec("gruut_lang_en") is None, reason="regard[alignments] is not installed"
)
def test_agreement_of_gruut_and_cmudict() -> None:
    pronunciations: dict[str, set[tuple[str, ...]]] = {}
    for row in cmudict_pairs().rows(errors=RowErrors()):
        pronunciations.setdefault(row.input, set()).add(tuple(row.target.split()))
    found = g2p_alignments(pronunciations)
    assert found["thoughtful"].letters == ((0, 1), (2, 3), (6,), (7,), (8,), (9,))
    agreeing = sum(alignment.phones in pronunciations[word] for word, alignment in found.items())
    assert 0.9 < agreeing / len(pronunciations) < 0.95
    assert lexicon_name().startswith("gruut-lang-en ")


@pytest.mark.skipif(
    find_spec("gruut_lang_en") is None, reason="regard[alignments] is not installed"
)
def test_gruut_is_not_imported() -> None:
    script = (
        "import sys\n"
        "from regard.data.datasets.cmudict import g2p_alignments\n"
        "assert g2p_alignments(['axe'])\n"
        "sys.exit('gruut_lang_en' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
