"""One run as text: its headline, scores beside the baselines, cost and caveats, for a terminal."""

from __future__ import annotations

from regard.core.formatting import (
    aligned,
    bytes_text,
    count_text,
    counted,
    duration_text,
    flops_text,
    integer_text,
    interval_text,
    number_text,
    percent_text,
    score_text,
    wrapped,
)
from regard.core.records.run import RunRecord, SplitRecord
from regard.core.records.study import MetricRecord


def run_headline(record: RunRecord) -> str:
    """The state of the run, or the score of its best checkpoint, in a sentence."""
    if not record.is_finished:
        how = "is training" if record.state == "training" else "was stopped and can be resumed"
        at = f"step {integer_text(record.steps)}, {percent_text(record.progress)} of its budget"
        return f"The run {how}: {at}. There are no scores of the best checkpoint yet."
    found = next((split for split in record.splits if record.primary.name in split.scores), None)
    if found is None:
        return "The run is finished, without a score."
    score, metric = found.scores[record.primary.name], record.primary
    value = f"{score_text(score.value, decimals=metric.digits)} {metric.unit}".strip()
    within = interval_text(score.low, score.high, decimals=metric.digits)
    interval = f" (95 % interval over items: {within})" if within else ""
    best = best_baseline(found, metric)
    beside = ""
    if best is not None:
        baseline = f"{score_text(best[1], decimals=metric.digits)} {metric.unit}".strip()
        beside = f"; the best baseline, {best[0]}, has {baseline}"
    return (
        f"{metric.name} {value}{interval} on {counted(found.items, 'item')} of {found.name}, "
        f"{metric.direction}{beside}."
    )


def best_baseline(split: SplitRecord, metric: MetricRecord) -> tuple[str, float] | None:
    """The baseline with the best score by the metric, if there is one."""
    scores = {name: of[metric.name] for name, of in split.baselines.items() if metric.name in of}
    if not scores:
        return None
    name = (min if metric.lower_is_better else max)(scores, key=scores.__getitem__)
    return name, scores[name]


def cost_facts(record: RunRecord) -> dict[str, str]:
    """What the run took: parameters, steps, tokens, FLOPs, time, memory."""
    rate = record.tokens / record.seconds if record.seconds > 0 else 0.0
    facts = {
        "parameters": integer_text(record.parameters) if record.parameters else "",
        "budget": record.budget,
        "steps": integer_text(record.steps),
        "tokens": integer_text(record.tokens),
        "FLOPs": flops_text(record.flops) if record.flops else "",
        "training time": duration_text(record.seconds) if record.seconds else "",
        "evaluation time": duration_text(record.evaluation_seconds)
        if record.evaluation_seconds
        else "",
        "throughput": f"{count_text(rate)} tokens/s" if rate else "",
        "peak memory of the process": bytes_text(record.peak_bytes) if record.peak_bytes else "",
        "best checkpoint": f"step {integer_text(record.best_step)}"
        if record.best_step is not None
        else "",
        **record.stages,
    }
    return {name: text for name, text in facts.items() if text}


def alignment_sentence(record: RunRecord) -> str:
    """How well attention, or CTC, is aligned with the words of the split that counts; empty if unknown."""
    found = next((each for each in record.splits if each.alignment), None)
    if found is None or found.alignment is None:
        return ""
    score = found.alignment
    accuracy = "–" if score.accuracy is None else f"{score_text(score.accuracy, decimals=1)} %"
    chosen = ", the head that is best on validation," if len(score.heads) > 1 else ""
    chance = score_text(score.chance, decimals=1)
    return (
        f"Alignment accuracy on {found.name}: {accuracy} (chance {chance} %), the characters whose largest "
        f"weight by {score.head}{chosen} lies within their word."
    )


def run_text(record: RunRecord, *, width: int) -> str:
    """The run for a terminal: headline, a table of scores for each split, cost, caveats."""
    head = f"{record.name}: {record.model} on {record.task}, seed {record.seed}"
    blocks = [head, wrapped(run_headline(record), width)]
    for split in record.splits:
        names = list(split.scores)
        rows = [[f"{split.name}, {counted(split.items, 'item')}", *names]]
        rows.append([record.model, *(_score(record, split, name) for name in names)])
        for baseline, scores in split.baselines.items():
            cells = (
                score_text(scores.get(name), decimals=record.metric_named(name).digits)
                for name in names
            )
            rows.append([baseline, *cells])
        # Metrics below each other if the table is too wide.
        lines = aligned(rows, left=(0,))
        if max(map(len, lines)) > width:
            lines = aligned([list(column) for column in zip(*rows, strict=True)], left=(0,))
        blocks.append("\n".join(lines))
    if not record.splits and record.evaluations:
        last = record.evaluations[-1]
        texts = [f"{name} {number_text(value, digits=4)}" for name, value in last.scores.items()]
        blocks.append(
            wrapped(f"validation at step {integer_text(last.step)}: {', '.join(texts)}", width)
        )
    blocks.append("\n".join(aligned(list(cost_facts(record).items()), left=(0, 1))))
    blocks.append(wrapped(alignment_sentence(record), width))
    blocks += [wrapped(note, width) for note in record.notes]
    return "\n\n".join(filter(None, blocks))


def _score(record: RunRecord, split: SplitRecord, name: str) -> str:
    score, digits = split.scores[name], record.metric_named(name).digits
    text = score_text(score.value, decimals=digits)
    within = interval_text(score.low, score.high, decimals=digits)
    return f"{text} ({within})" if within else text
