"""Splits of sequence-to-sequence data: no leakage, streaming, several references per source."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.data import preprocessor as preprocessor_module
from regard.data.dataset import Dataset
from regard.data.preprocessor import GroupedPairPreprocessor, PairPreprocessor
from regard.data.readers.text_file import Row, RowErrors
from regard.data.readers.text_reader import TextReader
from regard.data.splits import EvalSplit, dedup_key
from regard.models.generation.search import decode
from regard.runs.spec import builtin_recipes, read_recipe
from regard.tasks import task_class
from regard.tasks.pronounce import Pronounce, PronounceOptions
from regard.tasks.sequence import SequenceOptions
from regard.tasks.translate import Translate


def task_on(path: Path, **options: Any) -> Pronounce:
    fractions = {"validation_fraction": 0.3, "test_fraction": 0.2}
    given = PronounceOptions(
        train_file=str(path), **{"lowercase": "source", **fractions, **options}
    )
    task = Pronounce.from_options(given, seed=0, decode=partial(decode, beam_size=1))
    assert isinstance(task, Pronounce)
    return task


def training_words(task: Pronounce) -> list[str]:
    store, vocabulary = task.dataset.train, task.dataset.preprocessor.input
    return [vocabulary.decode(store.inputs[index].tolist()) for index in range(len(store))]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Every word in two spellings, each with a pronunciation of its own."""
    names = [f"w{chr(97 + a)}{chr(97 + b)}" for a in range(10) for b in range(10)]
    rows = [f"{name}\tA {number}\n{name.upper()}\tB x\n" for number, name in enumerate(names)]
    path = tmp_path / "mixed.tsv"
    path.write_text("".join(rows))
    return path


def test_splits_are_disjoint(mixed: Path) -> None:
    task = task_on(mixed)
    train = set(training_words(task))
    validation = {source.lower() for source in task.dataset.validation.inputs}
    test = {source.lower() for source in task.dataset.test.inputs}
    assert validation
    assert test
    assert not train & (validation | test)
    assert not validation & test
    assert len(train | validation | test) == 100


def test_sources_that_differ_in_case_share_their_references(mixed: Path) -> None:
    validation = task_on(mixed).dataset.validation
    assert all(len(references) == 2 for references in validation.references)
    apart = task_on(mixed, lowercase="no").dataset.validation
    assert all(len(references) == 1 for references in apart.references)


def test_split_does_not_depend_on_row_order(mixed: Path, tmp_path: Path) -> None:
    turned = tmp_path / "turned.tsv"
    turned.write_text("".join(reversed(mixed.read_text().splitlines(keepends=True))))
    words = [
        {word.lower() for word in task_on(path).dataset.validation.inputs}
        for path in (mixed, turned)
    ]
    assert words[0] == words[1]


def test_lowercase_source_only(mixed: Path) -> None:
    preprocessor = task_on(mixed).dataset.preprocessor
    assert preprocessor.input.encode("WAA") == preprocessor.input.encode("waa")
    assert preprocessor.target.encode("A") != preprocessor.target.encode("a")


def test_any_of_several_references_matches() -> None:
    split = EvalSplit.grouped([("the", "DH AH"), ("a", "AH"), ("the", "DH IY")], group=True)
    assert split.inputs == ("the", "a")
    assert split.references == (("DH AH", "DH IY"), ("AH",))
    for reference in ("DH AH", "DH IY"):
        assert Pronounce.scores([reference, "AH"], split.references)["exact_match_error"] == 0.0
    scores = Pronounce.scores(["DH EH", "AH"], split.references)
    assert scores == pytest.approx({"exact_match_error": 50.0, "per": 100 / 3})


def test_validation_file(mixed: Path, tmp_path: Path) -> None:
    validation = tmp_path / "validation.gz"
    validation.write_text("waa  A 1\nwaa(2)  B x\n")  # unknown extension: the default format
    task = task_on(mixed, validation_file=str(validation))
    assert len(task.dataset.train) == 200
    assert task.dataset.validation == EvalSplit(inputs=("waa",), references=(("A 1", "B x"),))
    assert len(task.dataset.test) == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.tsv", "tsv"), ("a.csv.gz", "csv"), ("a.jsonl", "jsonl"), ("a.gz", "dictionary")],
)
def test_format_from_extension(name: str, expected: str) -> None:
    reader = Pronounce.reader(PronounceOptions(), name)
    assert isinstance(reader, TextReader)
    assert reader.format_name == expected


def test_parallel_files_ignore_the_default_format() -> None:
    reader = Pronounce.reader(PronounceOptions(), "a,b")
    assert isinstance(reader, TextReader)
    assert reader.format_name == "lines"


def test_empty_validation_split_raises(mixed: Path) -> None:
    with pytest.raises(RegardError, match=r"--validation-file.*task\.validation_fraction=0\.0"):
        task_on(mixed, validation_fraction=0.0)


def test_fingerprints_change_with_the_data(mixed: Path) -> None:
    facts = task_on(mixed).dataset.facts()
    assert task_on(mixed).dataset.facts() == facts
    mixed.write_text(mixed.read_text().replace("A 1\n", "A 2\n"))
    now = task_on(mixed).dataset.facts()
    assert {key for key in facts if facts[key] != now[key]} <= {
        *("train_fingerprint", "validation_fingerprint", "test_fingerprint"),
        "train_rows_fingerprint",
    }
    assert now != facts


class Text(str):
    """A string that supports weak references."""


def test_training_texts_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: weakref.WeakValueDictionary[int, Text] = weakref.WeakValueDictionary()
    most = 0

    class Streamed:
        path = Path("streamed")

        def rows(self, *, errors: RowErrors) -> Iterator[Row]:
            nonlocal most
            for number in range(1000):
                text = Text(f"word{number}")
                alive[id(text)] = text
                most = max(most, len(alive))
                yield Row(text, "A", number + 1)

    monkeypatch.setattr(preprocessor_module, "ENCODE_ROWS", 16)
    options = PronounceOptions(validation_fraction=0.05, test_fraction=0.0)
    dataset = Dataset.read(GroupedPairPreprocessor, options, {"train": Streamed()})
    held = len(dataset.validation)
    assert held > 20
    assert len(dataset.train) == 1000 - held
    assert most <= held + 2 * 16 + 4  # a block that is read and the one before it


def test_translate_requires_train_file() -> None:
    with pytest.raises(RegardError, match="--train-file"):
        Translate.readers(SequenceOptions())


def test_translations_are_not_grouped() -> None:
    split = EvalSplit.grouped([("ja", "yes"), ("ja", "yeah")], group=PairPreprocessor.group)
    assert Translate.preprocessor_class is PairPreprocessor
    assert split.references == (("yes",), ("yeah",))
    scores = Translate.scores(["yes", "yeah"], split.references)
    assert scores["cer"] == 0.0
    assert set(scores) == {metric.name for metric in Translate.metrics} - {"loss"}


def test_lowercase_references() -> None:
    rows = [("Ein Hund", "A Dog")]
    assert EvalSplit.grouped(rows, group=False, lowercase="both").references == (("a dog",),)
    assert EvalSplit.grouped(rows, group=True, lowercase="source").references == (("A Dog",),)


def test_dedup_ignores_white_space() -> None:
    assert dedup_key(" a  B\t", lowercase=True) == "a b"
    rows = [("a  b", "x"), ("a b", "y")]
    assert EvalSplit.grouped(rows, group=True).references == (("x", "y"),)


def test_leakage_is_counted(tmp_path: Path) -> None:
    train, validation = tmp_path / "train.tsv", tmp_path / "held.tsv"
    train.write_text("ab\tA\nAC\tB\nad\tC\n")
    validation.write_text("ac\tB\nac\tD\nae\tE\n")
    dataset = task_on(train, validation_file=str(validation)).dataset
    assert dataset.leakage == {"validation": 1, "test": 0}
    assert dataset.facts()["leakage"] == {"validation": 1, "test": 0}


def test_too_long_evaluation_text_is_a_row_error(tmp_path: Path) -> None:
    train, validation = tmp_path / "train.tsv", tmp_path / "held.tsv"
    train.write_text("ab\tA\nac\tB\n")
    validation.write_text("ab\tA\nabcabcabc\tB\n")
    with pytest.raises(RegardError, match=r"held\.tsv:2: too long: 9 tokens.*--skip-bad-rows"):
        task_on(train, validation_file=str(validation), max_length=8)
    dataset = task_on(
        train, validation_file=str(validation), max_length=8, skip_bad_rows=True
    ).dataset
    assert dataset.validation.inputs == ("ab",)
    assert dataset.errors.count == 1


@pytest.mark.parametrize(
    ("task", "options", "lowercase"),
    [
        ("pronounce", {}, "no"),
        ("translate", {"source_tokens": "characters"}, "no"),
        ("regression", {}, False),
        ("classify", {"tokens": "characters"}, False),
        ("classify", {"tokens": "characters", "lowercase": True}, True),
        ("classify", {}, True),
    ],
)
def test_characters_keep_their_case(task: str, options: dict[str, Any], lowercase: Any) -> None:
    assert task_class(task).options_class(**options).as_kwargs()["lowercase"] == lowercase


def test_no_recipe_of_characters_lower_cases() -> None:
    for name in builtin_recipes():
        task = read_recipe(name)["task"]
        if "characters" in (task.get("source_tokens"), task.get("tokens")):
            assert "lowercase" not in task


def test_tags_beside_the_lemma(tmp_path: Path) -> None:
    """Morphological inflection: a tag is one token, also of a text typed without a tab."""
    path = tmp_path / "forms.tsv"
    rows = [f"{a}{b} up\t{a}{b}ed up\tV;PST\n" for a in "bcdfg" for b in "aeiou"]
    path.write_text("lemma\tform\ttags\n" + "".join(rows))
    columns = {"source_column": ["lemma", "tags"], "lowercase": "no"}
    task = task_on(path, target_tokens="characters", **columns)
    preprocessor = task.dataset.preprocessor
    assert {"<V>", "<PST>", " "} < set(preprocessor.input.tokens)
    assert all(text.endswith(" up\tV;PST") for text in task.dataset.validation.inputs)
    given = [preprocessor.encode_inputs([text]) for text in ("ba up V;PST", "ba up\tV;PST")]
    tokens = [preprocessor.input.tokens_of(each.inputs[0].tolist()) for each in given]
    assert tokens == [["b", "a", "␣", "u", "p", "<V>", "<PST>"]] * 2
    assert "tags" not in task.dataset.describe()


def test_unused_columns_are_in_the_data_line(tmp_path: Path) -> None:
    path = tmp_path / "forms.tsv"
    path.write_text("word\ttags\tform\n" + "".join(f"w{n}\tV\tx\n" for n in range(30)))
    columns = {"source_column": "word", "target_column": "form"}
    described = task_on(path, **columns).dataset.describe()
    assert described.endswith(". Columns: word, tags (not used), form")
