"""Multi30k, German to English, with a shared subword vocabulary: the data of the translation benchmarks."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import RegardError
from regard.data.examples import Examples
from regard.data.preprocessor import pair_examples
from regard.data.readers.text_file import Row, RowErrors
from regard.data.readers.text_reader import TextReader
from regard.data.tokenizers.vocabulary import Vocabulary, build_vocabulary

VOCABULARY = 8000


class Multi30k(NamedTuple):
    """The training split and its vocabulary."""

    vocabulary: Vocabulary
    train: Examples


@cache
def multi30k() -> Multi30k:
    """Load once; at most VOCABULARY lower-cased subwords."""
    rows = load_rows("train")
    texts = [text for row in rows for text in (row.input, row.target)]
    vocabulary = build_vocabulary("subwords", texts, size=VOCABULARY, lowercase=True)
    return Multi30k(vocabulary, encoded(rows, vocabulary))


def load_rows(split: str) -> list[Row]:
    """The pairs of a split such as "train" or "test_2016_flickr"."""
    folder = os.environ.get("REGARD_DATA")
    if not folder:
        raise RegardError(
            "The translation benchmarks need multi30k/, but REGARD_DATA is not set. Set it to the data "
            "folder, or name other benchmarks."
        )
    files = Path(folder) / "multi30k"
    source = TextReader(path=files / f"{split}.de.gz", target_path=files / f"{split}.en.gz")
    return list(source.rows(errors=RowErrors()))


def encoded(rows: list[Row], vocabulary: Vocabulary) -> Examples:
    """Tokenize the rows."""
    sources = vocabulary.encode_all(row.input for row in rows)
    targets = vocabulary.encode_all(row.target for row in rows)
    return pair_examples(zip(sources, targets, strict=True))
