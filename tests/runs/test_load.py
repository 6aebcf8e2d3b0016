"""A loaded run: predictions, scores, pictures; and folders that were tampered with."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.factories.toy_language import spoken

from regard.core.errors import RegardError
from regard.data.readers.text_file import BadRows
from regard.runs import load as trained
from regard.runs.folder import RunFolder
from regard.runs.load import Assessment, load

WORDS = ["abc", "fed", "", "cafe", "  ", "bad", "deaf"]


def test_texts_are_predicted_in_their_order(learned: RunFolder) -> None:
    run = load(str(learned.path))
    outputs = run.predict(WORDS)
    assert [bool(output) for output in outputs] == [bool(word.strip()) for word in WORDS]
    right = [spoken(word) for word in WORDS if word.strip()]
    # ten seeds: 5 of 5; untrained: 0
    assert sum(a == b for a, b in zip(filter(None, outputs), right, strict=True)) >= 3
    assert outputs == [run.predict([word])[0] for word in WORDS]
    assert run.predict([" ABC "]) == run.predict(["abc"])
    assert run.predict([]) == []


def test_texts_are_streamed(recurrent_run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trained, "TEXTS_AT_A_TIME", 3)
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield WORDS[taken % len(WORDS)]

    outputs = load(recurrent_run.path).predict_each(endless())
    for _ in range(4):
        next(outputs)
    assert taken == 6


def test_a_file_of_pairs_is_scored(recurrent_run: RunFolder, tmp_path: Path) -> None:
    run = load(recurrent_run.path)
    outputs = dict(zip(["abc", "cafe"], run.predict(["abc", "cafe"]), strict=True))
    pairs = tmp_path / "pairs.gz"  # no name of a format: as the task's own
    with gzip.open(pairs, "wt") as file:
        # One of two answers is right, and one word is wrong.
        file.write(f"abc  F F F F\nabc(2)  {outputs['abc']}\ncafe  D {outputs['cafe']}\n")
    scores = run.score(pairs)
    assert scores["wer"] == 50.0
    assert 0 < scores["per"] < 50
    table = tmp_path / "pairs.tsv"
    table.write_text(f"abc\t{outputs['abc']}\n")
    assert run.score(table)["wer"] == 0.0


def test_bad_pairs_are_an_error_or_taken_in(recurrent_run: RunFolder, tmp_path: Path) -> None:
    run = load(recurrent_run.path)
    pairs = tmp_path / "pairs.dict"
    pairs.write_text("abc  AH B K\nalone\n")
    with pytest.raises(RegardError, match=r"pairs\.dict:2"):
        run.score(pairs)
    bad = BadRows(skip=True)
    assert set(run.score(pairs, bad=bad)) == {"wer", "per", "loss"}
    assert bad.count == 1


def test_the_alignment_is_of_what_is_predicted(learned: RunFolder) -> None:
    run = load(learned.path)
    record = run.alignment("cafe")
    assert record.source_tokens == ("c", "a", "f", "e", "<end>")
    output = run.predict(["cafe"])[0]
    assert record.output_tokens == (*output.split(), "<end>")
    assert record.title == f"cafe → {output}"
    assert record.maps
    for name, heads in record.maps.items():
        assert name.startswith("cross")
        for head in heads:
            assert len(head) == len(record.output_tokens)
            for row in head:
                assert len(row) == 5
                assert sum(row) == pytest.approx(1.0, abs=1e-5)


def test_nothing_cannot_be_looked_at(recurrent_run: RunFolder) -> None:
    with pytest.raises(RegardError, match="the text is empty"):
        load(recurrent_run.path).alignment("  ")


@pytest.fixture
def copy(recurrent_run: RunFolder, tmp_path: Path) -> RunFolder:
    shutil.copytree(recurrent_run.path, tmp_path / "copy")
    return RunFolder(tmp_path / "copy")


def changed(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_folder_may_be_moved(copy: RunFolder, recurrent_run: RunFolder) -> None:
    assert load(copy.path).predict(["cafe"]) == load(recurrent_run.path).predict(["cafe"])


def test_what_is_not_a_run_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(RegardError, match=r"is not a run: it has no spec\.json"):
            load(path)


@pytest.mark.parametrize("content", ["[]", "null", '"x"', "{", "\x00", '{"task": 3}'])
def test_a_broken_spec_is_refused(content: str, copy: RunFolder) -> None:
    copy.spec.write_text(content)
    with pytest.raises(RegardError):
        load(copy.path)


@pytest.mark.parametrize("content", ["[]", "null", "{", '{"shared": 3}', '{"source": {}}'])
def test_a_broken_vocabulary_is_refused(content: str, copy: RunFolder) -> None:
    copy.vocabulary.write_text(content)
    with pytest.raises(RegardError):
        load(copy.path)


def test_a_changed_vocabulary_is_refused(copy: RunFolder) -> None:
    record = json.loads(copy.vocabulary.read_text())
    record["target"]["tokens"].reverse()
    copy.vocabulary.write_text(json.dumps(record))
    with pytest.raises(RegardError, match="fingerprint does not fit"):
        load(copy.path)


def test_a_spec_of_another_model_is_refused(copy: RunFolder) -> None:
    model = json.loads(copy.spec.read_text())["model"]
    for change in ({"hidden_dim": 24}, {"num_layers": 2}, {"cell": "lstm"}):
        changed(copy.spec, model={**model, **change})
        with pytest.raises(RegardError, match=r"does not fit the model"):
            load(copy.path)


def test_weights_cut_short_are_refused(copy: RunFolder) -> None:
    whole = copy.model.read_bytes()
    for content in (whole[:-1], whole[: len(whole) // 2], whole[:4], b"", b"\x80\x04pickle"):
        copy.model.write_bytes(content)
        with pytest.raises(RegardError, match="not a whole safetensors file"):
            load(copy.path)


def test_weights_of_another_model_are_refused(copy: RunFolder) -> None:
    weights = load_file(copy.model)
    name = next(iter(weights))
    rest = {key: value for key, value in weights.items() if key != name}
    for other in (rest, {**weights, "more": torch.zeros(2)}, {**rest, name: torch.zeros(3, 3)}):
        save_file(other, copy.model)
        with pytest.raises(RegardError, match="does not fit the model"):
            load(copy.path)


def test_a_run_without_weights_yet_says_how_to_go_on(copy: RunFolder) -> None:
    copy.model.unlink()
    with pytest.raises(RegardError, match=r"is not there\. .*regard train --resume .*copy"):
        load(copy.path)


def test_a_run_without_record_or_metrics_says_so(copy: RunFolder) -> None:
    copy.record.unlink()
    copy.metrics.unlink()
    run = load(copy.path)
    with pytest.raises(RegardError, match=r"record\.json' cannot be read .*--resume"):
        _ = run.record
    with pytest.raises(RegardError, match=r"metrics\.jsonl' cannot be read"):
        _ = run.metrics


def test_examples_are_drawn_by_seed_in_order_of_the_file() -> None:
    words = tuple("abcdefghij")
    assessment = Assessment(
        sources=words,
        answers=tuple((word.upper(),) for word in words),
        predicted=words,
        scores={},
        signatures={},
    )
    drawn = assessment.examples(4, seed=1)
    assert drawn == assessment.examples(4, seed=1)
    assert drawn != assessment.examples(4, seed=2)
    assert [example.source for example in drawn] == sorted(example.source for example in drawn)
    assert all(example.answers == (example.source.upper(),) for example in drawn)
    assert len(assessment.examples(99)) == len(words)
