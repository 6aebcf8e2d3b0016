"""What is learned from and what is held out: kept apart, streamed, several right answers together."""

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
from regard.data.readers.text_file import BadRows
from regard.data.splits import HeldOut, as_read
from regard.models.generation.search import decode
from regard.tasks.seq2seq import corpus as pair_corpus
from regard.tasks.seq2seq.corpus import PairCorpus, source_of
from regard.tasks.seq2seq.pronounce import Pronounce, PronounceOptions
from regard.tasks.seq2seq.translate import Translate, TranslateOptions


def task_on(path: Path, **options: Any) -> Pronounce:
    given = PronounceOptions(
        pairs=str(path), **{"validation_share": 0.3, "test_share": 0.2, **options}
    )
    task = Pronounce.from_options(given, seed=0, decode=partial(decode, beam_size=1))
    assert isinstance(task, Pronounce)
    return task


def learned_words(task: Pronounce) -> list[str]:
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


def test_one_source_never_stands_on_both_sides(mixed: Path) -> None:
    task = task_on(mixed)
    train = set(learned_words(task))
    validation = {source.lower() for source in task.corpus.validation.sources}
    test = {source.lower() for source in task.corpus.test.sources}
    assert validation
    assert test
    assert not train & (validation | test)
    assert not validation & test
    assert len(train | validation | test) == 100


def test_spellings_that_are_one_to_the_model_share_their_answers(mixed: Path) -> None:
    validation = task_on(mixed).corpus.validation
    assert all(len(answers) == 2 for answers in validation.answers)
    apart = task_on(mixed, lowercase="no").corpus.validation
    assert all(len(answers) == 1 for answers in apart.answers)


def test_the_split_does_not_depend_on_the_order_of_the_file(mixed: Path, tmp_path: Path) -> None:
    turned = tmp_path / "turned.tsv"
    turned.write_text("".join(reversed(mixed.read_text().splitlines(keepends=True))))
    words = [
        {word.lower() for word in task_on(path).corpus.validation.sources}
        for path in (mixed, turned)
    ]
    assert words[0] == words[1]


def test_only_the_source_is_put_into_lower_case(mixed: Path) -> None:
    vocabularies = task_on(mixed).corpus.vocabularies
    assert vocabularies.source.encode("WAA") == vocabularies.source.encode("waa")
    assert vocabularies.target.encode("A") != vocabularies.target.encode("a")


def test_either_of_two_pronunciations_is_right() -> None:
    part = HeldOut.of([("the", "DH AH"), ("a", "AH"), ("the", "DH IY")], group=True)
    assert part.sources == ("the", "a")
    assert part.answers == (("DH AH", "DH IY"), ("AH",))
    for right in ("DH AH", "DH IY"):
        assert Pronounce.scores([right, "AH"], part.answers)["wer"] == 0.0
    scores = Pronounce.scores(["DH EH", "AH"], part.answers)
    assert scores == pytest.approx({"wer": 50.0, "per": 100 / 3})


def test_a_file_of_its_own_leaves_the_pairs_whole(mixed: Path, tmp_path: Path) -> None:
    validation = tmp_path / "dev.gz"
    validation.write_text("waa  A 1\nwaa(2)  B x\n")  # no name of a format: a dictionary
    task = task_on(mixed, validation=str(validation))
    assert len(task.corpus.train) == 200
    assert task.corpus.validation == HeldOut(sources=("waa",), answers=(("A 1", "B x"),))
    assert len(task.corpus.test) == 0


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("a.tsv", "tsv"), ("a.csv.gz", "csv"), ("a.jsonl", "jsonl"), ("a.gz", "dictionary")],
)
def test_a_name_that_says_its_format_is_believed(name: str, wanted: str) -> None:
    source = source_of(PronounceOptions(), name, default_format="dictionary")
    assert source.format_name == wanted


def test_two_files_are_parallel_whatever_the_default() -> None:
    assert source_of(PronounceOptions(), "a,b", default_format="dictionary").format_name == "lines"


def test_nothing_held_out_is_refused(mixed: Path) -> None:
    with pytest.raises(
        RegardError, match=r"nothing held out.*--validation.*task\.validation_share=0\.0"
    ):
        task_on(mixed, validation_share=0.0)


def test_fingerprints_show_a_change(mixed: Path) -> None:
    facts = task_on(mixed).corpus.facts()
    assert task_on(mixed).corpus.facts() == facts
    mixed.write_text(mixed.read_text().replace("A 1\n", "A 2\n"))
    now = task_on(mixed).corpus.facts()
    assert {key for key in facts if facts[key] != now[key]} <= {
        *("train_fingerprint", "validation_fingerprint", "test_fingerprint")
    }
    assert now != facts


class Text(str):
    """A text whose end of life can be seen."""


def test_texts_to_learn_from_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: weakref.WeakValueDictionary[int, Text] = weakref.WeakValueDictionary()
    most = 0

    class Streamed(PairSource):
        def rows(self, *, bad: BadRows) -> Iterator[PairRow]:
            nonlocal most
            for number in range(1000):
                text = Text(f"word{number}")
                alive[id(text)] = text
                most = max(most, len(alive))
                yield PairRow(text, "A", number + 1)

    monkeypatch.setattr(pair_corpus, "ROWS_AT_A_TIME", 16)
    options = PronounceOptions(validation_share=0.05, test_share=0.0)
    corpus = PairCorpus.read(options, pairs=Streamed(path=Path("streamed")), group=True)
    held = len(corpus.validation)
    assert held > 20
    assert len(corpus.train) == 1000 - held
    assert most <= held + 2 * 16 + 4  # a block that is read and the one before it


def test_translation_has_no_data_of_its_own() -> None:
    with pytest.raises(RegardError, match=r"no data of its own.*--pairs"):
        Translate.training_pairs(TranslateOptions())


def test_every_translation_is_an_item_of_its_own() -> None:
    part = HeldOut.of([("ja", "yes"), ("ja", "yeah")], group=Translate.groups_answers)
    assert part.answers == (("yes",), ("yeah",))
    scores = Translate.scores(["yes", "yeah"], part.answers)
    assert scores["cer"] == 0.0
    assert set(scores) == set(Translate.metrics) - {"loss"}


def test_answers_are_spelled_as_the_model_can_write_them() -> None:
    rows = [("Ein Hund", "A Dog")]
    assert HeldOut.of(rows, group=False, lowercase="both").answers == (("a dog",),)
    assert HeldOut.of(rows, group=True, lowercase="source").answers == (("A Dog",),)


def test_white_space_does_not_make_another_source() -> None:
    assert as_read(" a  B\t", lowercase=True) == "a b"
    rows = [("a  b", "x"), ("a b", "y")]
    assert HeldOut.of(rows, group=True).answers == (("x", "y"),)


def test_sources_that_are_learned_too_are_counted(tmp_path: Path) -> None:
    learned, held = tmp_path / "learned.tsv", tmp_path / "held.tsv"
    learned.write_text("ab\tA\nAC\tB\nad\tC\n")
    held.write_text("ac\tB\nac\tD\nae\tE\n")
    corpus = task_on(learned, validation=str(held)).corpus
    assert corpus.learned_too == {"validation": 1, "test": 0}
    assert corpus.facts()["held_out_sources_in_train"] == {"validation": 1, "test": 0}


def test_a_held_out_text_that_is_too_long_is_a_bad_row(tmp_path: Path) -> None:
    learned, held = tmp_path / "learned.tsv", tmp_path / "held.tsv"
    learned.write_text("ab\tA\nac\tB\n")
    held.write_text("ab\tA\nabcabcabc\tB\n")
    with pytest.raises(RegardError, match=r"held\.tsv:2: too long: 9 tokens.*--skip-bad-rows"):
        task_on(learned, validation=str(held), max_length=8)
    corpus = task_on(learned, validation=str(held), max_length=8, skip_bad_rows=True).corpus
    assert corpus.validation.sources == ("ab",)
    assert corpus.bad.count == 1
