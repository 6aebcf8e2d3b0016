"""Documents from a file, one a line, or from the facts about films; blank lines are no documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from regard.core.errors import RegardError
from regard.data.bad_rows import BadRows
from regard.data.films import fact_texts, film_facts, films_file
from regard.data.pair_rows import UNWANTED, fault_of
from regard.data.text_lines import TextFile, good_lines


class Document(NamedTuple):
    """A text and the line it stands on, counted from 1."""

    text: str
    line: int


@dataclass(frozen=True, kw_only=True)
class DocumentFile:
    """A file of UTF-8 text, gzipped or not, with a document on every line."""

    path: Path
    max_line_bytes: int = 1_000_000

    def rows(self, *, bad: BadRows) -> Iterator[Document]:
        """Every document in the order of the file; lines that cannot be used go to `bad`."""
        file = TextFile(path=self.path, max_line_bytes=self.max_line_bytes)
        file.check()
        return self._clean(file, bad=bad)

    def _clean(self, file: TextFile, *, bad: BadRows) -> Iterator[Document]:
        usable = False
        for number, line in good_lines(file.lines(bad=bad)):
            text = normalize("NFC", line).strip()
            if not text:
                continue
            if UNWANTED.search(text):
                bad.report(path=self.path, line=number, reason=fault_of("text", text))
                continue
            usable = True
            yield Document(text, number)
        if not usable:
            raise RegardError(
                f"No line of '{self.path}' can be used ({bad.count:,} bad). Give a file with a "
                "document on every line."
            )


@dataclass(frozen=True, kw_only=True)
class FilmDocuments:
    """What is known of every film, a page each: real text without a download."""

    path: Path

    def rows(self, *, bad: BadRows) -> Iterator[Document]:
        """Every page, by the title of its film; none of them is bad."""
        for number, film in enumerate(film_facts(path=self.path), start=1):
            yield Document(" ".join(fact_texts(film)), number)


def embedded_documents() -> FilmDocuments:
    """The pages about films that the installed package has the facts for."""
    return FilmDocuments(path=films_file())
