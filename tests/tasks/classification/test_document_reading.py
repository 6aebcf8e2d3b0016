"""From a model and a text to the record that is drawn."""

from __future__ import annotations

import pytest
import torch
from tests.factories.lexicon_classifier import LexiconClassifier
from torch import nn

from regard.core.batches import END, START
from regard.core.errors import RegardError
from regard.core.records.document import DocumentRecord
from regard.models.classifiers.hierarchical import HierarchicalClassifier
from regard.models.classifiers.structured import StructuredClassifier
from regard.tasks.classification import leave_one_out as document_reading
from regard.tasks.classification.leave_one_out import document_record

VOTES = [0.0, 0.0, 0.0, 0.0, 3.0, -1.0, 0.5, 1.0]
LOOKS = [0.0, 0.0, 0.0, 1.0, 6.0, 2.0, 1.0, 1.0]
TOKENS = torch.tensor([START, 4, 5, 6, 7, END])
TEXTS = ("<start>", "good", "bad", "so", "very", "<end>")


def test_the_record_is_what_the_model_said_and_read() -> None:
    model = LexiconClassifier(VOTES, LOOKS, sentences=True)
    found = document_record(
        model,
        TOKENS,
        torch.tensor([0, 0, 0, 1, 1, 1]),
        texts=TEXTS,
        labels=["down", "up"],
        title="t",
        right="down",
    )
    assert found.label == "up"
    assert found.probabilities["up"] == pytest.approx(1 / (1 + 2.718281828**-3.5))
    assert found.hops[0] == pytest.approx((0.0, 0.75, 0.25, 0.5, 0.5, 0.0))
    assert len(found.hops) == 1
    assert found.sentences == pytest.approx((0.8, 0.2))
    assert found.importance() == pytest.approx((0.0, 0.6, 0.2, 0.1, 0.1, 0.0))
    assert found.deletion is not None
    assert found.deletion.texts == 1
    assert found.falls is not None
    assert found.falls[0] is None
    assert found.falls[1] is not None
    assert found.falls[1] > 0
    assert found.agreement is not None
    assert DocumentRecord.from_json(found.as_json()) == found


def test_sentences_the_text_does_not_have_are_cut_off() -> None:
    class Roomy(LexiconClassifier):
        def reading(self, tokens, lengths, segments=None):  # type: ignore[no-untyped-def]
            found = super().reading(tokens, lengths, segments)
            assert found is not None
            assert found.sentences is not None
            room = torch.zeros(len(tokens), 3)
            return found._replace(sentences=torch.cat([found.sentences, room], dim=1))

    model = Roomy(VOTES, LOOKS, sentences=True)
    segments = torch.tensor([0, 0, 0, 1, 1, 1])
    found = document_record(model, TOKENS, segments, texts=TEXTS, labels=["a", "b"], title="t")
    assert found.sentences == pytest.approx((0.8, 0.2))


def test_a_long_text_is_not_read_once_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_reading, "MOST_LEFT_OUT", 3)
    model = LexiconClassifier(VOTES, LOOKS)
    found = document_record(model, TOKENS, texts=TEXTS, labels=["a", "b"], title="t")
    assert found.falls is None
    assert found.agreement is None
    assert found.deletion is not None


def test_a_single_word_can_be_looked_at() -> None:
    found = document_record(
        LexiconClassifier(VOTES, LOOKS), TOKENS[1:2], texts=["good"], labels=["a", "b"], title="t"
    )
    assert found.deletion is None
    assert found.falls is None
    assert found.agreement is None
    assert found.hops == ((1.0,),)


def test_what_does_not_fit_is_refused() -> None:
    model = LexiconClassifier(VOTES, LOOKS)
    with pytest.raises(RegardError, match="2 classes apart, and 1 labels were given: a"):
        document_record(model, TOKENS, texts=TEXTS, labels=["a"], title="t")
    with pytest.raises(RegardError, match="1 texts for 6 tokens"):
        document_record(model, TOKENS, texts=["a"], labels=["a", "b"], title="t")
    with pytest.raises(
        RegardError,
        match=r"no attention over its words, .* nothing to look at\. Train one that weighs words",
    ):
        document_record(
            LexiconClassifier(VOTES, None), TOKENS, texts=TEXTS, labels=["a", "b"], title="t"
        )


@pytest.mark.parametrize(
    "model",
    [
        HierarchicalClassifier(vocabulary=9, classes=2, model_dim=6, hidden_dim=4),
        StructuredClassifier(vocabulary=9, classes=2, model_dim=6, hidden_dim=4, hops=3),
    ],
    ids=["hierarchical", "structured"],
)
def test_our_own_models_can_be_looked_into(model: nn.Module) -> None:
    segments = torch.tensor([0, 0, 1, 1, 2, 2])
    found = document_record(
        model.eval(),  # type: ignore[arg-type]
        TOKENS,
        segments,
        texts=TEXTS,
        labels=["a", "b"],
        title="t",
    )
    assert sum(found.importance()) == pytest.approx(1.0)
    assert found.deletion is not None  # whole sentences are left out on the way
    assert found.deletion.removed[-1] == 2
