"""Claims about sentence context: every context option has its own pattern of dependence."""

from __future__ import annotations

import pytest

from regard.claims import hierarchy as topic
from regard.claims.engine import Claim
from regard.core.errors import RegardError

INDEPENDENT = topic.sentences_are_encoded_independently
LEFT = topic.left_context_reaches_later_sentences
BIDIRECTIONAL = topic.bidirectional_context_reaches_all_sentences


@pytest.mark.parametrize(
    ("claim", "context", "verdict"),
    [
        (INDEPENDENT, "none", "holds"),
        (INDEPENDENT, "before", "fails"),
        (INDEPENDENT, "both", "fails"),
        (LEFT, "none", "fails"),
        (LEFT, "before", "holds"),
        (LEFT, "both", "fails"),
        (BIDIRECTIONAL, "none", "fails"),
        (BIDIRECTIONAL, "before", "fails"),
        (BIDIRECTIONAL, "both", "holds"),
    ],
)
def test_each_context_satisfies_one_claim(claim: Claim, context: str, verdict: str) -> None:
    finding = claim.run(context=context).finding
    assert finding is not None
    assert finding.verdict == verdict


@pytest.mark.parametrize(("claim", "context"), [(LEFT, "before"), (BIDIRECTIONAL, "both")])
def test_gated_context(claim: Claim, context: str) -> None:
    finding = claim.run(context=context, gated=True, seed=1).finding
    assert finding is not None
    assert finding.verdict == "holds"


def test_word_pairs_do_not_cross_sentences() -> None:
    finding = INDEPENDENT.run(bigram_buckets=100).finding
    assert finding is not None
    assert finding.verdict == "holds"


def test_counter_example_names_the_sentences() -> None:
    finding = INDEPENDENT.run(context="before").finding
    assert finding is not None
    assert "changes the vector of sentence" in finding.counter_example


def test_left_context_does_not_change_the_first_sentence() -> None:
    changes = topic.sentence_changes(context="before", sentences=3, seed=0)
    assert changes[1:, 0].max() <= topic.TOLERANCE
    assert changes[0, 1:].min() > topic.TOLERANCE


def test_error_for_a_single_sentence() -> None:
    with pytest.raises(RegardError, match=r"sentences=1: .* from 2 to 40"):
        INDEPENDENT.run(sentences=1)
