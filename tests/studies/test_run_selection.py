"""Selection of runs in finished and unfinished studies."""

from __future__ import annotations

from pathlib import Path

from regard.core.records.study import RunState
from regard.runs.folder import RunFolder
from regard.studies.run_selection import (
    CollectedRun,
    best_learning_rates,
    common_seeds,
    select_runs,
)
from regard.studies.spec import StudyRun, StudySpec

SPEC = StudySpec.from_sections({"recipe": "pronounce-quick", "seeds": 1}).runs()[0].spec


def known(variant: str, seed: int, rate: float | None, validation: float | None) -> CollectedRun:
    """A run with this validation score; missing without one."""
    state: RunState = "missing" if validation is None else "finished"
    return CollectedRun(
        run=StudyRun(variant=variant, seed=seed, learning_rate=rate, spec=SPEC),
        folder=RunFolder(Path("nowhere")),
        state=state,
        reason="",
        record={} if validation is None else {"scores": {"validation": {"wer": validation}}},
    )


def test_best_mean_validation_score_is_selected() -> None:
    tried = [(0, 0.1, 9.0), (0, 0.2, 7.0), (1, 0.1, 8.0), (1, 0.2, 11.0)]
    runs = [known("a", seed, rate, validation) for seed, rate, validation in tried]
    assert best_learning_rates(runs, metric="wer", lower_is_better=True) == {"a": 0.1}
    assert best_learning_rates(runs, metric="wer", lower_is_better=False) == {"a": 0.2}


def test_the_loss_decides_between_equal_scores() -> None:
    runs = []
    for rate, loss in ((0.1, 2.3), (0.2, 2.1), (0.3, 2.2)):
        collected = known("a", 0, rate, 100.0)
        collected.record["scores"]["validation"]["loss"] = loss
        runs.append(collected)
    assert best_learning_rates(runs, metric="wer", lower_is_better=True) == {"a": 0.2}


def test_a_variant_with_a_missing_run_has_no_rate_yet() -> None:
    runs = [known("a", 0, 0.1, 90.0), known("a", 0, 0.2, None), known("b", 0, 0.1, 80.0)]
    assert best_learning_rates(runs, metric="wer", lower_is_better=True) == {"b": 0.1}


def test_common_seeds() -> None:
    runs = [known(variant, seed, None, 5.0) for variant in "abc" for seed in (0, 1)]
    chosen = select_runs(runs)
    assert common_seeds(chosen) == (0, 1)
    chosen["b"][1] = known("b", 1, None, None)
    assert common_seeds(chosen) == (0,)
    chosen["a"][0] = chosen["b"][0] = known("b", 0, None, None)
    assert common_seeds(chosen) == (1,)
