"""What every arm of a study was given, in words, and what whoever repeats it needs to know."""

from __future__ import annotations

from collections.abc import Sequence

from regard.runs.spec import RunSpec
from regard.studies.chosen_runs import KnownRun
from regard.studies.prepared import PreparedStudy
from regard.studies.study_spec import StudySpec


def budget_words(specs: Sequence[RunSpec]) -> str:
    """What every run was given; where arms differ in it, all that there were."""
    told = list(dict.fromkeys(_limits(spec) for spec in specs))
    if len(told) == 1:
        return f"Every run had {told[0]}."
    return f"The arms had different budgets: {'; '.join(told)}."


def _limits(spec: RunSpec) -> str:
    given = [
        f"{limit:,.4g} {name}" if isinstance(limit, float) else f"{limit:,} {name}"
        for name, limit in spec.training.budget._asdict().items()
        if limit is not None
    ]
    return " or ".join(given)


def tries_words(study: StudySpec) -> str:
    """How often each arm could try, and with which learning rates."""
    if study.learning_rates:
        listed = ", ".join(f"{rate:g}" for rate in study.learning_rates)
        return (
            f"Every arm had {len(study.learning_rates)} tries with each seed, one for each learning rate "
            f"({listed}); the rate with the best mean on dev counts."
        )
    rates = {study.spec_of(arm, seed=study.seeds[0]).training.learning_rate for arm in study.arms}
    listed = ", ".join(f"{rate:g}" for rate in sorted(rates))
    which = f"the learning rate {listed}" if len(rates) == 1 else f"its learning rate ({listed})"
    return f"Every arm had one try, with {which}."


def repeating_facts(
    prepared: PreparedStudy, runs: Sequence[KnownRun], seeds: Sequence[int]
) -> dict[str, str]:
    """What whoever repeats the study needs; what differed between runs stands there more than once."""
    records = [known.record for known in runs if known.state == "finished"]
    facts = {
        "command": prepared.command,
        "seeds": ", ".join(map(str, seeds)),
        "machine": prepared.machine,
    }
    for name in ("versions", "data", "signatures"):
        told = dict.fromkeys(
            ", ".join(f"{key} {value}" for key, value in record.get(name, {}).items())
            for record in records
        )
        if any(told):
            facts[name] = "; ".join(told)
    if records:
        threads = sorted({record["threads"] for record in records})
        facts["threads"] = f"{', '.join(map(str, threads))} a run"
    return facts
