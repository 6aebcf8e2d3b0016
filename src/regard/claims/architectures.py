"""Architectures counted: parameters of the Transformer, of BERT, of a small network for images.

Formulas are written out by hand here and compared with models that are built; large ones without their
numbers (on torch's meta device). What training the base Transformer takes here is found by one real step.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import torch
from torch import nn

from regard.claims.engine import claim, line, one_thread
from regard.core.records.claim import CurvePicture, Finding
from regard.costs.trace import Workload, trace
from regard.costs.workloads import module_workload
from regard.models.seq2seq.transformer import Transformer
from regard.models.text_encoder import TextEncoder
from regard.runs.build import operations_of
from regard.runs.plan import PROCESS_BYTES
from regard.runs.profile import machine_bytes

BASE_VOCABULARY = 37_000
# Sentence pairs of the step that is taken.
ROWS = 4
# Weights and the two moments of the optimiser; the gradient is in the peak of the step.
KEPT_COPIES, BYTES_OF_A_NUMBER = 3, 4
SECONDS_OF_A_DAY = 86_400
# Vaswani et al. 2017, sec. 5: 100,000 steps of 25,000 source tokens and as many of the target.
PAPER_TOKENS = 100_000 * 25_000


class Sizes(NamedTuple):
    """Those of a Transformer; the same number of layers on both sides, one table of tokens."""

    vocabulary: int
    width: int
    heads: int
    layers: int
    inner: int


BASE = Sizes(BASE_VOCABULARY, 512, 8, 6, 2048)
BIG = Sizes(BASE_VOCABULARY, 1024, 16, 6, 4096)


@claim(
    statement="The number of parameters of a Transformer follows from its architecture.",
    formula="Vd + L·(3·4(d² + d) + 2(2df + f + d) + 5·2d)",
    source="seed 001; Vaswani et al. 2017, table 3",
    proof="counted",
    ranges={"width": (2, 4096), "heads": (1, 64), "layers": (1, 48), "inner": (1, 65_536)},
)
def transformer_parameters_follow(
    *, vocabulary: int = 1000, width: int = 96, heads: int = 4, layers: int = 2, inner: int = 200
) -> Finding:
    own = Sizes(vocabulary, width, heads, layers, inner)
    compared = {
        name: (by_formula(sizes), parameters_of(transformer(sizes)))
        for name, sizes in (("base", BASE), ("big", BIG), ("own", own))
    }
    wrong = [
        f"{name}: {by} against {counted}"
        for name, (by, counted) in compared.items()
        if by != counted
    ]
    told = ", ".join(f"{name} {counted:,}" for name, (_, counted) in compared.items())
    return Finding(
        verdict="fails" if wrong else "holds",
        because=(
            f"The formula gives exactly what {len(compared) - len(wrong)} of {len(compared)} models built "
            f"have; they have: {told}."
        ),
        figures={name: counted for name, (_, counted) in compared.items()},
        picture=_parameters_picture(),
        counter_example="; ".join(wrong),
    )


def by_formula(sizes: Sizes) -> int:
    """The table of tokens, and the blocks of both sides; attention, feed-forward and norms by hand."""
    d, f = sizes.width, sizes.inner
    attention, feed_forward, norm = 4 * (d * d + d), 2 * d * f + f + d, 2 * d
    encoder_block = attention + feed_forward + 2 * norm
    decoder_block = 2 * attention + feed_forward + 3 * norm
    return sizes.vocabulary * d + sizes.layers * (encoder_block + decoder_block)


def transformer(sizes: Sizes, *, device: str = "meta") -> Transformer:
    """As in the paper: norms after, one table for both languages and the output."""
    with torch.device(device):
        return Transformer(
            source_vocabulary=sizes.vocabulary,
            target_vocabulary=sizes.vocabulary,
            model_dim=sizes.width,
            num_heads=sizes.heads,
            num_layers=sizes.layers,
            feed_forward_dim=sizes.inner,
            norm_first=False,
            tie="all",
        )


def parameters_of(model: nn.Module) -> int:
    """Trainable numbers, each counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


@claim(
    statement="The base Transformer has 65 million parameters.",
    formula="Vd + 44,138,496 with d = 512",
    source="seed 001; Vaswani et al. 2017, table 3",
    proof="counted",
)
def base_transformer_has_65_million(*, vocabulary: int = BASE_VOCABULARY) -> Finding:
    count = parameters_of(transformer(BASE._replace(vocabulary=vocabulary)))
    beside = by_formula(BASE._replace(vocabulary=0))
    # What rounds to 65 million, in tokens of the vocabulary.
    least, most = -((beside - 64_500_000) // BASE.width), (65_499_999 - beside) // BASE.width
    rounded = round(count / 1e6)
    return Finding(
        verdict="holds" if rounded == 65 else "holds if",
        because=(
            f"With a vocabulary of {vocabulary:,} there are {count:,}, which rounds to {rounded} million; "
            f"{beside:,} of them do not depend on the vocabulary. The paper says “about "
            f"{BASE_VOCABULARY:,}” tokens."
        ),
        figures={"parameters": count, "least_vocabulary": least, "most_vocabulary": most},
        picture=_parameters_picture(),
        boundary=f"the vocabulary has from {least:,} to {most:,} tokens",
    )


@claim(
    statement="BERT base has 109,482,240 parameters, without the heads of its pre-training.",
    formula="(V + P + S)d + 2d + L·(4(d² + d) + 2df + f + d + 2·2d) + d² + d",
    source="seed 001; Devlin et al. 2019",
    proof="counted",
    ranges={"positions": (1, 100_000), "said": (0, 10**12)},
)
def bert_base_parameters_follow(
    *, vocabulary: int = 30_522, positions: int = 512, said: int = 109_482_240
) -> Finding:
    with torch.device("meta"):
        built = TextEncoder(
            vocabulary=vocabulary,
            max_length=positions,
            model_dim=768,
            num_heads=12,
            num_layers=12,
            pretraining_heads=False,
        )
    count, by = parameters_of(built), bert_formula(vocabulary=vocabulary, positions=positions)
    right = count == by == said
    return Finding(
        verdict="holds" if right else "fails",
        because=f"Built: {count:,}; by the formula: {by:,}; said: {said:,}.",
        figures={"built": count, "formula": by},
        picture=_bert_picture(positions=positions),
        counter_example="" if right else f"{count:,} are built, {said:,} are said.",
    )


def bert_formula(*, vocabulary: int, positions: int, layers: int = 12) -> int:
    """Three tables and a norm, the blocks, the pooler."""
    d, f, segments = 768, 3072, 2
    block = 4 * (d * d + d) + 2 * d * f + f + d + 2 * 2 * d
    return (vocabulary + positions + segments) * d + 2 * d + layers * block + d * d + d


@claim(
    statement="A Transformer of 65 million coefficients is clearly untrainable on a single computer.",
    formula="memory > this machine's, or days > patience",
    source="seed 001",
    proof="measured",
    marked_wrong=True,
    ranges={
        "pairs": (1, 10**10),
        "passes": (1, 10**6),
        "length": (1, 128),
        "patience_days": (0, 1e9),
    },
)
def base_transformer_is_untrainable_here(
    *, pairs: int = 29_000, passes: int = 30, length: int = 15, patience_days: float = 60.0
) -> Finding:
    step = one_step(rows=ROWS, length=length)
    days, of_paper = step.days(float(pairs * passes)), step.days(PAPER_TOKENS / length)
    too_much = step.bytes > machine_bytes() or days > patience_days
    gigabytes = f"{step.bytes / 1e9:.1f} GB of {machine_bytes() / 1e9:.0f} GB"
    return Finding(
        verdict="holds" if too_much else "fails",
        because=(
            f"One training step of the base Transformer was taken here, with {ROWS} pairs of {length} "
            f"tokens: {gigabytes} of memory, {step.operations_a_second / 1e9:.0f} billion operations a "
            f"second on one thread. Forward and backward of {pairs:,} sentence pairs, {passes} times, take "
            f"{days:.1f} days; what the optimiser takes, once a batch, is left out. The paper's own "
            f"training would take {of_paper:,.0f} days here; it took half a day on one machine with 8 GPUs."
        ),
        figures={"bytes": step.bytes, "days": days, "days_of_the_paper": of_paper},
        picture=_days_picture(
            step, asked=float(pairs * passes), paper=PAPER_TOKENS / length, patience=patience_days
        ),
        counter_example=""
        if too_much
        else f"{pairs:,} pairs, {passes} times: {days:.1f} days, {gigabytes}.",
    )


class StepTaken(NamedTuple):
    """What training takes here: bytes in all, and how quick the machine was."""

    bytes: float
    operations_a_second: float
    operations_a_pair: float

    def days(self, pairs: float) -> float:
        """Of forward and backward of so many sentence pairs."""
        return pairs * self.operations_a_pair / self.operations_a_second / SECONDS_OF_A_DAY


def one_step(*, rows: int, length: int) -> StepTaken:
    """Forward and backward of the base model on a few sentence pairs, traced while it really runs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformer(BASE, device="cpu")
    tokens = torch.randint(
        4, BASE_VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(0)
    )
    lengths = torch.full((rows,), length)
    run = module_workload("base", "train", lambda: (model, [tokens, lengths, tokens])).prepare()
    with one_thread():
        began = time.process_time()
        traced = trace(Workload("base", "train", lambda: run), really=True)
        seconds = time.process_time() - began
    kept = KEPT_COPIES * BYTES_OF_A_NUMBER * parameters_of(model)
    a_pair = operations_of(
        model, {"batch_size": 1, "source_length": length, "target_length": length}
    )
    return StepTaken(
        PROCESS_BYTES + kept + traced.peak_bytes, traced.operations / seconds, float(a_pair)
    )


@claim(
    statement="Dropping the max-pooling of a small convolutional network raises its parameter count.",
    formula="strides of 2 in place of 2×2 pooling: the first linear layer reads 16·side² either way",
    source="seed 002, Q2.3",
    proof="counted",
    marked_wrong=True,
    ranges={"side": (10, 128), "classes": (1, 1000)},
)
def dropping_the_pooling_raises_parameters(*, side: int = 28, classes: int = 4) -> Finding:
    pooled = parameters_of(image_network(side=side, classes=classes, pooled=True, padding=1))
    strided = parameters_of(image_network(side=side, classes=classes, pooled=False, padding=1))
    raised = strided > pooled
    return Finding(
        verdict="holds" if raised else "fails",
        because=(
            f"Built alike but for the pooling, with its first convolution padded: {pooled:,} "
            "parameters with "
            f"pooling, {strided:,} with strides of 2 in its place, for images of {side} × {side}."
        ),
        figures={"pooled": pooled, "strided": strided},
        picture=_image_picture(classes=classes),
        counter_example=""
        if raised
        else f"{side} × {side}: {pooled:,} with, {strided:,} without pooling.",
    )


@claim(
    statement="The seed's smaller count comes from the missing padding of the first convolution.",
    formula="(16·6² − 16·5²) · 320 = 56,320 = 224,892 − 168,572",
    source="corrects seed 002, Q2.3",
    proof="counted",
    ranges=dict.fromkeys(("with_pooling", "without_pooling"), (0, 10**9)),
)
def the_missing_padding_lowers_parameters(
    *, with_pooling: int = 168_572, without_pooling: int = 224_892
) -> Finding:
    built = {
        "pooled, padded": parameters_of(image_network(pooled=True, padding=1)),
        "pooled, unpadded": parameters_of(image_network(pooled=True, padding=0)),
        "strided, padded": parameters_of(image_network(pooled=False, padding=1)),
    }
    explained = (
        built["pooled, unpadded"] == with_pooling and built["strided, padded"] == without_pooling
    )
    same = built["pooled, padded"] == built["strided, padded"]
    told = "; ".join(f"{name}: {count:,}" for name, count in built.items())
    return Finding(
        verdict="holds" if explained and same else "fails",
        because=(
            f"{told}. The seed's {with_pooling:,} and {without_pooling:,} are "
            f"{'those' if explained else 'not those'} of the pooled network without padding and of the "
            "strided one."
        ),
        figures=built,
        picture=_image_picture(classes=4),
        counter_example="" if explained and same else told,
    )


def image_network(*, pooled: bool, padding: int, side: int = 28, classes: int = 4) -> nn.Sequential:
    """Two convolutions of 3 × 3 (1 → 8 → 16), each halved by pooling or by a stride of 2; three layers."""
    stride = 1 if pooled else 2
    features = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=padding, stride=stride),
        nn.ReLU(),
        nn.MaxPool2d(2) if pooled else nn.Identity(),
        nn.Conv2d(8, 16, 3, stride=stride),
        nn.ReLU(),
        nn.MaxPool2d(2) if pooled else nn.Identity(),
        nn.Flatten(),
    )
    width = features(torch.zeros(1, 1, side, side)).shape[1]
    classifier = (
        nn.Linear(width, 320),
        nn.ReLU(),
        nn.Linear(320, 120),
        nn.ReLU(),
        nn.Linear(120, classes),
    )
    return nn.Sequential(features, *classifier)


def _parameters_picture() -> CurvePicture:
    tables = tuple(range(0, 50_001, 5_000))
    millions = tuple(by_formula(BASE._replace(vocabulary=size)) / 1e6 for size in tables)
    return CurvePicture(
        title="The base Transformer by its vocabulary",
        x_label="tokens of the vocabulary",
        y_label="million parameters",
        curves=(
            line(label="parameters", x=tables, y=millions),
            line(label="65 million", x=(0, 50_000), y=(65.0, 65.0), dashed=True),
        ),
        marks=((float(BASE_VOCABULARY), "about 37,000"),),
    )


def _bert_picture(*, positions: int) -> CurvePicture:
    layers = tuple(range(0, 13, 2))
    return CurvePicture(
        title="BERT base by its layers",
        x_label="layers",
        y_label="million parameters",
        curves=(
            line(
                label="parameters",
                x=layers,
                y=tuple(
                    bert_formula(vocabulary=30_522, positions=positions, layers=count) / 1e6
                    for count in layers
                ),
            ),
        ),
    )


def _days_picture(step: StepTaken, *, asked: float, paper: float, patience: float) -> CurvePicture:
    seen = tuple(10.0**power for power in range(4, 10))
    return CurvePicture(
        title="Training the base Transformer on this machine",
        x_label="sentence pairs seen",
        y_label="days",
        x_scale="log",
        y_scale="log",
        curves=(
            line(label="days", x=seen, y=tuple(step.days(pairs) for pairs in seen)),
            line(label="patience", x=(seen[0], seen[-1]), y=(patience, patience), dashed=True),
        ),
        marks=((asked, "asked for"), (paper, "the paper's")),
    )


def _image_picture(*, classes: int) -> CurvePicture:
    sides = tuple(range(20, 37))
    kinds = {
        "pooled, padded": (True, 1),
        "strided, padded": (False, 1),
        "pooled, unpadded": (True, 0),
    }
    return CurvePicture(
        title="Parameters by the side of the image",
        x_label="side",
        y_label="parameters",
        curves=tuple(
            line(
                label=name,
                x=sides,
                y=tuple(
                    float(
                        parameters_of(
                            image_network(
                                side=side, classes=classes, pooled=pooled, padding=padding
                            )
                        )
                    )
                    for side in sides
                ),
                dashed=pooled and padding == 1,
            )
            for name, (pooled, padding) in kinds.items()
        ),
        marks=((28.0, "28"),),
    )
