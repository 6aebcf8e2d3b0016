"""Known alignments: read from a small file of the same layout, and from the package where it is."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from regard.core.errors import RegardError
from regard.data.datasets import cmudict as module
from regard.data.datasets.cmudict import (
    PHONES,
    LetterSounds,
    embedded_dictionary,
    letter_sounds,
    lexicon_name,
    parsed,
)
from regard.data.readers.text_file import BadRows

ROWS = [
    ("abide", "a}ə b}b i}ˈaɪ d}d e}_"),
    ("axe", "a}ˈæ x}k|s e}_"),
    ("knife", "k|n}n i}ˈaɪ f}f e}_"),
    ("loch", "l}l o}ɑ c|h}x"),
    ("cat", "c}k a}æ"),
]


@pytest.fixture
def lexicon(tmp_path: Path) -> Path:
    path = tmp_path / "a lexicon?.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE g2p_alignments (id INTEGER, word TEXT, alignment TEXT)")
        database.executemany("INSERT INTO g2p_alignments VALUES (0, ?, ?)", [*ROWS, ("hole", None)])
        database.commit()
    return path


def test_letters_are_given_for_every_phone(lexicon: Path) -> None:
    found = letter_sounds(["knife", "axe", "zebra"], path=lexicon)
    assert found == {
        "knife": LetterSounds("knife", ("N", "AY", "F"), ((0, 1), (2,), (3,))),
        "axe": LetterSounds("axe", ("AE", "K", "S"), ((0,), (1,), (1,))),
    }


def test_what_cannot_be_used_is_left_out(lexicon: Path) -> None:
    # A phone English has not; letters that are not the word's; no alignment at all.
    assert letter_sounds(["loch", "cat", "hole", "abide"], path=lexicon).keys() == {"abide"}


@pytest.mark.parametrize(
    "text", ["", "cat", "c}k", "ca}k t}t", "c}k a}æ t}q", "c}_ a}_ t}_", "c}k  a}æ t}t", "}"]
)
def test_a_row_that_is_no_alignment_is_none(text: str) -> None:
    assert parsed("cat", text) is None


def test_the_file_is_only_read(lexicon: Path) -> None:
    before = lexicon.read_bytes()
    lexicon.chmod(0o444)
    letter_sounds(["axe"], path=lexicon)
    assert lexicon.read_bytes() == before
    assert list(lexicon.parent.iterdir()) == [lexicon]


def test_a_file_that_is_no_lexicon_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.db"
    with pytest.raises(RegardError, match="holds no alignments that can be read"):
        letter_sounds(["axe"], path=path)
    assert not path.exists()
    path.write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(RegardError, match="--force-reinstall gruut-lang-en"):
        letter_sounds(["axe"], path=path)


def test_its_absence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODULE", "no_such_package")
    with pytest.raises(RegardError, match=r"pip install 'regard\[alignments\]'"):
        letter_sounds(["axe"])


def test_the_phones_are_those_of_the_embedded_dictionary() -> None:
    rows = embedded_dictionary().rows(bad=BadRows())
    assert set(PHONES.values()) == {phone for row in rows for phone in row.target.split()}


@pytest.mark.skipif(
    find_spec("gruut_lang_en") is None, reason="regard[alignments] is not installed"
)
def test_the_package_knows_most_of_the_embedded_words() -> None:
    said: dict[str, set[tuple[str, ...]]] = {}
    for row in embedded_dictionary().rows(bad=BadRows()):
        said.setdefault(row.source, set()).add(tuple(row.target.split()))
    found = letter_sounds(said)
    assert found["thoughtful"].letters == ((0, 1), (2, 3), (6,), (7,), (8,), (9,))
    agreeing = sum(sounds.phones in said[word] for word, sounds in found.items())
    assert 0.9 < agreeing / len(said) < 0.95
    assert lexicon_name().startswith("gruut-lang-en ")


@pytest.mark.skipif(
    find_spec("gruut_lang_en") is None, reason="regard[alignments] is not installed"
)
def test_the_package_is_not_imported() -> None:
    script = (
        "import sys\n"
        "from regard.data.datasets.cmudict import letter_sounds\n"
        "assert letter_sounds(['axe'])\n"
        "sys.exit('gruut_lang_en' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
