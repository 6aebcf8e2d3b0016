"""Looking at trained runs of every kind, and at models in Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.factories import tiny_runs
from tests.factories.tiny_runs import TRAINING, train_tiny
from torch import nn

from regard.core.batches import START, TokenInput
from regard.core.errors import RegardError
from regard.core.records.look import LookRecord
from regard.explain import look as look_module, model_source
from regard.explain.attribution import attribute
from regard.explain.interventions import KnockOut, ZeroHead
from regard.explain.look import look
from regard.explain.look_parts import centred_logits
from regard.explain.model_source import ModelSource
from regard.explain.run_source import RunSource
from regard.layers.blocks import EncoderBlock
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.runs.load import TrainedRun, load

SIZES = {"model_dim": 8, "num_heads": 2, "num_layers": 2, "feed_forward_dim": 8}


def transformer(folder: Path) -> dict[str, Any]:
    """Letters to phones."""
    sections = tiny_runs.seq2seq(folder)
    model = {"name": "transformer", **SIZES, "tie": "target"}
    return {**sections, "model": model, "training": TRAINING}


def text_encoder(folder: Path) -> dict[str, Any]:
    """A classifier of words."""
    return {**tiny_runs.classifier(folder), "model": {"name": "text_encoder", **SIZES}}


def masked_lm(folder: Path) -> dict[str, Any]:
    """A masked language model."""
    lines = [f"a b c d e{n} f. g h i{n} j." for n in range(40)]
    (folder / "docs.txt").write_text("\n".join(lines))
    task = {"name": "masked_lm", "train_file": str(folder / "docs.txt"), "vocabulary_size": 60}
    model = {"name": "text_encoder", **SIZES}
    return {"task": {**task, "validation_fraction": 0.3}, "model": model, "training": TRAINING}


def images(folder: Path) -> dict[str, Any]:
    """Images in patches."""
    sections = tiny_runs.images(folder)
    return {**sections, "model": {**sections["model"], **SIZES}}


def speech(folder: Path) -> dict[str, Any]:
    """Strings of digits, by an encoder and a decoder."""
    sections = tiny_runs.speech(folder)
    return {**sections, "model": {**sections["model"], **SIZES}}


def ctc(folder: Path) -> dict[str, Any]:
    """Strings of digits, by CTC."""
    sections = tiny_runs.speech(folder)
    return {**sections, "model": {"name": "ctc", **SIZES, "stem": sections["model"]["stem"]}}


def sounds(folder: Path) -> dict[str, Any]:
    """Recordings of digits."""
    kept = ("train_file", "sample_rate", "num_bands", "hop_ms")
    options = {
        name: value for name, value in tiny_runs.speech(folder)["task"].items() if name in kept
    }
    task = {"name": "audio_classification", "validation_fraction": 0.3, **options}
    stem = {"type": "convolutional", "strides": [1, 2]}
    model = {"name": "text_encoder", **SIZES, "position": "sinusoidal", "stem": stem}
    return {"task": task, "model": model, "training": TRAINING}


KINDS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "recurrent": tiny_runs.seq2seq,
    "transformer": transformer,
    "packed": tiny_runs.pretrained,
    "language_model": tiny_runs.language_model,
    "masked_lm": masked_lm,
    "structured": tiny_runs.classifier,
    "text_encoder": text_encoder,
    "hierarchical": tiny_runs.documents,
    "trees": tiny_runs.trees,
    "bag_of_words": tiny_runs.bag_of_words,
    "regression": tiny_runs.regression,
    "images": images,
    "sounds": sounds,
    "ctc": ctc,
    "speech": speech,
}
TEXTS = {
    **dict.fromkeys(("recurrent", "transformer"), "cafe"),
    "packed": "abc",
    "language_model": "ab a",
    "masked_lm": "a b [MASK] d",
    "regression": "word word 2",
}
STACK = {"encoder/0", "encoder/1"}
BOTH = STACK | {"decoder/0", "decoder/1", "cross/0", "cross/1"}
LAYERS: dict[str, set[str]] = {
    "recurrent": {"cross/0"},
    "transformer": BOTH,
    "packed": {"decoder/0"},
    "language_model": {"decoder/0"},
    "masked_lm": STACK,
    "structured": {"pooling/0"},
    "text_encoder": STACK,
    "hierarchical": {"sentence_pooling"},
    "images": STACK,
    "sounds": STACK,
    "ctc": STACK,
    "speech": BOTH,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def runs(place: Path) -> Callable[[str], TrainedRun]:
    known: dict[str, TrainedRun] = {}

    def trained(name: str) -> TrainedRun:
        if name not in known:
            known[name] = load(train_tiny(KINDS[name], place / name).path)
        return known[name]

    return trained


def value_for(name: str, run: TrainedRun) -> Any:
    if name in ("images", "sounds", "ctc", "speech"):
        return run.item(1)[0]
    return TEXTS.get(name, "the film of awful. a plot")


def looked(name: str, runs: Callable[[str], TrainedRun], **options: Any) -> LookRecord:
    run = runs(name)
    return look(RunSource(run), value_for(name, run), with_faithfulness=False, **options)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_run(name: str, runs: Callable[[str], TrainedRun]) -> None:
    record = looked(name, runs)
    assert {each.layer for each in record.maps} == LAYERS.get(name, set())
    assert LookRecord.from_json(record.as_json()).maps == record.maps
    length = len(record.axes["input"].tokens)
    assert record.importance
    assert {len(values) for values in record.importance.values()} == {length}
    assert record.prediction or record.output_tokens or name in ("ctc", "speech")
    assert record.target
    methods = [each.name for each in record.methods]
    assert methods[-1] == "attribution"
    if LAYERS.get(name, set()):
        assert methods[0] == "weights"
    run = runs(name)
    if not run.is_generative:
        (prediction,) = run.predict([value_for(name, run)])
        if name == "regression":
            assert float(record.prediction) == pytest.approx(prediction, rel=1e-2)
        else:
            assert record.prediction == prediction


@pytest.mark.parametrize("name", ["transformer", "recurrent", "speech"])
def test_maps_of_a_decoder_are_those_of_the_model(
    name: str, runs: Callable[[str], TrainedRun]
) -> None:
    run, record = runs(name), looked(name, runs)
    vocabulary = run.preprocessor.target
    encoded = run.preprocessor.encode_inputs([value_for(name, run)]).collate_inputs(np.arange(1))
    ids = {
        token: number for number, token in enumerate(vocabulary.tokens_of(range(vocabulary.size)))
    }
    given = torch.tensor([[ids[token] for token in record.axes["decoder_input"].tokens]])
    model: Any = run.model
    with torch.inference_mode():
        weights = model.weights(encoded, given)
        logits = model.logits(model.hidden(encoded, given))[0].log_softmax(-1)
    assert given[0, 0] == START
    for layer, expected in weights.items():
        maps = record.layer_maps(layer, "weights")
        assert maps is not None
        for number, head in enumerate(maps.heads):
            assert torch.allclose(torch.tensor(maps.matrix(head)), expected[0, number], atol=1e-3)
    assert record.axes["output"].tokens[:-1] == record.axes["decoder_input"].tokens[1:]
    labels = torch.tensor([ids[token] for token in record.axes["output"].tokens])
    expected = logits.gather(1, labels[:, None])[:, 0]
    found = [each.log_probability for each in record.output_tokens]
    assert torch.allclose(torch.tensor(found), expected, atol=1e-4)


def test_further_views(runs: Callable[[str], TrainedRun]) -> None:
    assert looked("structured", runs).document is not None
    assert looked("trees", runs).tree is not None
    picture = looked("images", runs)
    assert picture.image is not None
    assert (picture.axes["input"].grid, picture.axes["input"].prefix) == ((2, 2), 1)
    assert picture.axes["input"].tokens[:3] == ("class token", "row 1, column 1", "row 1, column 2")
    sound = looked("sounds", runs)
    assert sound.sound is not None
    assert sound.axes["input"].tokens[0] == "0.00 s"
    assert len(sound.axes["input"].tokens) == -(-sound.sound.frames // 2)
    heard = looked("ctc", runs)
    assert heard.alignment is not None
    assert list(heard.alignment.maps) == ["cross/ctc"]
    hierarchy = looked("hierarchical", runs)
    assert hierarchy.axes["sentences"].tokens == ("sentence 1", "sentence 2")
    assert hierarchy.document is not None
    assert hierarchy.importance["weights"] == hierarchy.document.importance()


def test_target(runs: Callable[[str], TrainedRun]) -> None:
    first = looked("text_encoder", runs)
    (other,) = set(first.probabilities) - {first.prediction}
    second = looked("text_encoder", runs, target=other)
    assert second.prediction == first.prediction
    assert f"'{other}'" in second.target
    # Of two labels, one logit is what the other is not.
    assert second.importance["gradient_attention"] == pytest.approx(
        [-value for value in first.importance["gradient_attention"]], abs=1e-6
    )
    phones = runs("transformer").preprocessor.target.tokens[:2]
    forced = looked("transformer", runs, target=" ".join(phones))
    assert forced.axes["output"].tokens == (*phones, "<end>")
    assert forced.prediction == looked("transformer", runs).prediction
    assert "given output" in forced.notes[0]
    for name, target, message in (
        ("text_encoder", "ugly", "Unknown label 'ugly'"),
        ("regression", "3", "predicts a number"),
        ("masked_lm", "a b", "it must be one token"),
    ):
        with pytest.raises(RegardError, match=message):
            looked(name, runs, target=target)


def test_language_model_continues_as_it_generates(runs: Callable[[str], TrainedRun]) -> None:
    run, record = runs("language_model"), looked("language_model", runs, max_tokens=6)
    assert record.prediction == "".join(run.generate("ab a", max_tokens=6, temperature=0.0))
    assert len(record.output_tokens) == 6
    # The last new token is predicted, not read.
    assert len(record.axes["input"].tokens) == 1 + 4 + 5
    assert sum(record.probabilities.values()) <= 1
    assert len(record.probabilities) == 10
    with pytest.raises(RegardError, match="--tokens 3"):
        looked("structured", runs, max_tokens=3)
    for number in (0, 100_000):
        with pytest.raises(RegardError, match=f"--tokens {number}: the"):
            looked("language_model", runs, max_tokens=number)


def test_interventions_change_the_output(runs: Callable[[str], TrainedRun]) -> None:
    before = looked("text_encoder", runs)
    edits = [ZeroHead("encoder/0", head=0), KnockOut("encoder/1", key=2)]
    after = looked("text_encoder", runs, interventions=edits)
    assert after.probabilities != before.probabilities
    zeroed = after.layer_maps("encoder/0", "weights")
    assert zeroed is not None
    assert zeroed.limits[0] == 0
    assert zeroed.limits[1] > 0
    column = after.layer_maps("encoder/1", "weights")
    assert column is not None
    assert {row[2] for row in column.matrix("1")} == {0}
    # What follows from the unchanged model is left out.
    assert after.document is None
    written = looked("transformer", runs, interventions=[ZeroHead("cross/1")])
    assert written.alignment is None
    assert written.output_tokens != looked("transformer", runs).output_tokens
    said = looked("language_model", runs, interventions=[ZeroHead("decoder/0", head=0)])
    assert said.output_tokens != looked("language_model", runs).output_tokens
    with pytest.raises(RegardError, match="Unknown attention layer 'encoder/7'"):
        looked("text_encoder", runs, interventions=[ZeroHead("encoder/7")])


def test_methods_and_heads(
    runs: Callable[[str], TrainedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = looked("text_encoder", runs, methods=["value_zeroing", "weights"])
    assert [each.name for each in record.methods] == ["value_zeroing", "weights"]
    assert record.completeness_error is None
    assert all(each.exact == each.heads for each in record.maps)
    # As of a long input:
    monkeypatch.setattr(look_module, "EXACT_BYTES", 100)
    monkeypatch.setattr(look_module, "MAX_BYTES", 5000)
    monkeypatch.setattr(look_module, "TOP_ENTRIES", 2)
    long = looked("text_encoder", runs, heads=["encoder/1.2"])
    assert [each.name for each in long.methods] == ["weights"]
    assert {each.layer: each.exact for each in long.maps} == {"encoder/0": (), "encoder/1": ("2",)}
    assert "but for encoder/1.2" in long.notes[-2]
    assert "--method adds: contribution_norm" in long.notes[-1]
    for head in ("encoder/1", "encoder/1.3", "encoder/9.1", "encoder/1.x", "encoder/1.0"):
        with pytest.raises(RegardError, match=r"use LAYER.HEAD.*encoder/1 \(1 to 2\)"):
            looked("text_encoder", runs, heads=[head])
    with pytest.raises(RegardError, match="Unknown method 'weight'"):
        looked("text_encoder", runs, methods=["weight"])


def test_attribution_is_that_of_the_score(runs: Callable[[str], TrainedRun]) -> None:
    run, record = runs("text_encoder"), looked("text_encoder", runs)
    model: Any = run.model
    encoded = run.preprocessor.encode_inputs([value_for("text_encoder", run)])
    given = encoded.collate_inputs(np.arange(1))
    label = torch.tensor([run.preprocessor.target.labels.index(record.prediction)])
    found = attribute(model, lambda: centred_logits(model.classify(given).logits, label))
    assert record.importance["attribution"] == pytest.approx(found.scores["input"][0].tolist())
    assert record.completeness_error == pytest.approx(found.relative_error)


def test_gradients_of_parameters_stay(runs: Callable[[str], TrainedRun]) -> None:
    looked("text_encoder", runs)
    assert all(each.grad is None for each in runs("text_encoder").model.parameters())


def test_faithfulness_is_measured_once(runs: Callable[[str], TrainedRun]) -> None:
    run, lines = runs("text_encoder"), list[str]()
    source = RunSource(run)
    first = source.faithfulness(log=lines.append)
    assert [each.method for each in first.curves][:1] == ["weights"]
    assert len(lines) == 1
    assert source.faithfulness(log=lines.append).curves == first.curves
    assert len(lines) == 1
    missing = RunSource(runs("masked_lm")).faithfulness()
    assert missing.curves == ()
    assert "predicts no label" in missing.note


def test_items_of_a_split(runs: Callable[[str], TrainedRun]) -> None:
    text, reference = runs("structured").item(1)
    assert isinstance(text, str)
    assert reference in ("good", "bad")
    assert " " in runs("transformer").item(2)[1]
    with pytest.raises(RegardError, match=r"item 0: the test split .* has the items 1 to"):
        runs("structured").item(0)


def test_notes_on_the_input(runs: Callable[[str], TrainedRun]) -> None:
    run = runs("structured")
    record = look(RunSource(run), "the zebra", with_faithfulness=False)
    assert "'zebra'" in record.notes[0]
    with pytest.raises(RegardError, match="The text is empty"):
        look(RunSource(run), "  ", with_faithfulness=False)


# Models in Python


class Tagger(nn.Module):
    """Cross-attention over another sequence, after a block."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        attention = MultiHead(model_dim=8, num_heads=2)
        self.block = EncoderBlock(attention=attention, feed_forward=FeedForward(model_dim=8))
        self.cross = MultiHead(model_dim=8, num_heads=4, role="cross")
        self.output = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.output(self.cross(self.block(x), context))
        return found


def tagger_input() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(1, 3, 8), torch.randn(1, 5, 8)


def test_a_model_in_python() -> None:
    model, given = Tagger().eval(), tagger_input()
    names = {"output": ["a", "b", "c"], "input": ["v", "w", "x", "y", "z"]}
    record = look(ModelSource(model, names=names), given)
    assert {each.layer: (each.queries, each.keys) for each in record.maps} == {
        "block.attention": ("output", "output"),
        "cross": ("output", "input"),
    }
    cross = next(each for each in record.maps if each.keys == "input" and each.method == "weights")
    assert (cross.queries, len(cross.heads), cross.shape) == ("output", 4, (3, 5))
    assert "no data" in record.faithfulness_note
    unnamed = look(ModelSource(model), {"x": given[0], "context": given[1]})
    assert unnamed.layer_maps(cross.layer, "weights") is not None
    assert sorted(len(axis.tokens) for axis in unnamed.axes.values()) == [3, 5]


def test_what_is_explained_of_a_model() -> None:
    model, given = Tagger().eval(), tagger_input()
    default = look(ModelSource(model), given, methods=["gradient_attention"])
    own = ModelSource(model, explain=lambda output: output[0, 1, 2] - output[0, 1].mean())
    chosen = look(own, given, methods=["gradient_attention"])
    assert chosen.target == "the given function"
    maps = next(each for each in chosen.maps if each.layer.startswith("cross"))
    rows = torch.tensor(maps.matrix("1"))
    assert (rows[[0, 2]] == 0).all()
    assert (rows[1] != 0).any()
    assert default.maps != chosen.maps
    second = look(ModelSource(model), given, target="2", methods=["gradient_attention"])
    assert torch.allclose(
        torch.tensor(next(e for e in second.maps if e.layer == maps.layer).matrix("1"))[1],
        rows[1],
        atol=1e-4,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": nn.Linear(8, 2), "value": torch.randn(1, 8)}, "has no attention"),
        ({"model": Tagger().train()}, "training mode"),
        (
            {"names": ["a", "b"]},
            r"2 names of 'input', but the attention layers have 3 and 5 positions",
        ),
        ({"value": (torch.randn(2, 3, 8), torch.randn(2, 5, 8))}, "a batch of 2 rows"),
        ({"target": "3"}, "outputs 0 to 2"),
        ({"max_tokens": 4}, "writes no text"),
        ({"validation_file": "a.txt"}, "--validation-file a.txt"),
    ],
)
def test_errors_of_models(change: dict[str, Any], message: str) -> None:
    options = {"model": Tagger().eval(), "value": tagger_input(), "names": (), **change}
    source = ModelSource(
        options.pop("model").eval() if "value" in change else options.pop("model"),
        names=options.pop("names"),
    )
    with pytest.raises(RegardError, match=message):
        look(source, options.pop("value"), **options)


def test_inputs_with_fields_are_one_argument() -> None:
    given = TokenInput(torch.tensor([[4, 5]]), torch.tensor([2]))
    assert model_source._arguments(given) == ((given,), {})
