"""Parameter counts of the Transformer, BERT and a small CNN, and the training cost of the base Transformer.

Closed-form counts are compared with models built on torch's meta device. Training cost is extrapolated
from one real training step.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import torch
from torch import nn

from regard.claims.engine import claim, count_parameters, curve_figure, line, num_threads
from regard.core.batches import TokenInput
from regard.core.formatting import bytes_text
from regard.core.records.claim import CurveFigure, Finding
from regard.costs.trace import Workload, trace
from regard.costs.workloads import module_workload
from regard.models.seq2seq.transformer import Transformer
from regard.models.text_encoder import TextEncoder
from regard.runs.plan import PROCESS_BYTES
from regard.runs.profile import machine_bytes

BASE_VOCABULARY = 37_000
# Sentence pairs in the profiled training step.
ROWS = 4
# Parameters and the two moments of Adam; gradients are part of the peak memory of the step.
PARAMETER_COPIES, BYTES_PER_FLOAT = 3, 4
SECONDS_PER_DAY = 86_400
# Vaswani et al. 2017, sec. 5: 100,000 steps of 25,000 source and 25,000 target tokens.
PAPER_TRAINING_TOKENS = 100_000 * 25_000


class Sizes(NamedTuple):
    """Sizes of a Transformer with as many encoder as decoder layers and one tied embedding."""

    vocabulary: int
    model_dim: int
    num_heads: int
    num_layers: int
    feed_forward_dim: int


BASE = Sizes(BASE_VOCABULARY, 512, 8, 6, 2048)
BIG = Sizes(BASE_VOCABULARY, 1024, 16, 6, 4096)


@claim(
    statement="The number of parameters of a Transformer follows from its architecture.",
    formula="Vd + L·(3·4(d² + d) + 2(2df + f + d) + 5·2d)",
    source="Vaswani et al. 2017, table 3",
    proof="counted",
    ranges={
        "model_dim": (2, 4096),
        "num_heads": (1, 64),
        "num_layers": (1, 48),
        "feed_forward_dim": (1, 65_536),
    },
)
def transformer_parameter_count(
    *,
    vocabulary: int = 1000,
    model_dim: int = 96,
    num_heads: int = 4,
    num_layers: int = 2,
    feed_forward_dim: int = 200,
) -> Finding:
    custom = Sizes(vocabulary, model_dim, num_heads, num_layers, feed_forward_dim)
    compared = {
        name: (parameter_formula(sizes), count_parameters(transformer(sizes)))
        for name, sizes in (("base", BASE), ("big", BIG), ("custom", custom))
    }
    wrong = [
        f"{name}: formula {expected}, counted {counted}"
        for name, (expected, counted) in compared.items()
        if expected != counted
    ]
    counts = ", ".join(f"{name} {counted:,}" for name, (_, counted) in compared.items())
    return Finding(
        verdict="fails" if wrong else "holds",
        reason=f"The formula is exact for {len(compared) - len(wrong)} of {len(compared)} models; "
        f"parameters counted: {counts}.",
        values={name: counted for name, (_, counted) in compared.items()},
        figure=_parameters_figure(),
        counter_example="; ".join(wrong),
    )


def parameter_formula(sizes: Sizes) -> int:
    """Closed-form count: embedding, encoder blocks, decoder blocks."""
    d, f = sizes.model_dim, sizes.feed_forward_dim
    attention, feed_forward, norm = 4 * (d * d + d), 2 * d * f + f + d, 2 * d
    encoder_block = attention + feed_forward + 2 * norm
    decoder_block = 2 * attention + feed_forward + 3 * norm
    return sizes.vocabulary * d + sizes.num_layers * (encoder_block + decoder_block)


def transformer(sizes: Sizes, *, device: str = "meta") -> Transformer:
    """As in the paper: post-norm, one tied embedding for source, target and output."""
    with torch.device(device):
        return Transformer(
            source=sizes.vocabulary,
            target_vocabulary=sizes.vocabulary,
            model_dim=sizes.model_dim,
            num_heads=sizes.num_heads,
            num_layers=sizes.num_layers,
            feed_forward_dim=sizes.feed_forward_dim,
            norm_first=False,
            tie="all",
        )


@claim(
    statement="The base Transformer has 65 million parameters.",
    formula="Vd + 44,138,496 with d = 512",
    source="Vaswani et al. 2017, table 3",
    proof="counted",
)
def base_transformer_has_65_million_parameters(*, vocabulary: int = BASE_VOCABULARY) -> Finding:
    count = count_parameters(transformer(BASE._replace(vocabulary=vocabulary)))
    fixed = parameter_formula(BASE._replace(vocabulary=0))
    # Vocabulary sizes for which the count rounds to 65 million.
    least, most = -((fixed - 64_500_000) // BASE.model_dim), (65_499_999 - fixed) // BASE.model_dim
    rounded = round(count / 1e6)
    return Finding(
        verdict="holds" if rounded == 65 else "holds if",
        reason=f"With a vocabulary of {vocabulary:,} there are {count:,} parameters, {rounded} million "
        f"rounded; {fixed:,} of them do not depend on the vocabulary. The paper says “about "
        f"{BASE_VOCABULARY:,}” tokens.",
        values={"parameters": count, "min_vocabulary": least, "max_vocabulary": most},
        figure=_parameters_figure(),
        condition=f"the vocabulary has from {least:,} to {most:,} tokens",
    )


@claim(
    statement="BERT base has 109,482,240 parameters without its pre-training heads.",
    formula="(V + P + S)d + 2d + L·(4(d² + d) + 2df + f + d + 2·2d) + d² + d",
    source="Devlin et al. 2019",
    proof="counted",
    ranges={"positions": (1, 100_000), "expected": (0, 10**12)},
)
def bert_base_parameter_count(
    *, vocabulary: int = 30_522, positions: int = 512, expected: int = 109_482_240
) -> Finding:
    with torch.device("meta"):
        built = TextEncoder(
            source=vocabulary,
            max_length=positions,
            model_dim=768,
            num_heads=12,
            num_layers=12,
            pretraining_heads=False,
        )
    count = count_parameters(built)
    formula = bert_formula(vocabulary=vocabulary, positions=positions)
    holds = count == formula == expected
    layers = tuple(range(0, 13, 2))
    return Finding(
        verdict="holds" if holds else "fails",
        reason=f"Counted: {count:,}; formula: {formula:,}; expected: {expected:,}.",
        values={"counted": count, "formula": formula},
        figure=curve_figure(
            "Parameters of BERT base by number of layers",
            ("layers", "million parameters"),
            line(
                "parameters",
                layers,
                [
                    bert_formula(vocabulary=30_522, positions=positions, layers=count) / 1e6
                    for count in layers
                ],
            ),
        ),
        counter_example=f"{count:,} counted, {expected:,} expected.",
    )


def bert_formula(*, vocabulary: int, positions: int, layers: int = 12) -> int:
    """Closed-form count: three embeddings and a norm, encoder blocks, pooler."""
    d, f, segments = 768, 3072, 2
    block = 4 * (d * d + d) + 2 * d * f + f + d + 2 * 2 * d
    return (vocabulary + positions + segments) * d + 2 * d + layers * block + d * d + d


@claim(
    statement="A Transformer with 65 million parameters cannot be trained on a single computer.",
    formula="memory > available, or days > max_days",
    source="course notes: Transformer size",
    proof="measured",
    known_false=True,
    ranges={"pairs": (1, 10**10), "epochs": (1, 10**6), "length": (1, 128), "max_days": (0, 1e9)},
)
def base_transformer_is_untrainable_on_one_machine(
    *, pairs: int = 29_000, epochs: int = 30, length: int = 15, max_days: float = 60.0
) -> Finding:
    step = profile_step(batch_size=ROWS, length=length)
    days, paper_days = step.days(float(pairs * epochs)), step.days(PAPER_TRAINING_TOKENS / length)
    too_much = step.bytes > machine_bytes() or days > max_days
    memory = f"{bytes_text(step.bytes)} of {bytes_text(machine_bytes())}"
    return Finding(
        verdict="holds" if too_much else "fails",
        reason=(
            f"Measured from one training step with {ROWS} pairs of {length} tokens: {memory} of memory, "
            f"{step.flops_per_second / 1e9:.0f} GFLOP/s on one thread. Forward and backward passes over "
            f"{pairs:,} sentence pairs for {epochs} epochs take {days:.1f} days, optimizer updates not "
            f"included. The paper's training would take {paper_days:,.0f} days here; it took half a day "
            "on 8 GPUs."
        ),
        values={"bytes": step.bytes, "days": days, "paper_days": paper_days},
        figure=_days_figure(
            step,
            requested=float(pairs * epochs),
            paper=PAPER_TRAINING_TOKENS / length,
            max_days=max_days,
        ),
        counter_example=f"{pairs:,} pairs, {epochs} epochs: {days:.1f} days, {memory}.",
    )


class StepProfile(NamedTuple):
    """Memory and speed of one training step on this machine."""

    bytes: float
    flops_per_second: float
    flops_per_pair: float

    def days(self, pairs: float) -> float:
        """Days of forward and backward passes over this many sentence pairs."""
        return pairs * self.flops_per_pair / self.flops_per_second / SECONDS_PER_DAY


def profile_step(*, batch_size: int, length: int) -> StepProfile:
    """Trace a real forward and backward pass of the base model on a few sentence pairs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformer(BASE, device="cpu")
    tokens = torch.randint(
        4, BASE_VOCABULARY, (batch_size, length), generator=torch.Generator().manual_seed(0)
    )
    source = TokenInput(tokens, torch.full((batch_size,), length))
    run = module_workload("base", "train", lambda: (model, [source, tokens])).prepare()
    with num_threads(1):
        start = time.process_time()
        traced = trace(Workload("base", "train", lambda: run), real=True)
        seconds = time.process_time() - start
    parameter_bytes = PARAMETER_COPIES * BYTES_PER_FLOAT * count_parameters(model)
    return StepProfile(
        PROCESS_BYTES + parameter_bytes + traced.peak_bytes,
        traced.flops / seconds,
        traced.flops / batch_size,
    )


@claim(
    statement="Removing max-pooling from a small CNN increases its parameter count.",
    formula="stride 2 instead of 2×2 pooling: the first linear layer has 16·side² inputs either way",
    source="course notes: CNN parameter counts",
    proof="counted",
    known_false=True,
    ranges={"side": (10, 128), "classes": (1, 1000)},
)
def removing_pooling_adds_parameters(*, side: int = 28, classes: int = 4) -> Finding:
    counted = image_parameters(side=side, classes=classes)
    pooled, strided = counted["pooled, padded"], counted["strided, padded"]
    increased = strided > pooled
    return Finding(
        verdict="holds" if increased else "fails",
        reason=f"For {side} × {side} images, with a padded first convolution: {pooled:,} parameters with "
        f"pooling, {strided:,} with stride 2 instead.",
        values={"pooled": pooled, "strided": strided},
        figure=_image_figure(classes=classes),
        counter_example=f"{side} × {side}: {pooled:,} with pooling, {strided:,} without.",
    )


@claim(
    statement="The smaller count with pooling comes from missing padding in the first convolution.",
    formula="(16·6² − 16·5²) · 320 = 56,320 = 224,892 − 168,572",
    source="course notes: CNN parameter counts (corrected)",
    proof="counted",
    ranges=dict.fromkeys(("with_pooling", "without_pooling"), (0, 10**9)),
)
def missing_padding_removes_parameters(
    *, with_pooling: int = 168_572, without_pooling: int = 224_892
) -> Finding:
    counted = image_parameters()
    explained = (
        counted["pooled, unpadded"] == with_pooling
        and counted["strided, padded"] == without_pooling
    )
    same = counted["pooled, padded"] == counted["strided, padded"]
    summary = "; ".join(f"{name}: {count:,}" for name, count in counted.items())
    return Finding(
        verdict="holds" if explained and same else "fails",
        reason=f"{summary}. The counts {with_pooling:,} and {without_pooling:,} are "
        f"{'' if explained else 'not '}those of the pooled network without padding and of the "
        "strided one.",
        values=counted,
        figure=_image_figure(classes=4),
        counter_example=summary,
    )


def image_parameters(*, side: int = 28, classes: int = 4) -> dict[str, int]:
    """Parameters of three variants of the network."""
    variants = {"pooled, padded": (1, 1), "pooled, unpadded": (1, 0), "strided, padded": (0, 1)}
    return {
        name: count_parameters(
            image_classifier(pooled=bool(pooled), padding=padding, side=side, classes=classes)
        )
        for name, (pooled, padding) in variants.items()
    }


def image_classifier(
    *, pooled: bool, padding: int, side: int = 28, classes: int = 4
) -> nn.Sequential:
    """Two 3 × 3 convolutions (1 → 8 → 16), each downsampled by pooling or stride 2; three linear layers."""
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


def _parameters_figure() -> CurveFigure:
    vocabularies = tuple(range(0, 50_001, 5_000))
    millions = tuple(
        parameter_formula(BASE._replace(vocabulary=size)) / 1e6 for size in vocabularies
    )
    return curve_figure(
        "Parameters of the base Transformer by vocabulary size",
        ("vocabulary size", "million parameters"),
        line("parameters", vocabularies, millions),
        line("65 million", (0, 50_000), (65.0, 65.0), dashed=True),
        marks=((BASE_VOCABULARY, "about 37,000"),),
    )


def _days_figure(
    step: StepProfile, *, requested: float, paper: float, max_days: float
) -> CurveFigure:
    seen = tuple(10.0**power for power in range(4, 10))
    return curve_figure(
        "Training time of the base Transformer on this machine",
        ("sentence pairs seen", "days"),
        line("days", seen, [step.days(pairs) for pairs in seen]),
        line("max_days", (seen[0], seen[-1]), (max_days, max_days), dashed=True),
        log="xy",
        marks=((requested, "requested"), (paper, "paper")),
    )


def _image_figure(*, classes: int) -> CurveFigure:
    sides = range(20, 37)
    counts = [image_parameters(side=side, classes=classes) for side in sides]
    return curve_figure(
        "Parameters by image size",
        ("image side", "parameters"),
        *(
            line(name, sides, [count[name] for count in counts], dashed=name == "pooled, padded")
            for name in ("pooled, padded", "strided, padded", "pooled, unpadded")
        ),
        marks=((28.0, "28"),),
    )
