"""Multi30k, German and English, in subwords of one vocabulary: what the benchmarks train on and decode."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import RegardError
from regard.data.readers.formats import PairRow
from regard.data.readers.pairs import PairSource
from regard.data.readers.text_file import BadRows
from regard.data.token_store import TokenStore
from regard.data.tokenizers.vocabulary import Vocabulary, build_vocabulary

VOCABULARY = 8000


class Multi30k(NamedTuple):
    """The training part, and what numbered it."""

    vocabulary: Vocabulary
    train: TokenStore


@cache
def multi30k() -> Multi30k:
    """Read once, and cut into at most VOCABULARY lower-cased subwords."""
    rows = rows_of("train")
    texts = [text for row in rows for text in (row.source, row.target)]
    vocabulary = build_vocabulary("subwords", texts, size=VOCABULARY, lowercase=True)
    return Multi30k(vocabulary, encoded(rows, vocabulary))


def rows_of(part: str) -> list[PairRow]:
    """The pairs of "train", "test_2016_flickr" and so on."""
    folder = os.environ.get("REGARD_DATA")
    if not folder:
        raise RegardError(
            "The benchmarks of translation read multi30k/, and REGARD_DATA names no folder. Set it to "
            "the folder of corpora, or name the other benchmarks."
        )
    files = Path(folder) / "multi30k"
    source = PairSource(path=files / f"{part}.de.gz", target_path=files / f"{part}.en.gz")
    return list(source.rows(bad=BadRows()))


def encoded(rows: list[PairRow], vocabulary: Vocabulary) -> TokenStore:
    """Their tokens."""
    sources = vocabulary.encode_all(row.source for row in rows)
    targets = vocabulary.encode_all(row.target for row in rows)
    return TokenStore.build(zip(sources, targets, strict=True))
