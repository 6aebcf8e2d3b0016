"""Claims about speech: verdicts of studies in either order, correlations, similarities by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.factories.studies import dummy_study

from regard.claims.experiments.studies import read_record
from regard.claims.speech import (
    ATTENTION,
    LSTM,
    SIMILARITIES,
    STUDY,
    WITHOUT,
    attention_decoder_beats_the_lstm_on_speech,
    attention_decoder_beats_the_plain_lstm_on_speech,
    attention_helps_the_lstm_on_speech,
    jaccard_ignores_order,
    jaccard_is_like_damerau_levenshtein,
    run_scores,
    shuffled,
    similarities_rank_speech_recognisers_alike,
)
from regard.core.records.claim import Finding
from regard.core.records.study import StudyRecord
from regard.studies.folder import StudyFolder


def found(claim: Any, **changes: Any) -> Finding:
    finding: Finding | None = claim.run(**changes).finding
    assert finding is not None
    return finding


def written(folder: Path, record: StudyRecord) -> str:
    StudyFolder(folder).write_text(folder / "record.json", record.as_json())
    return str(folder)


@pytest.mark.parametrize(
    ("order", "verdicts"),
    [
        ((ATTENTION, LSTM, WITHOUT), ("holds",) * 3),
        ((WITHOUT, LSTM, ATTENTION), ("fails",) * 3),
    ],
)
def test_the_order_of_decoders_decides(
    tmp_path: Path, order: Sequence[str], verdicts: tuple[str, ...]
) -> None:
    study = written(tmp_path, dummy_study(names=order))
    claims = (
        attention_decoder_beats_the_lstm_on_speech,
        attention_decoder_beats_the_plain_lstm_on_speech,
        attention_helps_the_lstm_on_speech,
    )
    assert tuple(found(claim, study=study).verdict for claim in claims) == verdicts


def test_reversed_similarity_fails(tmp_path: Path) -> None:
    record = read_record("", shipped=STUDY)
    assert found(similarities_rank_speech_recognisers_alike).verdict == "holds"
    name = SIMILARITIES[0].name
    reversed_runs = tuple(
        replace(run, scores={**run.scores, name: 1 - run.scores[name]}) for run in record.runs
    )
    study = written(tmp_path, replace(record, runs=reversed_runs))
    finding = found(similarities_rank_speech_recognisers_alike, study=study)
    assert finding.verdict == "fails"
    assert float(finding.values["jaccard_similarity and cosine_similarity"]) < 0


def test_similarities_are_those_of_every_run() -> None:
    record = read_record("", shipped=STUDY)
    scores = run_scores(record)
    assert list(scores) == [metric.name for metric in SIMILARITIES]
    assert {len(values) for values in scores.values()} == {len(record.runs)}
    assert scores["jaccard_similarity"][0] == record.runs[0].scores["jaccard_similarity"]


def test_order_counts_for_edits_alone() -> None:
    assert found(jaccard_ignores_order).verdict == "holds"
    finding = found(jaccard_is_like_damerau_levenshtein)
    assert finding.verdict == "fails"
    assert "jaccard_similarity 1," in finding.counter_example
    assert "damerau_levenshtein_similarity 0.5" in finding.counter_example
    assert found(jaccard_is_like_damerau_levenshtein, tolerance=1.0).verdict == "holds"


def test_shuffled_texts_are_other_texts() -> None:
    jaccard, _, edits = (
        np.array(shuffled(metric, length=2, texts=20, seed=1)) for metric in SIMILARITIES
    )
    assert jaccard.tolist() == [1.0] * 20
    assert edits.tolist() == [0.5] * 20  # one swap of two characters
