"""Loaded runs: predictions, scores, cross-attention weights; and damaged run folders."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save
from tests.factories.toy_pronunciation import pronunciation, trained_folder
from tests.factories.untrained_runs import untrained_run
from torch import Tensor

from regard.core.batches import END, START, TokenInput
from regard.core.errors import RegardError
from regard.core.manifest import Manifest
from regard.core.masks import Padding
from regard.data.readers.text_file import RowErrors
from regard.runs import load as trained
from regard.runs.folder import RunFolder
from regard.runs.load import EvaluationReport, load

WORDS = ["abc", "fed", "", "cafe", "  ", "bad", "deaf"]


def test_predictions_are_in_input_order(learned: RunFolder) -> None:
    run = load(str(learned.path))
    outputs = run.predict(WORDS)
    assert [bool(output) for output in outputs] == [bool(word.strip()) for word in WORDS]
    right = [pronunciation(word) for word in WORDS if word.strip()]
    # ten seeds: 5 of 5; untrained: 0
    assert sum(a == b for a, b in zip(filter(None, outputs), right, strict=True)) >= 3
    assert outputs == [run.predict([word])[0] for word in WORDS]
    assert run.predict([" ABC "]) == run.predict(["abc"])
    assert run.predict([]) == []


def test_predictions_are_streamed(
    recurrent_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trained, "PREDICT_BATCH", 3)
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


def test_score_on_a_file(recurrent_run: RunFolder, tmp_path: Path) -> None:
    run = load(recurrent_run.path)
    outputs = dict(zip(["abc", "cafe"], run.predict(["abc", "cafe"]), strict=True))
    pairs = tmp_path / "pairs.gz"  # no name of a format: as the task's own
    with gzip.open(pairs, "wt") as file:
        # One of two answers is right, and one word is wrong.
        file.write(f"abc  F F F F\nabc(2)  {outputs['abc']}\ncafe  D {outputs['cafe']}\n")
    scores = run.score(pairs)
    assert scores["exact_match_error"] == 50.0
    assert 0 < scores["per"] < 50
    table = tmp_path / "pairs.tsv"
    table.write_text(f"abc\t{outputs['abc']}\n")
    assert run.score(table)["exact_match_error"] == 0.0


def test_malformed_rows_raise_or_are_collected(recurrent_run: RunFolder, tmp_path: Path) -> None:
    run = load(recurrent_run.path)
    pairs = tmp_path / "pairs.dict"
    pairs.write_text("abc  AH B K\nalone\n")
    with pytest.raises(RegardError, match=r"pairs\.dict:2"):
        run.score(pairs)
    errors = RowErrors(skip=True)
    assert set(run.score(pairs, errors=errors)) == {"exact_match_error", "per", "loss"}
    assert errors.count == 1


def test_alignment_belongs_to_the_prediction(learned: RunFolder) -> None:
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


def test_a_run_of_ctc(tmp_path: Path) -> None:
    run = load(trained_folder("ctc", tmp_path).path)
    words = ["abc", "fed", "cafe", "bad", "deaf", "face"]
    right = [pronunciation(word) for word in words]
    for beam_size in (1, 4):
        outputs = run.predict(words, beam_size=beam_size)
        # ten seeds: 4 to 6 of 6; untrained: 0
        assert sum(a == b for a, b in zip(outputs, right, strict=True)) >= 2
    record = run.alignment("cafe")
    assert list(record.maps) == ["cross/ctc"]
    (rows,) = record.maps["cross/ctc"]
    assert len(rows) == len(record.output_tokens)
    assert [sum(row) for row in rows] == pytest.approx([1.0] * len(rows), abs=1e-5)
    assert rows[-1] == (0.0, 0.0, 0.0, 0.0, 1.0)
    written = json.loads(run.folder.record.read_text())
    assert 0 < written["scores"]["test"]["loss"] < 1  # ten seeds: 0.15 to 0.19


def test_alignment_of_empty_text_is_refused(recurrent_run: RunFolder) -> None:
    with pytest.raises(RegardError, match="text is empty"):
        load(recurrent_run.path).alignment("  ")


@pytest.fixture
def copy(recurrent_run: RunFolder, tmp_path: Path) -> RunFolder:
    shutil.copytree(recurrent_run.path, tmp_path / "copy")
    return RunFolder(tmp_path / "copy")


def changed(path: Path, **changes: Any) -> None:
    content = {**json.loads(path.read_text()), **changes}
    Manifest(path.parent).replace(path, json.dumps(content))


def test_moved_folder_loads(copy: RunFolder, recurrent_run: RunFolder) -> None:
    assert load(copy.path).predict(["cafe"]) == load(recurrent_run.path).predict(["cafe"])


def test_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(RegardError, match=r"is not a run: it has no spec\.json"):
            load(path)


@pytest.mark.parametrize("content", ["[]", "null", '"x"', "{", "\x00", '{"task": 3}'])
def test_a_broken_spec_is_refused(content: str, copy: RunFolder) -> None:
    copy.spec.write_text(content)
    with pytest.raises(RegardError):
        load(copy.path)


@pytest.mark.parametrize("content", ["[]", "null", "{", '{"shared": 3}', '{"input": {}}'])
def test_a_broken_preprocessor_is_refused(content: str, copy: RunFolder) -> None:
    copy.preprocessor.write_text(content)
    with pytest.raises(RegardError):
        load(copy.path)


def test_a_changed_preprocessor_is_refused(copy: RunFolder) -> None:
    record = json.loads(copy.preprocessor.read_text())
    record["target"]["tokens"].reverse()
    copy.write_json(copy.preprocessor, record)
    with pytest.raises(RegardError, match="fingerprint"):
        load(copy.path)


def test_a_spec_of_another_model_is_refused(copy: RunFolder) -> None:
    model = json.loads(copy.spec.read_text())["model"]
    for change in ({"hidden_dim": 24}, {"num_layers": 2}, {"cell": "lstm"}):
        changed(copy.spec, model={**model, **change})
        with pytest.raises(RegardError, match=r"spec\.json' is not the spec of this run: its key"):
            load(copy.path)


def test_truncated_model_file_is_refused(copy: RunFolder) -> None:
    whole = copy.model.read_bytes()
    for content in (whole[:-1], whole[: len(whole) // 2], whole[:4], b"", b"\x80\x04pickle"):
        copy.manifest.replace(copy.model, content)
        with pytest.raises(RegardError, match="not a valid safetensors file"):
            load(copy.path)


def test_model_file_of_another_model_is_refused(copy: RunFolder) -> None:
    weights = load_file(copy.model)
    name = next(iter(weights))
    rest = {key: value for key, value in weights.items() if key != name}
    for other in (rest, {**weights, "more": torch.zeros(2)}, {**rest, name: torch.zeros(3, 3)}):
        copy.manifest.replace(copy.model, save(other))
        with pytest.raises(RegardError, match="does not match the model"):
            load(copy.path)


def test_stopped_run_without_model_names_resume(copy: RunFolder) -> None:
    copy.manifest.remove([copy.model, copy.record])
    with pytest.raises(RegardError, match=r"does not exist\. .*regard train --resume .*copy"):
        load(copy.path)


@pytest.mark.parametrize("name", ["model.safetensors", "metrics.jsonl", "record.json"])
def test_missing_file_is_named(copy: RunFolder, name: str) -> None:
    (copy.path / name).unlink()
    with pytest.raises(RegardError, match=f"{name}' .*(is missing|cannot be read)"):
        load(copy.path)


def test_examples_are_a_seeded_sample_in_file_order() -> None:
    words = tuple("abcdefghij")
    assessment = EvaluationReport(
        inputs=words,
        references=tuple((word.upper(),) for word in words),
        predictions=words,
        scores={},
        signatures={},
    )
    drawn = assessment.examples(4, seed=1)
    assert drawn == assessment.examples(4, seed=1)
    assert drawn != assessment.examples(4, seed=2)
    assert [example.input for example in drawn] == sorted(example.input for example in drawn)
    assert all(example.references == (example.input.upper(),) for example in drawn)
    assert len(assessment.examples(99)) == len(words)


SOURCE = TokenInput(torch.tensor([[4, 5, 6, END], [7, 4, END, 0]]), torch.tensor([4, 3]))
DECODER_INPUT = torch.tensor([[START, 5, 6, 7, 4], [START, 8, 9, 5, 6]])

TRANSFORMER = {"name": "transformer", "model_dim": 8, "num_heads": 2, "num_layers": 2}
MODELS: list[dict[str, Any]] = [
    {"attention_style": "bahdanau", "mechanism": "additive"},
    {"attention_style": "luong", "mechanism": "additive"},
    {"attention_style": "luong", "mechanism": "dot", "input_feeding": True},
    {**TRANSFORMER, "feed_forward_dim": 8, "tie": "target"},
]


@pytest.mark.parametrize("options", MODELS[:3])
def test_rows_agree_with_decoding_steps(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = untrained_run(**options)
    rows = run.source_weights(SOURCE, DECODER_INPUT)["cross/0"]
    model: Any = run.model
    attend, queries = model.decoder._attend, []

    def record_query(source: Any, query: Tensor) -> Tensor:
        queries.append(query)
        return attend(source, query)

    monkeypatch.setattr(model.decoder, "_attend", record_query)
    with torch.inference_mode():
        memory = model._encode(model.stem(SOURCE)).memory
        state = model.start(SOURCE)
        for position in range(DECODER_INPUT.shape[1]):
            queries.clear()
            # The logits of this step are those of the token after DECODER_INPUT[:, position].
            state = model.step(state, DECODER_INPUT[:, position]).state
            (query,) = queries
            used = model.decoder.mechanism.weights(
                query[:, None], memory[:, None], Padding(SOURCE.lengths)
            )
            torch.testing.assert_close(rows[:, :, position], used[:, :, 0])
    # The weights of this small model still differ from step to step.
    assert (rows[:, :, 0] - rows[:, :, 3]).abs().max() > 1e-4


@pytest.mark.parametrize("options", MODELS)
def test_rows_do_not_depend_on_the_predicted_token(options: dict[str, Any]) -> None:
    run = untrained_run(**options)
    whole = run.source_weights(SOURCE, DECODER_INPUT)
    for position in range(1, DECODER_INPUT.shape[1] + 1):
        for name, rows in run.source_weights(SOURCE, DECODER_INPUT[:, :position]).items():
            torch.testing.assert_close(rows, whole[name][:, :, :position])


@pytest.mark.parametrize("options", MODELS)
def test_only_cross_attention_is_returned(options: dict[str, Any]) -> None:
    run = untrained_run(**options)
    weights = run.source_weights(SOURCE, DECODER_INPUT)
    assert list(weights) == [f"cross/{layer}" for layer in range(options.get("num_layers", 1))]
    assert all(rows.shape == (2, rows.shape[1], 5, 4) for rows in weights.values())
    assert all((rows[1, :, :, 3] == 0).all() for rows in weights.values())
    assert run.has_cross_attention


def test_model_without_cross_attention() -> None:
    run = untrained_run(mechanism="none")
    assert not run.has_cross_attention
    assert run.source_weights(SOURCE, DECODER_INPUT) == {}
