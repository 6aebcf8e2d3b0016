"""Texts with labels: sentences, truncation, warm start, and embedded datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from regard.core.batches import UNKNOWN, TokenSpec
from regard.data.item_preprocessor import ItemPreprocessor
from regard.data.preprocessor import Truncation
from regard.data.readers.text_file import Row, RowErrors
from regard.tasks import EMBEDDED_DATASETS
from regard.tasks.classification.task import Classify, ClassifyOptions

TEXT = "One is here. Two and three are there. Four came too."
ROWS = [Row(TEXT, "good", 1), Row("A film.", "bad", 2)]


def fitted(**given: Any) -> Any:
    options = ClassifyOptions(**{"tokens": "word_punct", "sentences": True, **given})
    return ItemPreprocessor.fit(options, lambda: iter(ROWS), path=Path("a.tsv"))


def test_sentences_are_numbered_and_long_ones_split() -> None:
    whole = fitted().encode_inputs([TEXT]).collate_inputs(np.arange(1))
    split = fitted(sentence_length=4).encode_inputs([TEXT]).collate_inputs(np.arange(1))
    assert whole.segments[0].tolist() == [0] * 4 + [1] * 6 + [2] * 4
    assert split.tokens.tolist() == whole.tokens.tolist()
    assert split.segments[0].tolist() == [0] * 4 + [1] * 4 + [2] * 2 + [3] * 4


def test_empty_text_is_one_unknown_token() -> None:
    found = fitted().encode_inputs(["<br />"]).collate_inputs(np.arange(1))
    assert found.tokens.tolist() == [[UNKNOWN]]


def test_truncation_is_counted() -> None:
    preprocessor = fitted(max_length=10)
    encoded = list(preprocessor.encode(ROWS, path=Path(), errors=RowErrors()))
    examples = preprocessor.examples(encoded)
    assert examples.targets.tolist() == [1, 0]
    assert [each.removed for each in encoded] == [4, 0]
    found = preprocessor.truncation([row.input for row in ROWS])
    assert found == Truncation(texts=1, of_texts=2, tokens=4, of_tokens=17)
    assert found.describe(10).startswith("1 of 2 texts truncated to 10 tokens")
    assert found.combined_with(found).describe(10).startswith("2 of 4 texts truncated")
    assert fitted(sentences=False).truncation([TEXT]).describe(128) == ""


def test_unknown_labels_are_malformed() -> None:
    errors = RowErrors(skip=True)
    rows = [Row("x", "meh", 7)]
    assert list(fitted().encode(rows, path=Path("b.tsv"), errors=errors)) == []
    assert errors.by_reason == {"unknown label": 1}


def test_warm_start_keeps_the_vocabulary_only() -> None:
    preprocessor = fitted()
    again = ItemPreprocessor.from_json(preprocessor.as_json(), preprocessor.options)
    assert again.as_json() == preprocessor.as_json()
    size = preprocessor.input.size
    assert preprocessor.sizes() == {"source": TokenSpec(size), "outputs": 2}
    warm = preprocessor.for_warm_start()
    assert (warm.is_fitted, warm.sizes()) == (False, {"source": TokenSpec(size)})


def test_embedded_datasets() -> None:
    assert set(Classify.datasets) <= set(EMBEDDED_DATASETS)
    options = ClassifyOptions()
    assert type(Classify.reader(options, None)).__name__ == "FilmLanguages"
    assert Classify.reader(options, "some.tsv").path.name == "some.tsv"
