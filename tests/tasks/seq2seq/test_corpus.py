"""Splits of sequence-to-sequence data: no leakage, streaming, several references per source."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.data.readers.formats import PairRow
from regard.data.readers.pairs import PairSource
from regard.data.readers.text_file import RowErrors
from regard.data.splits import EvalSplit, dedup_key
from regard.models.generation.search import decode
from regard.tasks.seq2seq import corpus as corpus_module
from regard.tasks.seq2seq.corpus import Seq2SeqCorpus, pair_source
from regard.tasks.seq2seq.pronounce import Pronounce, PronounceOptions
from regard.tasks.seq2seq.translate import Translate, TranslateOptions


def task_on(path: Path, **options: Any) -> Pronounce:
    given = PronounceOptions(
        train_file=str(path), **{"validation_fraction": 0.3, "test_fraction": 0.2, **options}
    )
    task = Pronounce.from_options(given, seed=0, decode=partial(decode, beam_size=1))
    assert isinstance(task, Pronounce)
    return task


def training_words(task: Pronounce) -> list[str]:
    store, vocabulary = task.corpus.train, task.corpus.vocabularies.source
    return [vocabulary.decode(store.source(index).tolist()) for index in range(len(store))]


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
    validation = {source.lower() for source in task.corpus.validation.inputs}
    test = {source.lower() for source in task.corpus.test.inputs}
    assert validation
    assert test
    assert not train & (validation | test)
    assert not validation & test
    assert len(train | validation | test) == 100


def test_sources_that_differ_in_case_share_their_references(mixed: Path) -> None:
    validation = task_on(mixed).corpus.validation
    assert all(len(references) == 2 for references in validation.references)
    apart = task_on(mixed, lowercase="no").corpus.validation
    assert all(len(references) == 1 for references in apart.references)


def test_split_does_not_depend_on_row_order(mixed: Path, tmp_path: Path) -> None:
    turned = tmp_path / "turned.tsv"
    turned.write_text("".join(reversed(mixed.read_text().splitlines(keepends=True))))
    words = [
        {word.lower() for word in task_on(path).corpus.validation.inputs}
        for path in (mixed, turned)
    ]
    assert words[0] == words[1]


def test_lowercase_source_only(mixed: Path) -> None:
    vocabularies = task_on(mixed).corpus.vocabularies
    assert vocabularies.source.encode("WAA") == vocabularies.source.encode("waa")
    assert vocabularies.target.encode("A") != vocabularies.target.encode("a")


def test_any_of_several_references_matches() -> None:
    split = EvalSplit.of([("the", "DH AH"), ("a", "AH"), ("the", "DH IY")], group=True)
    assert split.inputs == ("the", "a")
    assert split.references == (("DH AH", "DH IY"), ("AH",))
    for reference in ("DH AH", "DH IY"):
        assert Pronounce.scores([reference, "AH"], split.references)["wer"] == 0.0
    scores = Pronounce.scores(["DH EH", "AH"], split.references)
    assert scores == pytest.approx({"wer": 50.0, "per": 100 / 3})


def test_validation_file(mixed: Path, tmp_path: Path) -> None:
    validation = tmp_path / "validation.gz"
    validation.write_text("waa  A 1\nwaa(2)  B x\n")  # unknown extension: the default format
    task = task_on(mixed, validation_file=str(validation))
    assert len(task.corpus.train) == 200
    assert task.corpus.validation == EvalSplit(inputs=("waa",), references=(("A 1", "B x"),))
    assert len(task.corpus.test) == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.tsv", "tsv"), ("a.csv.gz", "csv"), ("a.jsonl", "jsonl"), ("a.gz", "dictionary")],
)
def test_format_from_extension(name: str, expected: str) -> None:
    source = pair_source(PronounceOptions(), name, default_format="dictionary")
    assert source.format_name == expected


def test_parallel_files_ignore_the_default_format() -> None:
    assert (
        pair_source(PronounceOptions(), "a,b", default_format="dictionary").format_name == "lines"
    )


def test_empty_validation_split_raises(mixed: Path) -> None:
    with pytest.raises(RegardError, match=r"--validation-file.*task\.validation_fraction=0\.0"):
        task_on(mixed, validation_fraction=0.0)


def test_fingerprints_change_with_the_data(mixed: Path) -> None:
    facts = task_on(mixed).corpus.facts()
    assert task_on(mixed).corpus.facts() == facts
    mixed.write_text(mixed.read_text().replace("A 1\n", "A 2\n"))
    now = task_on(mixed).corpus.facts()
    assert {key for key in facts if facts[key] != now[key]} <= {
        *("train_fingerprint", "validation_fingerprint", "test_fingerprint")
    }
    assert now != facts


class Text(str):
    """A string that supports weak references."""


def test_training_texts_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: weakref.WeakValueDictionary[int, Text] = weakref.WeakValueDictionary()
    most = 0

    class Streamed(PairSource):
        def rows(self, *, errors: RowErrors) -> Iterator[PairRow]:
            nonlocal most
            for number in range(1000):
                text = Text(f"word{number}")
                alive[id(text)] = text
                most = max(most, len(alive))
                yield PairRow(text, "A", number + 1)

    monkeypatch.setattr(corpus_module, "ENCODE_ROWS", 16)
    options = PronounceOptions(validation_fraction=0.05, test_fraction=0.0)
    corpus = Seq2SeqCorpus.read(options, pairs=Streamed(path=Path("streamed")), group=True)
    held = len(corpus.validation)
    assert held > 20
    assert len(corpus.train) == 1000 - held
    assert most <= held + 2 * 16 + 4  # a block that is read and the one before it


def test_translate_requires_train_file() -> None:
    with pytest.raises(RegardError, match="--train-file"):
        Translate.train_source(TranslateOptions())


def test_translations_are_not_grouped() -> None:
    split = EvalSplit.of([("ja", "yes"), ("ja", "yeah")], group=Translate.groups_references)
    assert split.references == (("yes",), ("yeah",))
    scores = Translate.scores(["yes", "yeah"], split.references)
    assert scores["cer"] == 0.0
    assert set(scores) == set(Translate.metrics) - {"loss"}


def test_lowercase_references() -> None:
    rows = [("Ein Hund", "A Dog")]
    assert EvalSplit.of(rows, group=False, lowercase="both").references == (("a dog",),)
    assert EvalSplit.of(rows, group=True, lowercase="source").references == (("A Dog",),)


def test_dedup_ignores_white_space() -> None:
    assert dedup_key(" a  B\t", lowercase=True) == "a b"
    rows = [("a  b", "x"), ("a b", "y")]
    assert EvalSplit.of(rows, group=True).references == (("x", "y"),)


def test_leakage_is_counted(tmp_path: Path) -> None:
    train, validation = tmp_path / "train.tsv", tmp_path / "held.tsv"
    train.write_text("ab\tA\nAC\tB\nad\tC\n")
    validation.write_text("ac\tB\nac\tD\nae\tE\n")
    corpus = task_on(train, validation_file=str(validation)).corpus
    assert corpus.leakage == {"validation": 1, "test": 0}
    assert corpus.facts()["leakage"] == {"validation": 1, "test": 0}


def test_too_long_evaluation_text_is_a_row_error(tmp_path: Path) -> None:
    train, validation = tmp_path / "train.tsv", tmp_path / "held.tsv"
    train.write_text("ab\tA\nac\tB\n")
    validation.write_text("ab\tA\nabcabcabc\tB\n")
    with pytest.raises(RegardError, match=r"held\.tsv:2: too long: 9 tokens.*--skip-bad-rows"):
        task_on(train, validation_file=str(validation), max_length=8)
    corpus = task_on(
        train, validation_file=str(validation), max_length=8, skip_bad_rows=True
    ).corpus
    assert corpus.validation.inputs == ("ab",)
    assert corpus.errors.count == 1
