"""Parameter counts of the Transformer and BERT, and the training cost of the base Transformer.

Closed-form counts are compared with models built on torch's meta device. Training cost is extrapolated
from one real training step.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import torch

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
