"""Attention of the runs of a study: agreement with known alignments, and examples to show.

Agreement is the fraction of phones whose largest attention weight is on a letter of their known group
(letter–phone alignments of English words, so for the task `pronounce` only, with letters and phones as
tokens). The reference phones are fed to the decoder (teacher forcing), so that every variant is scored on
the same symbols. Two baselines need no model: uniform attention, and attention along the diagonal. Of all
attention maps and heads, the best on the validation split is selected, and scored on the test split.
Results are cached, since they take about a second per run. Of other tasks, the agreement is the alignment
accuracy in the records of the runs, if they have one.

Examples are the attention weights of every variant for the same inputs, of about median length.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.core.batches import END, PAD, START, TokenInput
from regard.core.errors import RegardError
from regard.core.manifest import validate_no_link
from regard.core.records.attention import AlignmentRecord, Map
from regard.core.records.image import ClassifiedImage
from regard.core.records.study import AttentionExample
from regard.data.datasets.cmudict import G2PAlignment, g2p_alignments, lexicon_name
from regard.data.splits import Split
from regard.explain.media_classifier import explain_image
from regard.runs.folder import Predictions, read_predictions
from regard.runs.load import TrainedRun, load
from regard.studies.folder import StudyFolder
from regard.studies.run_selection import CollectedRun
from regard.studies.statistics.paired import seed_interval
from regard.tasks import task_class

TASK = "pronounce"
MAX_WORDS = 1000
BATCH_WORDS = 250


@dataclass(frozen=True, kw_only=True)
class AlignedWords:
    """A sample of the `covered` words of a split with `items`.

    A word is covered if it has a known alignment whose phones are one of its references.
    """

    words: tuple[G2PAlignment, ...]
    covered: int
    items: int

    def sentence(self) -> str:
        """The source and coverage of the alignments, with both baselines."""
        if not self.words:
            return f"{lexicon_name()} has alignments for none of {self.items:,} words"
        return (
            f"{lexicon_name()}, automatic alignments; a sample of {len(self.words):,} of {self.covered:,} "
            f"words ({self.covered / self.items:.0%} of {self.items:,} have an alignment with a correct "
            f"pronunciation); baselines: uniform attention {uniform_agreement(self.words):.0%}, diagonal "
            f"{diagonal_agreement(self.words):.0%}"
        )


@dataclass(frozen=True, kw_only=True)
class AlignmentAgreement:
    """Fractions from 0 to 1 of the phones of the test words; `attention` names the map and head.

    `uniform` and `diagonal` are the baselines.
    """

    agreement: float
    attention: str
    uniform: float
    diagonal: float
    words: int
    phones: int


def aligned_words(
    predictions: Predictions, *, count: int = MAX_WORDS, seed: int = 0, lexicon: Path | None = None
) -> AlignedWords:
    """A random sample of at most `count` aligned words of a split, in order.

    `lexicon` is a file of alignments other than the installed one.
    """
    # The lexicon is lower-case; the model gets the spelling of its own data.
    spelled = [source.strip() for source in predictions.inputs]
    known = g2p_alignments((word.lower() for word in spelled), path=lexicon)
    covered = [
        sounds._replace(word=word)
        for word, references in zip(spelled, predictions.references, strict=True)
        if (sounds := known.get(word.lower())) is not None
        and sounds.phones in {tuple(text.split()) for text in references}
    ]
    drawn = random.Random(seed).sample(range(len(covered)), min(count, len(covered)))
    return AlignedWords(
        words=tuple(covered[index] for index in sorted(drawn)),
        covered=len(covered),
        items=len(predictions),
    )


def attention_agreement(
    run: TrainedRun, *, validation: Sequence[G2PAlignment], test: Sequence[G2PAlignment]
) -> AlignmentAgreement | None:
    """The agreement of the run's best map and head; None for a model without cross-attention."""
    if not run.has_cross_attention:
        return None
    for split, words in (("validation", validation), ("test", test)):
        if not words:
            raise RegardError(f"No {split} words have a known alignment. Hold out more words.")
    on_validation = {where: hits.mean() for where, hits in _hits(run, validation).items()}
    best = max(on_validation, key=lambda where: on_validation[where])
    hits = _hits(run, test)[best]
    return AlignmentAgreement(
        agreement=float(hits.mean()),
        attention=best,
        uniform=uniform_agreement(test),
        diagonal=diagonal_agreement(test),
        words=len(test),
        phones=len(hits),
    )


def uniform_agreement(words: Sequence[G2PAlignment]) -> float:
    """The agreement of uniform attention over all positions, the end token included."""
    return float(
        np.mean([len(group) / (len(word.word) + 1) for word in words for group in word.letters])
    )


def diagonal_agreement(words: Sequence[G2PAlignment]) -> float:
    """The agreement of diagonal attention: phone i of m attends to letter (i + ½) / m of the word."""
    return float(
        np.mean(
            [
                int((index + 0.5) * len(word.word) / len(word.letters)) in group
                for word in words
                for index, group in enumerate(word.letters)
            ]
        )
    )


def _hits(run: TrainedRun, words: Sequence[G2PAlignment]) -> dict[str, Bool[np.ndarray, " phones"]]:
    """For each map and head, whether the largest weight is on the aligned letters, by phone."""
    found: dict[str, list[np.ndarray]] = {}
    for batch in _batches(words):
        source, decoder_input = _as_tensors(run, batch)
        for name, weights in run.source_weights(source, decoder_input).items():
            for head in range(weights.shape[1]):
                where = name if weights.shape[1] == 1 else f"{name}, head {head + 1}"
                found.setdefault(where, []).append(_on_target(weights[:, head], batch))
    return {where: np.concatenate(hits) for where, hits in found.items()}


def _batches(words: Sequence[G2PAlignment]) -> Iterator[list[G2PAlignment]]:
    """Words of similar length together, to reduce padding."""
    by_length = sorted(words, key=lambda word: (len(word.word), word.word))
    for first in range(0, len(by_length), BATCH_WORDS):
        yield by_length[first : first + BATCH_WORDS]


def _as_tensors(run: TrainedRun, words: list[G2PAlignment]) -> tuple[TokenInput, Tensor]:
    """Sources, and the decoder input: all reference phones, since CTC aligns those that it is given."""
    preprocessor = run.preprocessor
    sources = preprocessor.input.encode_all(word.word for word in words)
    phones = preprocessor.target.encode_all(" ".join(word.phones) for word in words)
    for word, letters, sounds in zip(words, sources, phones, strict=True):
        if len(letters) != len(word.word) or len(sounds) != len(word.phones):
            raise RegardError(
                f"In the run '{run.folder.path}' the word '{word.word}' has {len(letters)} tokens and its "
                f"pronunciation {len(sounds)}, but its alignment {len(word.word)} letters and "
                f"{len(word.phones)} phones. Train with task.source_tokens=characters and "
                "task.target_tokens=words."
            )
    source = _padded([[*letters, END] for letters in sources])
    lengths = torch.tensor([len(letters) + 1 for letters in sources])
    decoder_input = _padded([[START, *sounds] for sounds in phones])
    return TokenInput(source, lengths), decoder_input


def _padded(rows: list[list[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


def _on_target(
    weights: Float[Tensor, "words phones positions"], words: list[G2PAlignment]
) -> Bool[np.ndarray, " all_phones"]:
    hits = []
    for of_word, word in zip(weights.numpy(), words, strict=True):
        # Without padding, whose weight of 0 may exceed negative weights.
        attended = of_word[: len(word.phones), : len(word.word) + 1].argmax(axis=1)
        hits += [
            position in group
            for position, group in zip(attended.tolist(), word.letters, strict=True)
        ]
    return np.array(hits)


class VariantAgreement(NamedTuple):
    """The mean agreement over seeds with its 95 % interval; None for a single seed."""

    mean: float
    low: float | None
    high: float | None


class AgreementByVariant(NamedTuple):
    """Agreement by variant, and a sentence on the alignments, or why there are none."""

    variants: dict[str, VariantAgreement]
    source: str


def agreement_by_variant(
    runs: Mapping[str, Sequence[CollectedRun]], folder: StudyFolder | None, *, split: str
) -> AgreementByVariant:
    """The agreement of every variant with cross-attention, over its finished runs; `folder` caches it."""
    finished = {
        variant: [collected for collected in of_variant if collected.state == "finished"]
        for variant, of_variant in runs.items()
    }
    example = next(
        (collected for of_variant in finished.values() for collected in of_variant), None
    )
    if example is None or example.run.spec.task != TASK:
        return _recorded_agreement(finished, split=split)
    try:
        validation = aligned_words(read_predictions(example.folder, "validation"))
        test = aligned_words(read_predictions(example.folder, split))
    except RegardError as error:
        return AgreementByVariant({}, str(error))
    if not (validation.words and test.words):
        return AgreementByVariant({}, "no validation or test word has a known alignment.")
    cache = {} if folder is None else _read_cache(folder)
    found: dict[str, VariantAgreement] = {}
    reasons: list[str] = []
    for variant, of_variant in finished.items():
        try:
            values = [
                _run_agreement(collected, cache, split=split, validation=validation, test=test)
                for collected in of_variant
            ]
        except RegardError as error:
            reasons.append(f"{variant}: {error}")
            continue
        if with_attention := [value for value in values if value is not None]:
            found[variant] = _over_seeds(with_attention)
    if folder is not None:
        folder.write(folder.alignment_agreement, cache)
    return AgreementByVariant(found, "; ".join([test.sentence(), *reasons]))


def _recorded_agreement(
    runs: Mapping[str, Sequence[CollectedRun]], *, split: str
) -> AgreementByVariant:
    """The alignment accuracy that the task itself has recorded for the runs."""
    found: dict[str, VariantAgreement] = {}
    chances: list[float] = []
    for variant, of_variant in runs.items():
        details = [run.record.get("details", {}).get(split, {}) for run in of_variant]
        scores = [each["alignment"] for each in details if "alignment" in each]
        known = [score["accuracy"] / 100 for score in scores if score["accuracy"] is not None]
        if known:
            found[variant] = _over_seeds(known)
            chances.append(scores[0]["chance"] / 100)
    source = f"known borders of words; a random position: {chances[0]:.0%}" if chances else ""
    return AgreementByVariant(found, source)


def _read_cache(folder: StudyFolder) -> dict[str, float | None]:
    """Cached agreements; none if the file is missing or was modified."""
    validate_no_link(folder.alignment_agreement)
    try:
        cache: dict[str, float | None] = folder.read(folder.alignment_agreement)
    except RegardError:
        return {}
    return cache


def _run_agreement(
    collected: CollectedRun,
    cache: dict[str, float | None],
    *,
    split: str,
    validation: AlignedWords,
    test: AlignedWords,
) -> float | None:
    key = f"{collected.run.key} {split}"
    if key not in cache:
        result = attention_agreement(
            load(collected.folder.path), validation=validation.words, test=test.words
        )
        cache[key] = None if result is None else result.agreement
    return cache[key]


def _over_seeds(values: list[float]) -> VariantAgreement:
    interval = seed_interval(values)
    low, high = interval if interval is not None else (None, None)
    return VariantAgreement(float(np.mean(values)), low, high)


MAX_HEADS = 4
"""Over all maps of a model; beyond, the heads of each map are averaged, to keep records small."""
DECIMALS = 4


def attention_examples(
    runs: Mapping[str, TrainedRun],
    inputs: Sequence[str],
    *,
    references: Mapping[str, str] = MappingProxyType({}),
    split: Split = "test",
    count: int | None = None,
    seed: int = 0,
) -> tuple[AttentionExample, ...]:
    """Alignments of a sample of inputs for every variant with cross-attention; of images, all attention.

    `inputs` are names of items of the split; `references` are shown beside predictions.
    """
    if any(task_class(run.spec.task).input_kind == "images" for run in runs.values()):
        return _image_examples(runs, inputs, references, split=split, count=count, seed=seed)
    with_attention = {variant: run for variant, run in runs.items() if run.has_cross_attention}
    if not with_attention:
        return ()
    first = next(iter(with_attention.values()))
    names = median_length_sample(inputs, count=count or first.preprocessor.num_shown, seed=seed)
    found = {
        name: {
            variant: compact(run.alignment(each, name=name))
            for variant, run in with_attention.items()
        }
        for name, each in first.inputs(names, split=split).items()
    }
    return tuple(
        AttentionExample(
            input=name,
            alignments={
                variant: replace(each, sound=None, reference=references.get(name, ""))
                for variant, each in alignments.items()
            },
            sound=next(iter(alignments.values())).sound,
        )
        for name, alignments in found.items()
    )


def _image_examples(
    runs: Mapping[str, TrainedRun],
    inputs: Sequence[str],
    references: Mapping[str, str],
    *,
    split: Split,
    count: int | None,
    seed: int,
) -> tuple[AttentionExample, ...]:
    first = next(iter(runs.values()))
    names = median_length_sample(inputs, count=count or first.preprocessor.num_shown, seed=seed)
    examples = []
    for name, image in first.inputs(names, split=split).items():
        found = {
            variant: explain_image(run, image, name=name, reference=references.get(name))
            for variant, run in runs.items()
        }
        shown = {
            variant: replace(compact_image(each), image=None, feature_maps=None)
            for variant, each in found.items()
            if each.attention
        }
        picture = next(iter(found.values())).image
        if shown:
            examples.append(
                AttentionExample(input=name, alignments={}, images=shown, image=picture)
            )
    return tuple(examples)


def median_length_sample(inputs: Sequence[str], *, count: int, seed: int) -> tuple[str, ...]:
    """Distinct inputs from the middle half of all lengths; the first one has the median length.

    >>> median_length_sample(["a", "cat", "cattle", "caterpillars"], count=1, seed=5)
    ('cat',)
    """
    distinct = list(dict.fromkeys(text for text in inputs if text.strip()))
    if not distinct:
        return ()
    lengths = np.array([len(text) for text in distinct])
    low, median, high = np.quantile(lengths, [0.25, 0.5, 0.75], method="lower")
    first = distinct[int(np.argmax(lengths == median))]
    others = [
        text
        for text, length in zip(distinct, lengths, strict=True)
        if low <= length <= high and text != first
    ]
    drawn = random.Random(seed).sample(others, min(count - 1, len(others)))
    return (first, *drawn)


def compact(alignment: AlignmentRecord) -> AlignmentRecord:
    """The alignment with rounded weights, and averaged heads if there are too many."""
    heads = sum(map(len, alignment.maps.values()))
    maps = alignment.maps if heads <= MAX_HEADS else dict(map(_averaged, alignment.maps.items()))
    return replace(alignment, maps={name: _rounded(values) for name, values in maps.items()})


def _averaged(named: tuple[str, Map]) -> tuple[str, Map]:
    name, heads = named
    if len(heads) == 1:
        return name, heads
    mean = np.mean(heads, axis=0).tolist()
    return f"{name}, mean of {len(heads)} heads", (tuple(map(tuple, mean)),)


def _rounded(heads: Map) -> Map:
    return tuple(
        tuple(tuple(round(weight, DECIMALS) for weight in row) for row in head) for head in heads
    )


def compact_image(found: ClassifiedImage) -> ClassifiedImage:
    """The record with weights of four significant digits: those of many patches are small."""
    return replace(
        found,
        attention=tuple(
            tuple(tuple(float(f"{weight:.4g}") for weight in row) for row in each)
            for each in found.attention
        ),
    )
