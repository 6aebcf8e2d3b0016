"""All runs of a study in a table, and those that failed or are missing with what went wrong."""

from __future__ import annotations

from regard.core.study_record import StudyRecord, StudyRunRecord
from regard.views.markup import Markup, element
from regard.views.numbers import duration_text, spaced
from regard.views.study_arms import arm_label, score_decimals, score_text


def run_table(record: StudyRecord) -> Markup:
    """A row a run, in the order of the study."""
    rates = any(run.learning_rate is not None for run in record.runs)
    names = list(dict.fromkeys(name for run in record.runs for name in run.scores))
    texts = ["arm", "seed", *(["learning rate", "counts"] if rates else []), "state", *names]
    texts += [f"{record.metric} on dev", "steps", "time", "folder"]
    table = element(
        "table",
        element("thead", element("tr", *(element("th", text, scope="col") for text in texts))),
        element("tbody", *(_row(record, run, names, rates=rates) for run in record.runs)),
        class_="plain",
    )
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label="Runs")


def _row(record: StudyRecord, run: StudyRunRecord, names: list[str], *, rates: bool) -> Markup:
    decimals = score_decimals(record)
    cells = [str(run.seed)]
    if rates:
        rate = "–" if run.learning_rate is None else f"{run.learning_rate:g}"
        cells += [rate, "yes" if run.counts else "no"]
    cells.append(run.state)
    cells += [score_text(run.scores.get(name), decimals=decimals) for name in names]
    cells += [
        score_text(run.dev_scores.get(record.metric), decimals=decimals),
        spaced(run.steps),
        duration_text(run.seconds) if run.seconds > 0 else "–",
    ]
    return element(
        "tr",
        element("th", arm_label(record, run.arm), scope="row"),
        *(element("td", cell) for cell in cells),
        element("td", element("code", run.key)),
        class_=None if run.state == "finished" else "trouble",
    )


def trouble_list(record: StudyRecord) -> Markup:
    """The runs without a score, each with its reason; nothing where all finished."""
    bad = [run for run in record.runs if run.state != "finished"]
    if not bad:
        return Markup("")
    return element(
        "ul",
        *(
            element(
                "li",
                arm_label(record, run.arm),
                f", seed {run.seed}"
                + (f", learning rate {run.learning_rate:g}" if run.learning_rate else ""),
                f": {run.state}" + (f", {run.reason}" if run.reason else ""),
            )
            for run in bad
        ),
        class_="troubles",
    )
