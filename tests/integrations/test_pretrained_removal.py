"""Removing tokens of a text: the scores are those of the shortened text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.factories.hugging_face import tiny_model, write_model

from regard.core.errors import RegardError
from regard.explain.attribution import IMPORTANCE_METHODS
from regard.integrations.pretrained import PretrainedModel, load_pretrained
from regard.integrations.pretrained_removal import PretrainedItem
from regard.integrations.pretrained_source import PretrainedSource

pytest.importorskip("transformers", reason="the extra 'pretrained' is not installed")

TEXT, SHORT = "the cat sat on a mat", "the sat on mat"
KEPT = np.array([5, 0, 2, 3])  # in any order

Score = Callable[[PretrainedModel, str], torch.Tensor]


def log_probability(model: PretrainedModel, text: str) -> torch.Tensor:
    inputs, written = model.encode(text), model.generate(model.encode(TEXT), max_tokens=8)
    given = torch.tensor([[*([0] if model.kind == "seq2seq" else []), *written[:-1]]])
    if model.kind == "seq2seq":
        inputs["decoder_input_ids"] = given
    else:
        inputs = {"input_ids": torch.cat([inputs["input_ids"], given], dim=1)}
    logits = model.model(**inputs).logits[0, -len(written) :]
    return logits.log_softmax(dim=-1)[torch.arange(len(written)), written].mean()


def mask_probability(model: PretrainedModel, text: str) -> torch.Tensor:
    def probabilities(each: str) -> torch.Tensor:
        inputs = model.encode(each)
        (place,) = (inputs["input_ids"][0] == 4).nonzero()[:, 0]
        return model.model(**inputs).logits[0, place].softmax(dim=-1)

    return probabilities(text)[probabilities("the cat sat [MASK] a mat").argmax()]


def label_probability(model: PretrainedModel, text: str) -> torch.Tensor:
    whole, part = (model.model(**model.encode(each)).logits[0] for each in (TEXT, text))
    return part.softmax(dim=-1)[whole.argmax()]


def similarity(model: PretrainedModel, text: str) -> torch.Tensor:
    whole, part = (
        model.model(**model.encode(each)).last_hidden_state[0].mean(dim=0) for each in (TEXT, text)
    )
    return F.cosine_similarity(whole, part, dim=0)


@pytest.mark.parametrize(
    ("model_type", "name", "kept", "short", "expected"),
    [
        ("gpt2", None, KEPT, SHORT, log_probability),
        ("llama", None, KEPT, SHORT, log_probability),
        ("t5", None, KEPT, SHORT, log_probability),
        # The fourth word is masked, and stays.
        ("bert", None, np.array([0, 2, 4]), "the sat [MASK] mat", mask_probability),
        ("bert", "BertForSequenceClassification", KEPT, SHORT, label_probability),
        ("bert", "BertModel", KEPT, SHORT, similarity),
    ],
)
def test_scores_are_those_of_the_shortened_text(
    tmp_path: Path, model_type: str, name: str | None, kept: np.ndarray, short: str, expected: Score
) -> None:
    model = load_pretrained(f"hf:{write_model(tmp_path, tiny_model(model_type, name=name))}")
    item = PretrainedItem.of(model, TEXT)
    assert item.units == (5 if short.count("[MASK]") else 6)
    whole = "the cat sat [MASK] a mat" if short.count("[MASK]") else TEXT
    with torch.no_grad():
        wanted = [float(expected(model, each)) for each in (short, whole)]
    found = item.scores([kept, np.arange(item.units)])
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    importance = item.importance(IMPORTANCE_METHODS)
    assert set(importance) == set(IMPORTANCE_METHODS)
    assert {each.shape for each in importance.values()} == {(item.units,)}


def test_faithfulness_is_measured_on_a_file(tmp_path: Path) -> None:
    source = PretrainedSource(load_pretrained(f"hf:{write_model(tmp_path, tiny_model('gpt2'))}"))
    assert "--validation-file" in source.faithfulness().note
    file = tmp_path / "texts.txt"
    file.write_text(f"{TEXT}\n\n{SHORT}\na\n")
    lines: list[str] = []
    curves, note = source.faithfulness(str(file), log=lines.append)
    assert {each.method for each in curves} == set(IMPORTANCE_METHODS)
    assert {each.items for each in curves} == {2}  # one word cannot be shortened
    assert {each.data for each in curves} == {str(file)}
    assert (note, len(lines)) == ("", 1)
    with pytest.raises(RegardError, match=r"There is no file"):
        source.faithfulness(str(tmp_path / "none.txt"))
