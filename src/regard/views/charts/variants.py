"""Order, colours and names of the variants of a study, and the formatting of its scores.

A variant has the same colour in every chart, by its index in the study. Colours repeat after eight, with
dashed lines. Colour is never the only cue: a name or a title says the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.core.records.study import StudyRecord, VariantRecord
from regard.views.pages.html import Markup, element

COLOURS = 8


def ranked(record: StudyRecord) -> list[VariantRecord]:
    """Variants with a score, best first; then those without, in the order of the study.

    All in the order of the study if it is not finished: a rank would be a verdict.
    """
    if not record.is_finished:
        return list(record.variants)
    sign = 1 if record.lower_is_better else -1
    return sorted(
        record.variants,
        key=lambda variant: (
            variant.mean is None,
            0.0 if variant.mean is None else sign * variant.mean,
        ),
    )


def scored(record: StudyRecord) -> list[VariantRecord]:
    """Ranked variants that have a score."""
    return [variant for variant in ranked(record) if variant.mean is not None]


def baseline_of(record: StudyRecord) -> VariantRecord | None:
    """The baseline variant, if the study has one."""
    return next((variant for variant in record.variants if variant.is_baseline), None)


def variant_number(record: StudyRecord, name: str) -> int:
    """Index of a variant in the study."""
    return next(index for index, variant in enumerate(record.variants) if variant.name == name)


def variant_class(record: StudyRecord, name: str) -> str:
    """CSS classes for the colour and the line style of a variant."""
    dash, colour = divmod(variant_number(record, name), COLOURS)
    return f"variant-{colour} dash-{min(dash, 2)}"


def variant_label(record: StudyRecord, name: str) -> Markup:
    """The name with a marker in the variant's colour; hovering highlights the variant in every chart."""
    return element(
        "span",
        # A long name may break after its separators.
        name.replace(" · ", "\u00a0· "),
        class_=f"variant {variant_class(record, name)}",
        data_variant=variant_number(record, name),
    )


def seed_scores(record: StudyRecord, name: str) -> list[tuple[int, float]]:
    """Each seed of a variant with its score on the study's metric."""
    return [
        (run.seed, run.scores[record.metric])
        for run in record.runs_of(name)
        if record.metric in run.scores
    ]


def score_text(score: float | None, *, decimals: int, signed: bool = False) -> str:
    """A score, or with `signed` a difference of scores; a dash for None.

    >>> [score_text(score, decimals=2, signed=True) for score in (8.512, -0.4, -0.001)]
    ['+8.51', '−0.40', '0.00']
    """
    if score is None:
        return "–"
    score = round(score, decimals) or 0.0  # not −0
    text = f"{score:+.{decimals}f}" if signed and score else f"{score:.{decimals}f}"
    return text.replace("-", "−")


def seeds_text(record: StudyRecord) -> str:
    """The number of seeds; of an unfinished study, what its means are."""
    if record.is_finished:
        return counted(len(record.seeds), "seed")
    if not scored(record):
        return "not finished"
    return f"not finished: descriptive means of {_numbered(record.seeds)}"


def missing_text(record: StudyRecord, name: str) -> str:
    """The seeds of a variant whose runs have not ended; empty if all have."""
    return f"missing: {_numbered(seeds)}" if (seeds := record.missing.get(name)) else ""


def _numbered(seeds: Sequence[int]) -> str:
    return f"seed{'' if len(seeds) == 1 else 's'} {', '.join(map(str, seeds))}"


def pairing_text(record: StudyRecord) -> str:
    """What pairing by seed achieves, in a sentence or two; empty if unknown or scores do not vary."""
    pairing = record.pairing
    if pairing is None or pairing.intraclass_correlation is None:
        return ""
    figures = {
        "intraclass correlation": pairing.intraclass_correlation,
        "mean correlation of two variants": pairing.mean_correlation,
        "var(A − B) / (var(A) + var(B))": pairing.variance_ratio,
    }
    texts = [f"{name} {score_text(value, decimals=2)}" for name, value in figures.items()]
    if within := interval_text(pairing.intraclass_low, pairing.intraclass_high, decimals=2):
        texts[0] += f" (95 % interval {within})"
    paired, unpaired = (
        score_text(value, decimals=record.primary.digits)
        for value in (pairing.detectable_difference, pairing.unpaired_detectable_difference)
    )
    return (
        f"Pairing by seed: {', '.join(texts)}. Smallest detectable difference of an average pair: "
        f"{paired}, unpaired {unpaired}."
    )


def shared_text(variant: VariantRecord) -> str:
    """The share of parameters initialised like the baseline's; never rounded to all or none of them."""
    share = variant.shared_initialisation
    if share is None:
        return "–"
    rounded = round(100 * share)
    if rounded in (0, 100) and share not in (0, 1):
        return "< 1 %" if rounded == 0 else "> 99 %"
    return f"{rounded} %"


def interval_text(
    low: float | None, high: float | None, *, decimals: int, signed: bool = False
) -> str:
    """An interval as "low to high"; empty if there is none."""
    if low is None or high is None:
        return ""
    ends = [score_text(end, decimals=decimals, signed=signed) for end in (low, high)]
    return " to ".join(ends)


def counted(number: int, noun: str) -> str:
    """A number with its noun in singular or plural.

    >>> counted(1, "seed"), counted(6374, "item")
    ('1 seed', '6\\u202f374 items')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}".replace(",", "\u202f")


def p_text(p: float) -> str:
    """A p-value to at most three decimals.

    >>> p_text(0.00012), p_text(0.0312), p_text(1.0)
    ('< 0.001', '0.031', '1')
    """
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}".rstrip("0").rstrip(".")
