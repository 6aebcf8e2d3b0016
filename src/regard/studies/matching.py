"""Arms made as large as the baseline: widths solved for, and what mismatch is left.

The main width is found by halving, since parameters only grow with it: the hidden width of a recurrent
model, the model width of a Transformer. A width that counts for less then closes what is left of the gap:
that of the embeddings, or of the feed-forward layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch

from regard.core.errors import RegardError
from regard.runs.build import build_spec_model
from regard.runs.designs import WIDTH_OF_A_HEAD, option_of
from regard.runs.spec import RunSpec
from regard.studies.study_spec import StudySpec
from regard.tasks.run_task import Vocabularies

# model → the main width and the one that closes the gap
SOLVED = {
    **dict.fromkeys(
        ("transformer", "decoder_only", "text_encoder"), ("model_dim", "feed_forward_dim")
    ),
    "recurrent": ("hidden_dim", "embedding_dim"),
}
# What a model may have more or fewer of than the baseline, as a share.
TOLERATED = 0.02
FEED_FORWARD_TIMES = 4
# Beyond this many units of width nothing that trains here is found.
MOST_UNITS = 1 << 14


class Matched(NamedTuple):
    """The study with its arms made alike, and a sentence on how alike they are."""

    study: StudySpec
    told: str


def matched_parameters(study: StudySpec, vocabularies: Vocabularies) -> Matched:
    """Every arm in the width that brings its parameters closest to the baseline's."""
    base = study.spec_of(study.arm(study.baseline), seed=study.seeds[0])
    wanted = count_parameters(base, vocabularies)
    solved = {width for widths in SOLVED.values() for width in widths}
    for option in study.written.get("over", {}):
        if option.rpartition(".")[2] in solved:
            raise RegardError(
                f"match=parameters solves for {', '.join(sorted(solved))}, but the arms are to differ in "
                f"{option}. Leave match away, or compare something else."
            )
    changes, mismatches = {}, []
    for arm in study.arms:
        if arm.name == study.baseline:
            continue
        found = _matched(study.spec_of(arm, seed=study.seeds[0]), vocabularies, wanted)
        share = count_parameters(found, vocabularies) / wanted - 1
        if abs(share) > TOLERATED:
            raise RegardError(
                f"The arm '{arm.name}' cannot be made as large as '{study.baseline}': the closest model "
                f"differs by {share:+.1%} from its {wanted:,} parameters. Choose other depths, or leave "
                "match away."
            )
        changes[arm.name] = {"model": {"name": found.model, **found.model_options}}
        mismatches.append(abs(share))
    told = (
        f"Widths were solved for, so that every arm has about the {wanted:,} parameters of "
        f"'{study.baseline}'; the largest mismatch is {max(mismatches, default=0.0):.2%}."
    )
    return Matched(study.changed(changes), told)


def count_parameters(spec: RunSpec, vocabularies: Vocabularies) -> int:
    """How many numbers the model of a spec has; nothing is allocated."""
    with torch.device("meta"):
        model = build_spec_model(spec, vocabularies)
    return sum(parameter.numel() for parameter in model.parameters())


def _matched(spec: RunSpec, vocabularies: Vocabularies, wanted: int) -> RunSpec:
    def closest(widened: Callable[[int], RunSpec]) -> RunSpec:
        """Of the widths on both sides of the wanted count, the one that is nearer."""
        low, high = 1, 2
        while high < MOST_UNITS and count_parameters(widened(high), vocabularies) < wanted:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            if count_parameters(widened(middle), vocabularies) < wanted:
                low = middle
            else:
                high = middle
        return min(
            (widened(low), widened(high)),
            key=lambda found: abs(count_parameters(found, vocabularies) - wanted),
        )

    main, _ = SOLVED[spec.model]
    if spec.model == "recurrent":
        # Each direction of the encoder has half of the hidden width.
        wide = closest(lambda units: _with(spec, **{main: 2 * units}))
        return closest(lambda width: _with(wide, embedding_dim=width))
    unit = WIDTH_OF_A_HEAD * int(option_of(spec, "num_heads"))
    ratio = option_of(spec, "feed_forward_dim") or FEED_FORWARD_TIMES * option_of(spec, main)
    ratio /= option_of(spec, main)
    wide = closest(
        lambda units: _with(
            spec, **{main: unit * units, "feed_forward_dim": max(1, round(ratio * unit * units))}
        )
    )
    return closest(lambda width: _with(wide, feed_forward_dim=width))


def _with(spec: RunSpec, **widths: int) -> RunSpec:
    return replace(spec, model_options={**spec.model_options, **widths})
