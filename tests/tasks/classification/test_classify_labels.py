"""Labels that cannot be learned are told with what helps, and texts cut off are counted part by part."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.data.splits import as_read, part_of
from regard.tasks.classification.corpus import ClassifyCorpus, ClassifyOptions, source_of
from regard.tasks.classification.labels import require_repeated, unknown_labels_note

WORDS = ("long", "short", "tedious", "fine", "lovely", "dull")


def corpus_of(path: Path, **options: Any) -> ClassifyCorpus:
    chosen = {"tokens": "running_words", "vocabulary_size": 50, "validation_share": 0.2, **options}
    given = ClassifyOptions(labels=str(path), **chosen)
    return ClassifyCorpus.read(given, texts=source_of(given, given.labels))


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.csv"
    rows = [
        f"A {one} and {other} film of number {number},{'good' if number % 2 else 'bad'}"
        for number, (one, other) in enumerate((one, other) for one in WORDS for other in WORDS)
    ]
    path.write_text("\n".join(["review,sentiment", *rows]) + "\n")
    return path


def test_half_named_columns_are_understood(reviews: Path) -> None:
    corpus = corpus_of(reviews, text_column="review")
    assert corpus.vocabularies.labels == ("bad", "good")


def test_labels_that_are_texts_are_told(reviews: Path) -> None:
    swapped = {"text_column": "sentiment", "label_column": "review"}
    for skip in (False, True):
        with pytest.raises(
            RegardError,
            match=r"different labels, such as 'A .*looks like texts.* with --target-col",
        ):
            corpus_of(reviews, **swapped, skip_bad_rows=skip, validation_share=0.0, test_share=0.0)


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
def test_many_labels_alone_are_no_fault(counts: dict[str, int], refused: bool) -> None:
    if not refused:
        require_repeated(Counter(counts), Path("a.csv"))
        return
    with pytest.raises(RegardError, match=r"'a\.csv' .* looks like texts, or like numbers of rows"):
        require_repeated(Counter(counts), Path("a.csv"))


def rare_in_validation(folder: Path) -> Path:
    """Texts of which the only one with its label falls to the part that is developed on."""
    texts = (f"Rare text {number}." for number in range(1000))
    fallen = next(
        text
        for text in texts
        if part_of(as_read(text, lowercase=True), validation=0.2, test=0.0) == "validation"
    )
    rows = [f"{('good', 'bad')[number % 2]}\tText number {number}." for number in range(40)]
    path = folder / "rare.tsv"
    path.write_text("\n".join([*rows, f"rare\t{fallen}"]) + "\n")
    return path


def test_a_label_that_fell_to_a_held_out_part_says_what_helps(tmp_path: Path) -> None:
    with pytest.raises(RegardError) as refused:
        corpus_of(rare_in_validation(tmp_path), test_share=0.0)
    for words in (
        "unknown label: 'rare' is not in the part",
        "It fell to the validation part, which is drawn from the file: give more texts with that label",
        "lower task.validation_share=0.2, or give a file of its own with --validation",
    ):
        assert words in str(refused.value)


def test_a_file_without_a_learned_label_says_so_and_not_to_hold_out_more(
    reviews: Path, tmp_path: Path
) -> None:
    validation = tmp_path / "validation.csv"
    validation.write_text("review,sentiment\nA film.,meh\n")
    with pytest.raises(
        RegardError, match=r"has a label that is learned; the first has 'meh'\. Give t"
    ):
        corpus_of(reviews, text_column="review", validation=str(validation), skip_bad_rows=True)
    with pytest.raises(
        RegardError, match=r"validation\.csv:2: unknown label: 'meh'.*Give texts with that"
    ):
        corpus_of(reviews, text_column="review", validation=str(validation))


def test_unknown_labels_are_counted_and_few_are_named() -> None:
    assert unknown_labels_note(["a", "b"], ("a", "b")) == ""
    many = [*"ccdefghi", "a" * 100]
    note = unknown_labels_note(many, ("b",))
    assert note.startswith(
        "9 of 9 texts have labels that the model never learned: c, d, e, f, g, and"
    )
    assert "and 3 more;" in note
    assert f"{'a' * 39}…" in unknown_labels_note(["a" * 100], ("b",))


def test_texts_are_cut_off_in_every_part_and_it_is_said(reviews: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.csv"
    long.write_text(f"review,sentiment\n{'long ' * 100},bad\nA fine film,good\n")
    corpus = corpus_of(
        reviews,
        text_column="review",
        validation=str(long),
        test=str(long),
        max_length=12,
        sentences=True,
    )
    facts = corpus.facts()
    assert facts["cut_texts"] == {"train": 0, "validation": 1, "test": 1}
    assert facts["cut_tokens"] == {"train": 0, "validation": 88, "test": 88}
    said = corpus.describe()
    assert (
        "; of the validation part, 1 of 2 texts is cut off after 12 tokens, which leaves out 85.4 %"
        in said
    )
    assert "; of the test part, 1 of 2 texts is cut" in said
    assert "of the train part" not in said


def test_longer_lines_are_read_if_asked_for(reviews: Path) -> None:
    with pytest.raises(
        RegardError, match=r"reviews\.csv:2: line too long.*Raise task\.max_line_byt"
    ):
        corpus_of(reviews, text_column="review", max_line_bytes=25)
    with pytest.raises(RegardError, match=r"task\.max_line_bytes=0: it must be from 1 to"):
        corpus_of(reviews, max_line_bytes=0)
