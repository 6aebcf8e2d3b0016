"""Dummy run records with realistic figures, one for each kind of task, for pages."""

from __future__ import annotations

import base64
import dataclasses
import math
import random
from typing import Any

import numpy as np
from tests.factories.documents import make_deletion_record, make_document_record
from tests.factories.sounds import sine

from regard.core.records.attention import AlignmentRecord, TreeRecord
from regard.core.records.document import DocumentRecord
from regard.core.records.run import (
    AlignmentScore,
    CalibrationRecord,
    ConfusionRecord,
    EvaluationRecord,
    FileRecord,
    ItemRecord,
    ReliabilityBin,
    RunRecord,
    RunScore,
    SplitRecord,
    TrainingPoint,
)
from regard.core.records.sound import SoundRecord, WordRecord
from regard.core.records.study import MetricRecord
from regard.data.audio.features import FeatureOptions
from regard.data.audio.picture import playable, spectrogram

STEPS, EVERY_TRAINING, EVERY_EVALUATION = 2000, 20, 200
TOKENS_PER_STEP, FLOPS_PER_STEP, SECONDS_PER_STEP = 2048, 2_600_000_000, 0.09
PRONUNCIATIONS = (
    ("colonel", "K ER1 N AH0 L", "K AA1 L AH0 N AH0 L"),
    ("thoroughly", "TH ER1 OW0 L IY0", "TH ER1 OW0 L IY0"),
    ("knight", "N AY1 T", "N AY1 T"),
    ("phoenix", "F IY1 N IH0 K S", "F OW1 N IH0 K S"),
    ("queue", "K Y UW1", "K W UW1"),
    ("attention", "AH0 T EH1 N SH AH0 N", "AH0 T EH1 N SH AH0 N"),
)
REVIEWS = (
    ("A dull and lifeless picture.", "negative", "negative"),
    ("Nobody in it seems to want to be there, and I did not either.", "negative", "negative"),
    ("The music is fine; the rest is better.", "positive", "negative"),
    ("Two hours well spent.", "positive", "positive"),
)


def metric(
    name: str,
    *,
    unit: str = "%",
    lower_is_better: bool = False,
    digits: int = 2,
    note: str = "",
    is_itemwise: bool = True,
) -> MetricRecord:
    """What a page knows of a metric."""
    return MetricRecord(
        name=name,
        unit=unit,
        lower_is_better=lower_is_better,
        digits=digits,
        note=note,
        is_itemwise=is_itemwise,
    )


LOSS = metric("loss", unit="nats", lower_is_better=True, digits=4, is_itemwise=False)


def training_points(*, loss: float, steps: int = STEPS) -> tuple[TrainingPoint, ...]:
    """A falling loss, with one value that is not finite."""
    rng = random.Random(steps)
    return tuple(
        TrainingPoint(
            step=step,
            tokens=step * TOKENS_PER_STEP,
            flops=step * FLOPS_PER_STEP,
            seconds=step * SECONDS_PER_STEP,
            loss=None
            if step == 3 * EVERY_TRAINING
            else loss + 3 * math.exp(-4 * step / STEPS) + rng.gauss(0, 0.03),
            learning_rate=0.003 * min(step / 100, 1 - 0.9 * step / STEPS),
            gradient_norm=None if step == 3 * EVERY_TRAINING else 1.2 + rng.random(),
        )
        for step in range(EVERY_TRAINING, steps + 1, EVERY_TRAINING)
    )


def evaluations(
    metrics: tuple[MetricRecord, ...], finals: dict[str, float], *, steps: int = STEPS
) -> tuple[EvaluationRecord, ...]:
    """Validation scores that approach their final values."""
    found = []
    for step in range(EVERY_EVALUATION, steps + 1, EVERY_EVALUATION):
        left = math.exp(-4 * step / STEPS)
        found.append(
            EvaluationRecord(
                step=step,
                tokens=step * TOKENS_PER_STEP,
                flops=step * FLOPS_PER_STEP,
                seconds=step * SECONDS_PER_STEP,
                scores={
                    each.name: finals[each.name] * (1 + left if each.lower_is_better else 1 - left)
                    for each in metrics
                },
            )
        )
    return tuple(found)


def dummy_run(
    *,
    name: str,
    task: str,
    model: str,
    metrics: tuple[MetricRecord, ...],
    finals: dict[str, float],
    items: tuple[ItemRecord, ...] = (),
    item_metric: str = "",
    baselines: dict[str, dict[str, float]] | None = None,
    split: dict[str, Any] | None = None,
    **change: Any,
) -> RunRecord:
    """A finished run of 2,000 steps; `change` replaces fields of it, `split` fields of its splits."""
    scores = {
        each.name: RunScore(
            value=finals[each.name],
            low=finals[each.name] * 0.96 if each.is_itemwise else None,
            high=finals[each.name] * 1.04 if each.is_itemwise else None,
        )
        for each in metrics
    }
    ranked = sorted(items, key=lambda item: item.score or 0.0) if item_metric else []
    values: dict[str, Any] = {
        "name": name,
        "state": "finished",
        "progress": 1.0,
        "budget": f"{STEPS:,} steps",
        "task": task,
        "model": model,
        "seed": 0,
        "metrics": metrics,
        "training": training_points(loss=finals.get("loss", 0.4)),
        "evaluations": evaluations(metrics, finals),
        "best_step": STEPS - EVERY_EVALUATION,
        "splits": tuple(
            SplitRecord(
                name=each, items=count, scores=scores, baselines=baselines or {}, **(split or {})
            )
            for each, count in (("test", 6374), ("validation", 5447))
        ),
        "item_split": "test" if items else "",
        "item_metric": item_metric,
        "examples": items,
        "best_items": tuple(ranked[:3]),
        "worst_items": tuple(reversed(ranked[-3:])),
        "num_best": 1,
        "num_worst": 409,
        "alignments": (),
        "documents": (),
        "trees": (),
        "settings": {
            "task": {"name": task, "batch_tokens": 2048, "train_file": "data/train.tsv"},
            "model": {"name": model, "hidden_dim": 256, "dropout": 0.1, "cell": "lstm"},
            "training": {"steps": STEPS, "learning_rate": 0.003, "device": "cpu", "minutes": None},
        },
        "parameters": 955_432,
        "steps": STEPS,
        "tokens": STEPS * TOKENS_PER_STEP,
        "flops": STEPS * FLOPS_PER_STEP,
        "seconds": STEPS * SECONDS_PER_STEP,
        "evaluation_seconds": 21.5,
        "peak_bytes": 611 << 20,
        "stages": {},
        "notes": ("3 of the test inputs are in the training data too.",),
        "reproducibility": {
            "command": f"regard train {task} --out runs/{name}",
            "regard": "0.5.0",
            "torch": "2.13.0",
            "data": "sha256 3f1c0e6a",
            "seed": "0",
            "machine": "x86_64, 2 cores",
        },
        "files": (
            FileRecord(name="spec.json", size=1432, sha256="9f2c" * 16),
            FileRecord(name="best.safetensors", size=3_821_728, sha256="01ab" * 16),
            FileRecord(name="training.csv", size=9120, sha256=""),
        ),
    }
    return RunRecord(**values | change)


def sequence_run(**change: Any) -> RunRecord:
    """Pronunciation, with attention from letters to phones."""
    metrics = (
        metric("per", lower_is_better=True),
        metric("exact_match", note="100 minus what G2P papers call WER"),
        LOSS,
    )
    items = tuple(
        ItemRecord(
            input=word,
            references=(reference,),
            prediction=prediction,
            correct=reference == prediction,
            score=0.0 if reference == prediction else 25.0 + index,
        )
        for index, (word, reference, prediction) in enumerate(PRONUNCIATIONS)
    )
    values: dict[str, Any] = {
        "name": "pronounce-1",
        "task": "pronounce",
        "model": "recurrent",
        "metrics": metrics,
        "finals": {"per": 8.4, "exact_match": 66.1, "loss": 0.41},
        "items": items,
        "item_metric": "per",
        "alignments": tuple(
            alignment(word, prediction) for word, _, prediction in PRONUNCIATIONS[:3]
        ),
    }
    return dummy_run(**values | change)


def alignment(word: str, output: str) -> AlignmentRecord:
    """A blurred diagonal of two heads, from letters to phones."""
    source, target = (*word, "</s>"), (*output.split(), "</s>")
    heads = []
    for width in (0.5, 2.0):
        rows = []
        for row in range(len(target)):
            middle = row * (len(source) - 1) / max(len(target) - 1, 1)
            near = [math.exp(-((column - middle) ** 2) / width) for column in range(len(source))]
            rows.append(tuple(weight / sum(near) for weight in near))
        heads.append(tuple(rows))
    return AlignmentRecord(
        source_tokens=source, output_tokens=target, maps={"decoder": tuple(heads)}, title=word
    )


def classifier_run(**change: Any) -> RunRecord:
    """Document classification: confusion, calibration, deletion test, documents."""
    metrics = (
        metric("accuracy"),
        metric("macro_f1", is_itemwise=False),
        dataclasses.replace(LOSS, is_itemwise=True),
    )
    bins = [(3, 0.55, 0.33), (41, 0.66, 0.61), (80, 0.75, 0.7), (211, 0.86, 0.84), (400, 0.97, 0.9)]
    values: dict[str, Any] = {
        "name": "reviews",
        "task": "classify",
        "model": "hierarchical",
        "metrics": metrics,
        "finals": {"accuracy": 84.6, "macro_f1": 84.1, "loss": 0.44},
        "items": tuple(
            ItemRecord(
                input=text,
                references=(reference,),
                prediction=prediction,
                correct=reference == prediction,
                score=0.2 + index,
            )
            for index, (text, reference, prediction) in enumerate(REVIEWS)
        ),
        "item_metric": "loss",
        "baselines": {
            "majority baseline 'positive'": {"accuracy": 50.3, "macro_f1": 33.5},
            "TF-IDF + logistic regression": {"accuracy": 82.9, "macro_f1": 82.8},
        },
        "split": {
            "confusion": ConfusionRecord(
                labels=("positive", "negative", "mixed"),
                counts=((301, 44, 3), (51, 288, 6), (12, 9, 21)),
            ),
            "calibration": CalibrationRecord(
                error=0.052,
                bins=tuple(
                    ReliabilityBin(items=count, confidence=confidence, accuracy=accuracy)
                    for count, confidence, accuracy in bins
                ),
            ),
            "deletion": make_deletion_record(),
        },
        "documents": (make_document_record(hops=2, title=REVIEWS[0][0]), make_document_record()),
        "stages": {"pretraining": "masked_lm, 500 steps on pretrain.txt, loss 3.2"},
    }
    return dummy_run(**values | change)


def language_model_run(**change: Any) -> RunRecord:
    """A language model: corpus metrics, continuations as examples, no scores of items."""
    metrics = (
        metric(
            "bits_per_character", unit="bits", lower_is_better=True, digits=4, is_itemwise=False
        ),
        metric("perplexity", unit="", lower_is_better=True, is_itemwise=False),
        LOSS,
    )
    values: dict[str, Any] = {
        "name": "lm-1",
        "task": "lm",
        "model": "decoder_only",
        "metrics": metrics,
        "finals": {"bits_per_character": 1.92, "perplexity": 22.4, "loss": 3.1},
        "items": (
            ItemRecord(
                input="It was the best of",
                references=("times, it was the worst of times",),
                prediction="the house, and\nthe man said no",
                correct=False,
            ),
        ),
        "baselines": {"unigram": {"perplexity": 512.0, "loss": 6.2}},
        "peak_bytes": None,
    }
    return dummy_run(**values | change)


def regression_run(**change: Any) -> RunRecord:
    """A number from a text."""
    metrics = (
        metric("rmse", unit="", lower_is_better=True, digits=4),
        metric("mae", unit="", lower_is_better=True, digits=4),
        metric("pearson_r", unit="", digits=4, is_itemwise=False),
    )
    values: dict[str, Any] = {
        "name": "regression-1",
        "task": "regression",
        "model": "bilstm",
        "metrics": metrics,
        "finals": {"rmse": 0.81, "mae": 0.6, "pearson_r": 0.74},
        "items": tuple(
            ItemRecord(
                input=text,
                references=(f"{4.5 - index}",),
                prediction=f"{4.21 - index:.3f}",
                correct=False,
                score=0.29,
            )
            for index, (text, _, _) in enumerate(REVIEWS)
        ),
        "item_metric": "mae",
        "baselines": {"mean": {"rmse": 1.2, "mae": 1.0}},
    }
    return dummy_run(**values | change)


def masked_run(**change: Any) -> RunRecord:
    """Masked language modelling: no items at all."""
    metrics = (
        metric("masked_accuracy", is_itemwise=False),
        metric("next_sentence_accuracy", is_itemwise=False),
        LOSS,
    )
    values: dict[str, Any] = {
        "name": "masked_lm-1",
        "task": "masked_lm",
        "model": "text_encoder",
        "metrics": metrics,
        "finals": {"masked_accuracy": 41.3, "next_sentence_accuracy": 77.0, "loss": 3.3},
        "notes": (),
    }
    return dummy_run(**values | change)


def tree_run(**change: Any) -> RunRecord:
    """Sentences classified by a recursive autoencoder, with its trees."""
    tree = TreeRecord(
        leaves=("a", "very", "good", "film"),
        merges=((1, 2), (4, 3), (0, 5)),
        errors=(0.12, 0.4, 0.31),
        predictions=("neutral", "neutral", "positive", "neutral", "positive", "positive", "mixed"),
        confidences=(0.5, 0.55, 0.9, 0.5, 0.93, 0.84, 0.8),
        title="a very good film",
    )
    values: dict[str, Any] = {
        "name": "trees",
        "task": "classify",
        "model": "recursive_autoencoder",
        "metrics": (metric("accuracy"), LOSS),
        "finals": {"accuracy": 71.0, "loss": 0.7},
        "items": (
            ItemRecord(
                input="a very good film",
                references=("positive",),
                prediction="mixed",
                correct=False,
                score=0.0,
            ),
        ),
        "item_metric": "accuracy",
        "trees": (tree, dataclasses.replace(tree, title="again")),
    }
    return dummy_run(**values | change)


WORDS, PAUSE, RATE = ("three", "one", "four"), 0.1, 8000


def sound(name: str, *, words: tuple[str, ...] = WORDS) -> SoundRecord:
    """Tones of another height for each word, with pauses."""
    pieces, borders, start = [], [], 0.0
    for number, word in enumerate(words):
        seconds = 0.2 + 0.1 * number
        tone = sine(500.0 * (number + 1), seconds=seconds, sample_rate=RATE)
        pieces += [tone, np.zeros(round(PAUSE * RATE))]
        borders.append(WordRecord(word=word, start=start, end=start + seconds))
        start += seconds + PAUSE
    samples = np.concatenate(pieces).astype(np.float32)
    frames = FeatureOptions(sample_rate=RATE, num_bands=20).extract(samples)
    cells = spectrogram(frames, is_log_mel=True)
    return SoundRecord(
        name=name,
        spectrogram=base64.b64encode(cells.tobytes()).decode("ascii"),
        num_bands=len(cells),
        bands="log-mel bands",
        low="0 Hz",
        high="4 kHz",
        frames=len(frames),
        seconds=len(frames) / 100,
        words=tuple(borders) if len(words) > 1 else (),
        audio=playable(samples, sample_rate=RATE),
    )


def heard(name: str, prediction: str) -> AlignmentRecord:
    """An alignment of characters with a recording: a diagonal."""
    recording, tokens = sound(name), (*prediction.replace(" ", "␣"), "<end>")
    rows = tuple(
        tuple(math.exp(-((column - 2 * row) ** 2) / 4) for column in range(2 * len(tokens)))
        for row in range(len(tokens))
    )
    return AlignmentRecord(
        title=f"{name} → {prediction}",
        source_tokens=recording.column_names(2 * len(tokens)),
        output_tokens=tokens,
        maps={"cross/1, head 2": (rows,)},
        prediction=prediction,
        reference=" ".join(WORDS),
        sound=recording,
    )


def speech_run(**change: Any) -> RunRecord:
    """Speech recognition: spectrograms with attention and audio, and the accuracy of alignments."""
    heads = {"cross/1, head 1": 31.0, "cross/1, head 2": 88.4}
    said = ("three one four", "tree one for", "")
    values: dict[str, Any] = {
        "name": "strings",
        "task": "speech_recognition",
        "model": "transformer",
        "metrics": (metric("cer", unit="", lower_is_better=True, digits=4), LOSS),
        "finals": {"cer": 0.12, "loss": 0.5},
        "items": tuple(
            ItemRecord(
                input=f"ann/{number:05d}",
                references=(" ".join(WORDS),),
                prediction=text,
                correct=number == 0,
                score=0.1 * number,
            )
            for number, text in enumerate(said)
        ),
        "item_metric": "cer",
        "split": {
            "alignment": AlignmentScore(
                accuracy=88.4, head="cross/1, head 2", chance=16.5, heads=heads
            )
        },
        "alignments": tuple(heard(f"ann/{number:05d}", text) for number, text in enumerate(said)),
    }
    return dummy_run(**values | change)


def audio_run(**change: Any) -> RunRecord:
    """Classification of recordings: one with audio, one whose data has features only."""
    hops = ((0.5, 0.3, 0.2, 0.0), (0.0, 0.1, 0.2, 0.7))
    recording = sound("3_ann_0.wav", words=("three",))
    silent = dataclasses.replace(
        recording,
        name="digits.npz:7",
        seconds=None,
        audio=None,
        note="The data has features only, so there is no recording to play.",
    )
    values: dict[str, Any] = {
        "name": "digits",
        "task": "audio_classification",
        "model": "structured",
        "metrics": (metric("accuracy"), LOSS),
        "finals": {"accuracy": 91.0, "loss": 0.3},
        "documents": tuple(
            DocumentRecord(
                tokens=each.column_names(4),
                segments=(0,) * 4,
                hops=hops[:count],
                sentence_weights=None,
                label="3",
                probabilities={"3": 0.8, "4": 0.2},
                title=each.name,
                reference="4",
                sound=each,
            )
            for count, each in ((2, recording), (1, silent))
        ),
    }
    return dummy_run(**values | change)


def unfinished_run(**change: Any) -> RunRecord:
    """A run that is still training: curves only."""
    whole = sequence_run()
    steps = 3 * EVERY_EVALUATION
    values: dict[str, Any] = {
        "state": "training",
        "progress": steps / STEPS,
        "training": training_points(loss=0.41, steps=steps),
        "evaluations": whole.evaluations[:3],
        "best_step": steps,
        "splits": (),
        "item_split": "",
        "item_metric": "",
        "examples": (),
        "best_items": (),
        "worst_items": (),
        "num_best": 0,
        "num_worst": 0,
        "alignments": (),
        "steps": steps,
        "tokens": steps * TOKENS_PER_STEP,
        "flops": steps * FLOPS_PER_STEP,
        "seconds": steps * SECONDS_PER_STEP,
        "peak_bytes": None,
        "notes": (),
        "files": (FileRecord(name="spec.json", size=1432, sha256=""),),
    }
    return dataclasses.replace(whole, **values | change)


RUNS = {
    "sequence": sequence_run,
    "classifier": classifier_run,
    "language-model": language_model_run,
    "regression": regression_run,
    "masked-lm": masked_run,
    "trees": tree_run,
    "speech": speech_run,
    "audio": audio_run,
    "unfinished": unfinished_run,
}
