"""Encoding of labelled texts: sentences and truncation."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.core.batches import UNKNOWN
from regard.data.readers.labelled import LabelledRow
from regard.data.text_dataset import DocumentDataset, TextDataset
from regard.data.tokenizers.vocabulary import build_vocabulary
from regard.tasks.classification.corpus import (
    DATASETS,
    EMBEDDED_DATASETS,
    ClassifyOptions,
    Truncation,
    count_truncation,
    encode_labelled,
    encode_texts,
    labelled_source,
)
from regard.tasks.text_task import TextVocabularies

TEXT = "A good film. I liked it very much! Go and see it."


def vocabularies() -> TextVocabularies:
    vocabulary = build_vocabulary("word_punct", [TEXT], lowercase=True)
    return TextVocabularies(text=vocabulary, labels=("bad", "good"))


def options(**given: Any) -> ClassifyOptions:
    return ClassifyOptions(**{"tokens": "word_punct", "sentences": True, **given})


def test_sentences_are_numbered() -> None:
    rows = encode_texts([TEXT], vocabularies(), options())
    assert isinstance(rows, DocumentDataset)
    padded = rows.padded(np.array([0]))
    assert padded.segments[0].tolist() == [0] * 4 + [1] * 6 + [2] * 5


def test_long_sentences_are_split() -> None:
    whole = encode_texts([TEXT], vocabularies(), options()).padded(np.array([0]))
    truncation = encode_texts([TEXT], vocabularies(), options(sentence_length=4)).padded(
        np.array([0])
    )
    assert truncation.tokens.tolist() == whole.tokens.tolist()
    assert truncation.segments[0].tolist() == [0] * 4 + [1] * 4 + [2] * 2 + [3] * 4 + [4]


def test_empty_text_is_one_unknown_token() -> None:
    rows = encode_texts(["<br />"], vocabularies(), options())
    assert rows.padded(np.array([0])).tokens.tolist() == [[UNKNOWN]]


def test_truncation_is_counted() -> None:
    labelled = [LabelledRow(TEXT, "good", 1), LabelledRow("A film.", "bad", 2)]
    rows, truncation = encode_labelled(iter(labelled), options(max_length=10), vocabularies())
    assert truncation == Truncation(texts=1, of_texts=2, tokens=5, of_tokens=18)
    assert count_truncation([TEXT, "A film."], vocabularies(), options(max_length=10)) == truncation
    assert rows.labels.tolist() == [1, 0]
    assert truncation.describe(10).startswith("1 of 2 texts truncated to 10 tokens")
    assert truncation.combined_with(truncation).describe(10).startswith("2 of 4 texts truncated")
    assert "27.8 %" in truncation.describe(10)
    plain, none = encode_labelled(iter(labelled), options(sentences=False), vocabularies())
    assert isinstance(plain, TextDataset)
    assert none == Truncation(texts=0, of_texts=2, tokens=0, of_tokens=18)
    assert none.describe(128) == ""


def test_embedded_datasets() -> None:
    assert tuple(DATASETS) == EMBEDDED_DATASETS
    assert type(labelled_source(options(), None)).__name__ == "FilmLanguages"
    assert labelled_source(options(), "some.tsv").path.name == "some.tsv"
