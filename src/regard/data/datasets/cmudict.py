"""English pronunciation: CMUdict, and grapheme-to-phoneme (G2P) alignments to compare attention with.

    cmudict_pairs     tomato  →  T AH M EY T OW
    word_syllables    tomato  →  3
    g2p_alignments    abide      a → AH    b → B    i → AY    d → D    e → nothing

The package `pocketsphinx` (BSD) contains CMUdict: about 126,000 English words with 39 phones, no stress.
The package `gruut-lang-en` (MIT) contains alignments of letters and phones for about 124,000 words, one
pronunciation each. They were computed by an aligner, not annotated by people: some are arbitrary, such as
which of two equal letters is the silent one. Only the files are read; the packages are not imported.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import RegardError
from regard.data.readers.text_file import GeneratedRows, Row, RowErrors, installed_file
from regard.data.readers.text_reader import TextReader

PACKAGE = "pocketsphinx"
FILE = Path("model", "en-us", "cmudict-en-us.dict")
ALIGNMENTS_PACKAGE = "gruut-lang-en"
ALIGNMENTS_MODULE = "gruut_lang_en"
ALIGNMENTS_FILE = Path("lexicon.db")

# International Phonetic Alphabet, as in gruut → the phones of CMUdict.
PHONES = (
    {"ɑ": "AA", "æ": "AE", "ʌ": "AH", "ə": "AH", "ɔ": "AO", "aʊ": "AW", "aɪ": "AY", "b": "B"}
    | {"t͡ʃ": "CH", "d": "D", "ð": "DH", "ɛ": "EH", "ɚ": "ER", "eɪ": "EY", "f": "F", "ɡ": "G"}
    | {"h": "HH", "ɪ": "IH", "i": "IY", "d͡ʒ": "JH", "k": "K", "l": "L", "m": "M", "n": "N"}
    | {"ŋ": "NG", "oʊ": "OW", "ɔɪ": "OY", "p": "P", "ɹ": "R", "s": "S", "ʃ": "SH", "t": "T"}
    | {"θ": "TH", "ʊ": "UH", "u": "UW", "v": "V", "w": "W", "j": "Y", "z": "Z", "ʒ": "ZH"}
)
STRESS = "ˈˌ"
SILENT = "_"


def cmudict_pairs() -> TextReader:
    """CMUdict: a word in lower case, and its phones separated by spaces."""
    path = installed_file(PACKAGE, FILE, what="CMUdict", install=PACKAGE)
    return TextReader(path=path, format="dictionary")


def word_syllables() -> GeneratedRows:
    """CMUdict words with their number of syllables: the vowels of the first pronunciation.

    >>> count_syllables("T AH M EY T OW")
    3
    """
    reader = cmudict_pairs()

    def rows() -> Iterator[Row]:
        seen: set[str] = set()
        for row in reader.rows(errors=RowErrors(skip=True)):
            if row.input not in seen:
                seen.add(row.input)
                yield row._replace(target=float(count_syllables(row.target)))

    return GeneratedRows(path=reader.path, generate=rows)


def count_syllables(phones: str) -> int:
    """The number of vowels."""
    return sum(phone[0] in "AEIOU" for phone in phones.split())


class G2PAlignment(NamedTuple):
    """A word with its phones; `letters[i]` are the letter positions aligned with phone i."""

    word: str
    phones: tuple[str, ...]
    letters: tuple[tuple[int, ...], ...]


def lexicon_file() -> Path:
    """The installed file of alignments."""
    extra = "'regard[alignments]'"
    return installed_file(ALIGNMENTS_MODULE, ALIGNMENTS_FILE, what="G2P alignments", install=extra)


def lexicon_name() -> str:
    """The package and its version, for reproducibility."""
    try:
        return f"{ALIGNMENTS_PACKAGE} {version(ALIGNMENTS_PACKAGE)}"
    except PackageNotFoundError:
        return ALIGNMENTS_PACKAGE


def g2p_alignments(words: Iterable[str], *, path: Path | None = None) -> dict[str, G2PAlignment]:
    """The alignments of those words that have one; `path` defaults to the installed file."""
    requested = set(words)
    return {
        found.word: found
        for word, text in _rows(path or lexicon_file())
        if word in requested and (found := parse_alignment(word, text)) is not None
    }


def parse_alignment(word: str, alignment: str) -> G2PAlignment | None:
    """Parse a row of the file; None if it is not an alignment of the word with known phones.

    >>> parse_alignment("axe", "a}ˈæ x}k|s e}_")
    G2PAlignment(word='axe', phones=('AE', 'K', 'S'), letters=((0,), (1,), (1,)))
    """
    phones: list[str] = []
    letters: list[tuple[int, ...]] = []
    spelled = ""
    for pair in alignment.split(" "):
        graphemes, brace, phonemes = pair.partition("}")
        group = graphemes.split("|")
        positions = tuple(range(len(spelled), len(spelled) + len(group)))
        if not brace or any(len(letter) != 1 for letter in group):
            return None
        spelled += "".join(group)
        if phonemes == SILENT:
            continue
        for phone in phonemes.split("|"):
            if (known := PHONES.get(phone.lstrip(STRESS))) is None:
                return None
            phones.append(known)
            letters.append(positions)
    if spelled != word or not phones:
        return None
    return G2PAlignment(word, tuple(phones), tuple(letters))


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    try:
        # Read-only: a missing file is not created.
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            for word, alignment in database.execute("SELECT word, alignment FROM g2p_alignments"):
                if isinstance(word, str) and isinstance(alignment, str):
                    yield word, alignment
    except sqlite3.Error as error:
        raise RegardError(
            f"'{path}' has no readable alignments ({error}). "
            f"Reinstall it: pip install --force-reinstall {ALIGNMENTS_PACKAGE}"
        ) from error
