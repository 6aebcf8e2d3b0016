"""Texts become rows: sentences, what is cut off and that it is said."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.core.batches import UNKNOWN
from regard.data.readers.labelled import LabelledRow
from regard.data.text_dataset import DocumentRows, TextRows
from regard.data.tokenizers.vocabulary import build_vocabulary
from regard.tasks.classification.corpus import (
    EMBEDDED_LABELS,
    SETS,
    ClassifyOptions,
    Cut,
    cut_of,
    source_of,
    text_rows,
    training_rows,
)
from regard.tasks.text_task import TextVocabularies

TEXT = "A good film. I liked it very much! Go and see it."


def vocabularies() -> TextVocabularies:
    vocabulary = build_vocabulary("running_words", [TEXT], lowercase=True)
    return TextVocabularies(text=vocabulary, labels=("bad", "good"))


def options(**given: Any) -> ClassifyOptions:
    return ClassifyOptions(**{"tokens": "running_words", "sentences": True, **given})


def test_sentences_are_numbered() -> None:
    rows = text_rows([TEXT], vocabularies(), options())
    assert isinstance(rows, DocumentRows)
    padded = rows.padded(np.array([0]))
    assert padded.segments[0].tolist() == [0] * 4 + [1] * 6 + [2] * 5


def test_a_long_sentence_is_cut_into_several_and_nothing_is_lost() -> None:
    whole = text_rows([TEXT], vocabularies(), options()).padded(np.array([0]))
    cut = text_rows([TEXT], vocabularies(), options(sentence_length=4)).padded(np.array([0]))
    assert cut.tokens.tolist() == whole.tokens.tolist()
    assert cut.segments[0].tolist() == [0] * 4 + [1] * 4 + [2] * 2 + [3] * 4 + [4]


def test_a_text_without_a_token_is_one_unknown_token() -> None:
    rows = text_rows(["<br />"], vocabularies(), options())
    assert rows.padded(np.array([0])).tokens.tolist() == [[UNKNOWN]]


def test_what_is_cut_off_is_counted_and_said() -> None:
    labelled = [LabelledRow(TEXT, "good", 1), LabelledRow("A film.", "bad", 2)]
    rows, cut = training_rows(iter(labelled), options(max_length=10), vocabularies())
    assert cut == Cut(texts=1, of_texts=2, tokens=5, of_tokens=18)
    assert cut_of([TEXT, "A film."], vocabularies(), options(max_length=10)) == cut
    assert rows.labels.tolist() == [1, 0]
    assert cut.words(10).startswith("1 of 2 texts is cut off after 10 tokens, which")
    assert cut.with_more(cut).words(10).startswith("2 of 4 texts are cut off")
    assert "27.8 %" in cut.words(10)
    framed, none = training_rows(iter(labelled), options(sentences=False), vocabularies())
    assert isinstance(framed, TextRows)
    assert none == Cut(texts=0, of_texts=2, tokens=0, of_tokens=18)
    assert none.words(128) == ""


def test_sets_have_the_names_that_are_offered() -> None:
    assert tuple(SETS) == EMBEDDED_LABELS
    assert type(source_of(options(), None)).__name__ == "FilmLanguages"
    assert source_of(options(), "some.tsv").path.name == "some.tsv"
