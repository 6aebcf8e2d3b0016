"""Looking at pretrained models: what they predict, what is explained, and the axes of their attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.factories.hugging_face import tiny_model, write_model

from regard.core.errors import RegardError
from regard.explain.interventions import ZeroHead
from regard.explain.look import look
from regard.integrations.pretrained import load_pretrained
from regard.integrations.pretrained_source import PretrainedSource

pytest.importorskip("transformers", reason="the extra 'pretrained' is not installed")

TEXT = "the cat sat on a mat"
WORDS = tuple(TEXT.split())


def source_of(folder: Path, model_type: str, **options: Any) -> PretrainedSource:
    return PretrainedSource(
        load_pretrained(f"hf:{write_model(folder, tiny_model(model_type, **options))}")
    )


@pytest.mark.parametrize("model_type", ["gpt2", "llama"])
def test_a_decoder_continues_the_text(tmp_path: Path, model_type: str) -> None:
    source = source_of(tmp_path, model_type)
    record = look(source, TEXT, max_tokens=3)
    written = [each.token for each in record.output_tokens]
    assert record.axes["input"].tokens == (*WORDS, *written[:-1])
    assert record.prediction == source.pretrained.tokenizer.decode(
        source.pretrained.generate(source.pretrained.encode(TEXT), max_tokens=3),
        skip_special_tokens=True,
    )
    assert {each.layer for each in record.maps} == {"decoder/0", "decoder/1"}
    assert "rollout" in record.importance
    inputs = source.pretrained.encode(TEXT)
    with torch.no_grad():
        probabilities = source.model(**inputs).logits[0, -1].softmax(dim=-1)
    best = float(probabilities.max())
    assert max(record.probabilities.values()) == pytest.approx(best, rel=1e-5)
    assert record.output_tokens[0].log_probability == pytest.approx(
        float(probabilities.log().max()), abs=1e-5
    )


def test_an_encoder_and_decoder_have_three_axes(tmp_path: Path) -> None:
    record = look(source_of(tmp_path, "t5"), TEXT, max_tokens=4, methods=["weights"])
    count = len(record.output_tokens)
    assert {name: len(axis.tokens) for name, axis in record.axes.items()} == {
        "input": 6,
        "output": count,
        "decoder_input": count,
    }
    axes = {each.layer: (each.queries, each.keys) for each in record.maps}
    assert axes["encoder/1"] == ("input", "input")
    assert axes["decoder/1"] == ("output", "decoder_input")
    assert axes["cross/1"] == ("output", "input")


def test_the_target_is_another_output(tmp_path: Path) -> None:
    source = source_of(tmp_path, "gpt2")
    record = look(source, TEXT, target="and a dog", methods=["weights"])
    assert [each.token for each in record.output_tokens] == ["and", "a", "dog"]
    assert record.prediction != "and a dog"
    assert "given output" in record.notes[0]


def test_interventions_change_what_is_written(tmp_path: Path) -> None:
    source = source_of(tmp_path, "llama")
    edits = [ZeroHead(f"decoder/{layer}") for layer in range(2)]
    plain, changed = (
        look(source, TEXT, max_tokens=6, methods=["weights"], interventions=each)
        for each in ((), edits)
    )
    assert plain.prediction != changed.prediction
    # Without attention, the next token depends on the last one only.
    other = look(source, "mat", max_tokens=6, methods=["weights"], interventions=edits)
    assert other.prediction == changed.prediction


def test_a_masked_token_is_filled(tmp_path: Path) -> None:
    source = source_of(tmp_path, "bert")
    record = look(source, "the [MASK] sat")
    assert record.axes["input"].tokens == ("[CLS]", "the", "[MASK]", "sat", "[SEP]")
    (token,) = record.output_tokens
    with torch.no_grad():
        logits = source.model(**source.pretrained.encode("the [MASK] sat")).logits[0, 2]
    assert token.token == source.pretrained.token_texts([int(logits.argmax())])[0]
    assert record.prediction.split()[1] == token.token
    (chosen,) = look(source, "the [MASK] sat", target="dog").output_tokens
    assert chosen.token == "dog"
    with pytest.raises(RegardError, match=r"--target a dog.*2 tokens"):
        look(source, "the [MASK] sat", target="a dog")


def test_without_a_mask_every_token_is_explained(tmp_path: Path) -> None:
    record = look(source_of(tmp_path, "bert"), TEXT, methods=["weights"])
    assert tuple(each.token for each in record.output_tokens) == WORDS
    assert "no [MASK]" in record.notes[0]


def test_a_classifier_predicts_a_label(tmp_path: Path) -> None:
    source = source_of(
        tmp_path,
        "bert",
        name="BertForSequenceClassification",
        id2label={0: "bad", 1: "good", 2: "odd"},
        label2id={"bad": 0, "good": 1, "odd": 2},
    )
    record = look(source, TEXT)
    assert record.prediction == max(record.probabilities, key=record.probabilities.__getitem__)
    assert sum(record.probabilities.values()) == pytest.approx(1)
    assert look(source, TEXT, target="odd").target.startswith("logits of 'odd'")
    with pytest.raises(RegardError, match=r"'fine'.*bad, good, odd"):
        look(source, TEXT, target="fine")


def test_an_encoder_without_a_head_explains_its_embedding(tmp_path: Path) -> None:
    source = source_of(tmp_path, "bert", name="BertModel")
    for name, parameter in source.model.named_parameters():
        if "intermediate" in name:
            parameter.data.zero_()
    found = source.encode(TEXT)
    with torch.no_grad():
        states = source.model(**source.pretrained.encode(TEXT)).last_hidden_state[0]
        assert float(found.score()) == pytest.approx(float(states.mean(dim=0).square().sum()))
    # Without activations the attribution is complete, although a norm is not linear.
    record = look(source, TEXT)
    assert record.completeness_error == pytest.approx(0, abs=1e-4)
    assert record.prediction == ""
    assert "no head" in record.notes[0]


@pytest.mark.parametrize(
    ("model_type", "value", "options", "message"),
    [
        ("gpt2", 3, {}, "reads texts, and the input is a int"),
        ("gpt2", " ", {}, "is empty"),
        ("gpt2", TEXT, {"max_tokens": 0}, "--tokens 0"),
        ("gpt2", TEXT, {"target": " "}, "no token"),
        ("gpt2", "cat " * 64, {}, "no room to write"),
        ("gpt2", TEXT, {"heads": ["decoder/0.9"]}, r"--head decoder/0\.9"),
        ("bert", TEXT, {"max_tokens": 3}, "only language models write"),
    ],
)
def test_mistakes_are_errors(
    tmp_path: Path, model_type: str, value: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(RegardError, match=message):
        look(source_of(tmp_path, model_type), value, **options)
