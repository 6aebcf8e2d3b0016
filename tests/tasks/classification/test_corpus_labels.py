"""Invalid labels and truncation in the splits of a classification dataset."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.data.dataset import Dataset
from regard.data.labels import unseen_labels_note, validate_label_column
from regard.data.splits import dedup_key, split_of
from regard.tasks.classification.task import Classify, ClassifyOptions

WORDS = ("long", "short", "tedious", "fine", "lovely", "dull")


def dataset_of(path: Path, **options: Any) -> Dataset:
    chosen = {"tokens": "word_punct", "vocabulary_size": 50, "validation_fraction": 0.2, **options}
    return Classify.read_dataset(ClassifyOptions(train_file=str(path), **chosen))


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.csv"
    rows = [
        f"A {one} and {other} film of number {number},{'good' if number % 2 else 'bad'}"
        for number, (one, other) in enumerate((one, other) for one in WORDS for other in WORDS)
    ]
    path.write_text("\n".join(["review,sentiment", *rows]) + "\n")
    return path


def test_one_named_column(reviews: Path) -> None:
    dataset = dataset_of(reviews, source_column="review")
    assert dataset.preprocessor.target.labels == ("bad", "good")


def test_labels_that_look_like_texts_raise(reviews: Path) -> None:
    swapped = {"source_column": "sentiment", "target_column": "review"}
    for skip in (False, True):
        with pytest.raises(
            RegardError,
            match=r"different labels, such as 'A .*--target-column",
        ):
            dataset_of(
                reviews,
                **swapped,
                skip_bad_rows=skip,
                validation_fraction=0.0,
                test_fraction=0.0,
            )


@pytest.mark.parametrize(
    ("counts", "refused"),
    [
        ({str(number): 1 for number in range(20)}, True),
        ({"the same long words of a text": 1, "and five more words here": 2}, False),
        ({f"one two three four five {number}": 1 + number % 2 for number in range(20)}, True),
        # Few texts of many labels, as intents have.
        ({f"intent {number}": 2 for number in range(40)}, False),
        ({str(number): 1 for number in range(9)}, False),
    ],
)
def test_target_column_heuristic(counts: dict[str, int], refused: bool) -> None:
    if not refused:
        validate_label_column(Counter(counts), Path("a.csv"))
        return
    with pytest.raises(RegardError, match=r"'a\.csv'.*--target-column"):
        validate_label_column(Counter(counts), Path("a.csv"))


def rare_in_validation(folder: Path) -> Path:
    """A file whose only text with the label `rare` is in the validation split."""
    texts = (f"Rare text {number}." for number in range(1000))
    held_out = next(
        text
        for text in texts
        if split_of(dedup_key(text, lowercase=True), validation=0.2, test=0.0) == "validation"
    )
    rows = [f"{('good', 'bad')[number % 2]}\tText number {number}." for number in range(40)]
    path = folder / "rare.tsv"
    path.write_text("\n".join([*rows, f"rare\t{held_out}"]) + "\n")
    return path


def test_label_in_the_validation_split_only_raises(tmp_path: Path) -> None:
    with pytest.raises(RegardError) as error:
        dataset_of(rare_in_validation(tmp_path), test_fraction=0.0)
    for text in ("unknown label: 'rare'", "task.validation_fraction=0.2", "--validation-file"):
        assert text in str(error.value)


def test_validation_file_without_known_labels_raises(reviews: Path, tmp_path: Path) -> None:
    validation = tmp_path / "validation.csv"
    validation.write_text("review,sentiment\nA film.,meh\n")
    with pytest.raises(RegardError, match=r"validation split .*'meh'"):
        dataset_of(
            reviews, source_column="review", validation_file=str(validation), skip_bad_rows=True
        )
    with pytest.raises(RegardError, match=r"validation\.csv:2: unknown label: 'meh'"):
        dataset_of(reviews, source_column="review", validation_file=str(validation))


def test_unseen_labels_note() -> None:
    assert unseen_labels_note(["a", "b"], ("a", "b")) == ""
    many = [*"ccdefghi", "a" * 100]
    note = unseen_labels_note(many, ("b",))
    assert note.startswith("9 of 9 texts with labels unseen in training: c, d, e, f, g, and")
    assert "and 3 more;" in note
    assert f"{'a' * 39}…" in unseen_labels_note(["a" * 100], ("b",))


def test_truncation_of_every_split(reviews: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.csv"
    long.write_text(f"review,sentiment\n{'long ' * 100},bad\nA fine film,good\n")
    dataset = dataset_of(
        reviews,
        source_column="review",
        validation_file=str(long),
        test_file=str(long),
        max_length=12,
        sentences=True,
    )
    facts = dataset.facts()
    assert facts["truncated_texts"] == {"train": 0, "validation": 1, "test": 1}
    assert facts["truncated_tokens"] == {"train": 0, "validation": 88, "test": 88}
    text = dataset.describe()
    assert "; validation split: 1 of 2 texts truncated to 12 tokens, 85.4 % of all" in text
    assert "; test split: 1 of 2 texts truncated" in text
    assert "train split" not in text


def test_max_line_bytes(reviews: Path) -> None:
    with pytest.raises(
        RegardError, match=r"reviews\.csv:2: line too long.*Raise task\.max_line_byt"
    ):
        dataset_of(reviews, source_column="review", max_line_bytes=25)
    with pytest.raises(RegardError, match=r"task\.max_line_bytes=0\b.* 1\b"):
        dataset_of(reviews, max_line_bytes=0)
