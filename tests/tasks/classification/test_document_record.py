"""The document record of a classifier and a text."""

from __future__ import annotations

import pytest
import torch
from tests.factories.lexicon_classifier import LexiconClassifier
from torch import Tensor, nn

from regard.core.batches import END, START, Input, TokenInput
from regard.core.errors import RegardError
from regard.core.protocols import TextAttention
from regard.core.records.document import DocumentRecord
from regard.models.classifiers.hierarchical import HierarchicalClassifier
from regard.models.classifiers.structured import StructuredClassifier
from regard.tasks.classification import leave_one_out
from regard.tasks.classification.leave_one_out import document_record

VOTES = [0.0, 0.0, 0.0, 0.0, 3.0, -1.0, 0.5, 1.0]
LOOKS = [0.0, 0.0, 0.0, 1.0, 6.0, 2.0, 1.0, 1.0]
TOKENS = torch.tensor([START, 4, 5, 6, 7, END])
TEXTS = ("<start>", "good", "bad", "so", "very", "<end>")


def row(tokens: Tensor, segments: Tensor | None = None) -> TokenInput:
    lengths = torch.tensor([len(tokens)])
    return TokenInput(tokens[None], lengths, None if segments is None else segments[None])


def test_record() -> None:
    model = LexiconClassifier(VOTES, LOOKS, sentences=True)
    found = document_record(
        model,
        row(TOKENS, torch.tensor([0, 0, 0, 1, 1, 1])),
        texts=TEXTS,
        labels=["down", "up"],
        title="t",
        reference="down",
    )
    assert found.label == "up"
    assert found.probabilities["up"] == pytest.approx(1 / (1 + 2.718281828**-3.5))
    assert found.hops[0] == pytest.approx((0.0, 0.75, 0.25, 0.5, 0.5, 0.0))
    assert len(found.hops) == 1
    assert found.sentence_weights == pytest.approx((0.8, 0.2))
    assert found.importance() == pytest.approx((0.0, 0.6, 0.2, 0.1, 0.1, 0.0))
    assert found.deletion is not None
    assert found.deletion.texts == 1
    assert found.drops is not None
    assert found.drops[0] is None
    assert found.drops[1] is not None
    assert found.drops[1] > 0
    assert found.kendall_tau is not None
    assert DocumentRecord.from_json(found.as_json()) == found


def test_padded_sentences_are_removed() -> None:
    class Padded(LexiconClassifier):
        def text_attention(self, input: Input) -> TextAttention:
            found = super().text_attention(input)
            assert found is not None
            assert found.sentences is not None
            padding = torch.zeros(input.shape[0], 3)
            return found._replace(sentences=torch.cat([found.sentences, padding], dim=1))

    model = Padded(VOTES, LOOKS, sentences=True)
    segments = torch.tensor([0, 0, 0, 1, 1, 1])
    found = document_record(model, row(TOKENS, segments), texts=TEXTS, labels=["a", "b"], title="t")
    assert found.sentence_weights == pytest.approx((0.8, 0.2))


def test_long_text_without_leave_one_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leave_one_out, "MAX_WORDS", 3)
    model = LexiconClassifier(VOTES, LOOKS)
    found = document_record(model, row(TOKENS), texts=TEXTS, labels=["a", "b"], title="t")
    assert found.drops is None
    assert found.kendall_tau is None
    assert found.deletion is not None


def test_single_word() -> None:
    found = document_record(
        LexiconClassifier(VOTES, LOOKS),
        row(TOKENS[1:2]),
        texts=["good"],
        labels=["a", "b"],
        title="t",
    )
    assert found.deletion is None
    assert found.drops is None
    assert found.kendall_tau is None
    assert found.hops == ((1.0,),)


def test_invalid_input() -> None:
    model = LexiconClassifier(VOTES, LOOKS)
    with pytest.raises(RegardError, match="2 classes, but 1 labels"):
        document_record(model, row(TOKENS), texts=TEXTS, labels=["a"], title="t")
    with pytest.raises(RegardError, match="1 texts for 6 tokens"):
        document_record(model, row(TOKENS), texts=["a"], labels=["a", "b"], title="t")
    with pytest.raises(RegardError, match="no attention over its words"):
        document_record(
            LexiconClassifier(VOTES, None), row(TOKENS), texts=TEXTS, labels=["a", "b"], title="t"
        )


@pytest.mark.parametrize(
    "model",
    [
        HierarchicalClassifier(source=9, outputs=2, model_dim=6, hidden_dim=4),
        StructuredClassifier(source=9, outputs=2, model_dim=6, hidden_dim=4, hops=3),
    ],
    ids=["hierarchical", "structured"],
)
def test_classifiers_with_attention(model: nn.Module) -> None:
    segments = torch.tensor([0, 0, 1, 1, 2, 2])
    found = document_record(
        model.eval(),  # type: ignore[arg-type]
        row(TOKENS, segments),
        texts=TEXTS,
        labels=["a", "b"],
        title="t",
    )
    assert sum(found.importance()) == pytest.approx(1.0)
    assert found.deletion is not None  # whole sentences are removed
    assert found.deletion.removed[-1] == 2
