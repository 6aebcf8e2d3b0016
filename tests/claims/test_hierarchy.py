"""Claims about sentences of a document: who hears of whom, and that each wiring has its own answer."""

from __future__ import annotations

import pytest

from regard.claims import hierarchy as topic
from regard.claims.engine import Claim
from regard.core.errors import RegardError

ISOLATED = topic.sentences_are_read_in_isolation
BEFORE = topic.context_before_is_heard_later
BOTH = topic.context_of_both_sides_is_heard_by_all


@pytest.mark.parametrize(
    ("claim", "context", "verdict"),
    [
        (ISOLATED, "none", "holds"),
        (ISOLATED, "before", "fails"),
        (ISOLATED, "both", "fails"),
        (BEFORE, "none", "fails"),
        (BEFORE, "before", "holds"),
        (BEFORE, "both", "fails"),
        (BOTH, "none", "fails"),
        (BOTH, "before", "fails"),
        (BOTH, "both", "holds"),
    ],
)
def test_every_wiring_answers_one_of_the_three(claim: Claim, context: str, verdict: str) -> None:
    finding = claim.run(context=context).finding
    assert finding is not None
    assert finding.verdict == verdict


@pytest.mark.parametrize(("claim", "context"), [(BEFORE, "before"), (BOTH, "both")])
def test_a_gate_makes_no_difference(claim: Claim, context: str) -> None:
    finding = claim.run(context=context, gated=True, seed=1).finding
    assert finding is not None
    assert finding.verdict == "holds"


def test_pairs_of_words_do_not_reach_into_the_next_sentence() -> None:
    finding = ISOLATED.run(pair_table=100).finding
    assert finding is not None
    assert finding.verdict == "holds"


def test_a_counter_example_names_the_sentences() -> None:
    finding = ISOLATED.run(context="before").finding
    assert finding is not None
    assert "changes the vector of sentence" in finding.counter_example


def test_the_first_sentence_is_told_nothing_of_later_ones() -> None:
    changes = topic.changes_of(context="before", sentences=3, seed=0)
    assert changes[1:, 0].max() <= topic.TOLERANCE
    assert changes[0, 1:].min() > topic.TOLERANCE


def test_one_sentence_has_no_others() -> None:
    with pytest.raises(RegardError, match=r"sentences=1: .* it must be from 2 to 40"):
        ISOLATED.run(sentences=1)
