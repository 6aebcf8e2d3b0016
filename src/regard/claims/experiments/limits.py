"""Experiments on limits of Transformers: curriculum training on PARITY and brackets, sensitivity, recall.

Small Transformers and LSTMs are trained on synthetic strings of increasing length (a curriculum) and tested
on longer ones. Trained models are cached, so that several claims share them. Associative recall is tested
without training: each key is a query, and recalled if the output is nearest to its own value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from regard.claims.engine import curve_figure, line
from regard.claims.experiments.parity_transformer import LengthResult
from regard.core.batches import END, START, Batch, TokenInput
from regard.core.errors import RegardError
from regard.core.records.claim import Curve, CurveFigure
from regard.data.readers.text_file import Row, RowErrors
from regard.data.splits import EvalSplit
from regard.data.synthetic import Brackets, SyntheticExamples, nesting_depth
from regard.data.tokenizers.vocabulary import FIRST_TOKEN
from regard.mechanisms import build_mechanism
from regard.models import build_model
from regard.models.generation.search import decode
from regard.tasks import task_class

CONVERGED_BATCHES = 30  # consecutive batches below the loss threshold that end a stage
BATCH_SIZE = 128
DECAY_FRACTION = 0.3  # fraction of a stage at its end with linear learning-rate decay to zero
MAX_GRADIENT_NORM = 1.0

Settings = tuple[tuple[str, Any], ...]  # hashable options


@dataclass(frozen=True, kw_only=True)
class TrainingSetup:
    """Task, model and curriculum; `stages` are maximum lengths, each trained for at most `steps`.

    A stage ends early when `CONVERGED_BATCHES` consecutive batches have a mean loss below `loss_threshold`.
    """

    task: str
    model: str
    model_options: Settings
    stages: tuple[int, ...]
    task_options: Settings = ()
    steps: int = 1500
    learning_rate: float = 3e-3
    loss_threshold: float = 0.01
    seed: int = 0


class TrainedModel(NamedTuple):
    """A trained model, the task of its last stage, and the number of steps."""

    task: Any
    model: nn.Module
    steps: int

    def accuracy(self, split: EvalSplit) -> float:
        """Accuracy on a split."""
        with torch.inference_mode():
            return float(self.task.evaluate_on(self.model, split).scores["accuracy"]) / 100

    def accuracy_at(self, length: int) -> float:
        """Accuracy on new strings of one length."""
        kind, options = type(self.task), self.task.options
        split = kind.read_split(
            str(length),
            options,
            preprocessor=self.task.dataset.preprocessor,
            errors=RowErrors(),
        )
        return self.accuracy(split)


@cache
def trained_model(setup: TrainingSetup) -> TrainedModel:
    """Train a model; cached per setup."""
    kind = task_class(setup.task)
    values = {**dict(setup.task_options), "longest": setup.stages[-1], "data_seed": setup.seed}
    options = kind.options_class(**values)
    task = kind.from_options(options, seed=setup.seed, decode=decode)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(setup.seed)
        sizes = task.dataset.preprocessor.sizes()
        model = build_model(setup.model, **sizes, **dict(setup.model_options))
    optimizer = torch.optim.Adam(model.parameters(), lr=setup.learning_rate, fused=True)
    total = sum(
        _stage(model, optimizer, task, setup, number) for number in range(len(setup.stages))
    )
    return TrainedModel(task, model.eval(), total)


def _stage(
    model: nn.Module, optimizer: torch.optim.Optimizer, task: Any, setup: TrainingSetup, number: int
) -> int:
    """Train one stage; return its number of steps."""
    generator = np.random.default_rng([setup.seed, number])
    batches = _batches(task, longest=setup.stages[number], generator=generator)
    converged = done = 0
    model.train()
    while done < setup.steps and converged < CONVERGED_BATCHES:
        for group in optimizer.param_groups:
            remaining = 1 - done / setup.steps
            group["lr"] = setup.learning_rate * min(1.0, remaining / DECAY_FRACTION)
        optimizer.zero_grad()
        loss = task.loss(model, next(batches))
        mean = loss.total / loss.num_predictions
        mean.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
        optimizer.step()
        done += 1
        converged = converged + 1 if mean.item() < setup.loss_threshold else 0
    return done


def _batches(task: Any, *, longest: int, generator: np.random.Generator) -> Iterator[Batch]:
    """Infinite batches of strings up to a length.

    Lengths are mixed, unlike in `task.epoch`: batches of one length make training unstable.
    """
    train = task.dataset.train
    tokens = task.generator(task.options).num_tokens(longest)
    eligible = np.flatnonzero(train.inputs.lengths <= tokens)
    while True:
        order = generator.permutation(eligible)
        for first in range(0, len(order), BATCH_SIZE):
            yield train.collate(order[first : first + BATCH_SIZE])


def curve_with_band(
    label: str, xs: Sequence[int], of_seeds: Sequence[Sequence[float]], *, dashed: bool = False
) -> Curve:
    """Mean over seeds with a band from minimum to maximum."""
    columns = list(zip(*of_seeds, strict=True))
    return line(
        label,
        xs,
        [math.fsum(column) / len(column) for column in columns],
        low=[min(column) for column in columns],
        high=[max(column) for column in columns],
        dashed=dashed,
    )


BRACKET_STRINGS = 20_000
DEPTH = 4  # maximum nesting depth in training
SOFTMAX, LINEAR, LSTM = "softmax Transformer", "linear Transformer (elu + 1)", "LSTM"
MODEL_KINDS = (SOFTMAX, LINEAR, LSTM)
MIN_PARITY_LENGTH = 4  # there are too few shorter strings for a test split
MIN_BRACKET_LENGTH = 2 * (DEPTH + 1)  # of brackets nested deeper than DEPTH

TRANSFORMER_OPTIONS: dict[str, Any] = {
    "model_dim": 32,
    "num_heads": 4,
    "num_layers": 2,
    "feed_forward_dim": 64,
    "dropout": 0.0,
    "norm_first": True,
    "embedding_scaled": True,
    "pretraining_heads": False,
}
# Dropout makes the LSTM state robust; without it, one in a thousand long strings is misclassified.
LSTM_OPTIONS: dict[str, Any] = {
    "model_dim": 8,
    "pooling": "last",
    "dropout": 0.2,
    "word_dropout": 0.0,
}
LSTM_STEPS = 400  # per stage

OVERSAMPLING = 40  # strings generated per string kept at one depth


def parity_model(kind: str, *, longest: int, steps: int, seed: int) -> TrainedModel:
    """Train on PARITY up to this length, without positional encodings."""
    return trained_model(
        TrainingSetup(
            task="parity",
            task_options=_settings(num_examples=8000),
            # Transformers relearn parity at every length, so more stages do not help.
            stages=_stages(longest) if kind == LSTM else (longest // 2, longest),
            seed=seed,
            **_model(kind, position="none", hidden_dim=16, steps=steps),
        )
    )


def bracket_model(kind: str, *, longest: int, steps: int, seed: int) -> TrainedModel:
    """Train on two kinds of brackets up to this length and nesting depth `DEPTH`."""
    return trained_model(
        TrainingSetup(
            task="brackets",
            task_options=_settings(num_examples=BRACKET_STRINGS, kinds=2, depth=DEPTH),
            stages=_stages(longest) if kind == LSTM else (longest // 2, longest),
            seed=seed,
            **_model(kind, position="rotary", hidden_dim=32, steps=steps),
        )
    )


def nested(length: int, depth: int, *, count: int = 400) -> EvalSplit:
    """Bracket strings of one length and exactly this nesting depth; half of them balanced."""
    examples = SyntheticExamples(
        generator=Brackets(kinds=2, depth=depth),
        shortest=length,
        longest=length,
        count=OVERSAMPLING * count,
        seed=1,
    )
    kept: dict[str, list[Row]] = {"yes": [], "no": []}
    for row in examples.rows(errors=RowErrors()):
        if nesting_depth(row.input) == depth:
            kept[row.target].append(row)
    per_class = min(count // 2, *(len(rows) for rows in kept.values()))
    return EvalSplit.of([*kept["yes"][:per_class], *kept["no"][:per_class]])


def _stages(longest: int) -> tuple[int, ...]:
    """Curriculum of doubling lengths.

    >>> _stages(12)
    (2, 4, 8, 12)
    """
    powers = (2**power for power in range(1, longest.bit_length()))
    return tuple(sorted({*powers, longest}))


def _model(kind: str, *, position: str, hidden_dim: int, steps: int) -> dict[str, Any]:
    if kind == LSTM:
        return {
            "model": "bilstm",
            "model_options": _settings(**LSTM_OPTIONS, hidden_dim=hidden_dim),
            "learning_rate": 1e-2,
            # The margin still grows after convergence: no early stopping.
            "steps": min(steps, LSTM_STEPS),
            "loss_threshold": 0.0,
        }
    mechanism = "scaled_dot" if kind == SOFTMAX else "elu"
    return {
        "model": "text_encoder",
        "model_options": _settings(**TRANSFORMER_OPTIONS, position=position, mechanism=mechanism),
        "learning_rate": 2e-3,
        "steps": steps,
    }


def _settings(**options: Any) -> Settings:
    return tuple(options.items())


BITS = (FIRST_TOKEN, FIRST_TOKEN + 1)
CHANGED_POSITIONS = 16  # evenly spaced positions at which the symbol is changed


def untrained(name: str, *, seed: int, attention_gain: float = 1.0, **options: Any) -> Any:
    """An untrained model of two symbols and two classes, in float64.

    `attention_gain` multiplies the query and key projections, which makes attention less uniform.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = build_model(name, source=FIRST_TOKEN + 2, outputs=2, **options)
    for layer in getattr(model, "blocks", ()):
        projection = layer.attention.projection
        widths = projection.sizes.query_width + projection.sizes.key_width
        with torch.no_grad():
            projection.linear.weight[:widths] *= attention_gain
    return model.double().eval()


def largest_change(model: Any, *, length: int, strings: int = 4) -> float:
    """Largest change of any logit when one symbol changes; mean over random strings."""
    generator = torch.Generator().manual_seed(length)
    positions = sorted(
        {round(position) for position in np.linspace(0, length - 1, CHANGED_POSITIONS).tolist()}
    )
    changes = []
    for _ in range(strings):
        rows = torch.randint(0, 2, (1, length), generator=generator).repeat(len(positions) + 1, 1)
        rows[range(1, len(rows)), positions] ^= 1
        ends = torch.ones(len(rows), 1, dtype=torch.int64)
        tokens = torch.cat([START * ends, torch.tensor(BITS)[rows], END * ends], dim=1)
        with torch.inference_mode():
            lengths = torch.full((len(rows),), length + 2)
            logits = model.classify(TokenInput(tokens, lengths)).logits
        changes.append(float((logits[1:] - logits[:1]).abs().max()))
    return sum(changes) / strings


def slope(xs: Sequence[int], ys: Sequence[float]) -> float:
    """The exponent p of a least-squares fit y ∝ xᵖ in log-log space.

    >>> round(slope([1, 2, 4], [8.0, 2.0, 0.5]), 6)
    -2.0
    """
    return float(np.polyfit(np.log(xs), np.log(ys), 1)[0])


SHARPNESS = (
    0.5,
    2.0,
    8.0,
    32.0,
    128.0,
)  # of q·k for matching query and key; the best is chosen for each number of pairs


@dataclass(frozen=True)
class MemoryModel:
    """A mechanism with its options and its label in the figure."""

    label: str
    mechanism: str
    options: dict[str, Any] = field(default_factory=dict)

    def build(self, key_dim: int) -> Any:
        """The mechanism for keys of this size."""
        return build_mechanism(self.mechanism, query_dim=key_dim, key_dim=key_dim, **self.options)

    def features(self, key_dim: int) -> int:
        """Number of features, the rows of the state; 0 if all pairs are stored."""
        kernel = getattr(self.build(key_dim), "kernel", None)
        return 0 if kernel is None else int(kernel.num_features(key_dim))


SOFTMAX_MEMORY = MemoryModel("softmax", "dot")
KERNELS = (
    MemoryModel("elu + 1", "elu"),
    MemoryModel("Taylor, 2 terms", "taylor", {"num_terms": 2, "scale": 1.0}),
    MemoryModel("Taylor, 3 terms", "taylor", {"num_terms": 3, "scale": 1.0}),
)


def recall_accuracy(
    memory: MemoryModel, *, pairs: int, key_dim: int, value_dim: int, seed: int, samples: int = 3
) -> float:
    """Fraction of pairs that are recalled, mean over `samples` sets of random pairs."""
    mechanism = memory.build(key_dim)
    generator = torch.Generator().manual_seed(seed)
    accuracies = torch.zeros(samples, len(SHARPNESS), dtype=torch.float64)
    for sample in range(samples):
        keys = torch.randn(pairs, key_dim, generator=generator, dtype=torch.float64)
        keys = keys / keys.norm(dim=-1, keepdim=True)
        signs = torch.randint(0, 2, (pairs, value_dim), generator=generator)
        values = 2.0 * signs.double() - 1.0
        for index, sharpness in enumerate(SHARPNESS):
            queries = (sharpness**0.5 * keys)[None, None]
            outputs = mechanism(queries, queries, values[None, None])[0, 0]
            nearest = (outputs @ values.T).argmax(dim=-1)
            accuracies[sample, index] = (nearest == torch.arange(pairs)).double().mean()
    return float(accuracies.mean(dim=0).max())


def validate_max_pairs(capacity: Mapping[str, int], *, max_pairs: int) -> None:
    """Raise an error if max_pairs does not exceed the capacity of every kernel."""
    label, pairs = max(capacity.items(), key=lambda entry: entry[1])
    if pairs > max_pairs:
        raise RegardError(
            f"max_pairs={max_pairs}: {label} needs {pairs} pairs. Use max_pairs={pairs}, or a smaller "
            "key_dim."
        )


Scores = Mapping[str, Sequence[Sequence[float]]]  # model → seed → accuracies


def margin_figure(runs: Mapping[str, Sequence[LengthResult]]) -> CurveFigure:
    """Smallest score difference (margin) by length."""
    return curve_figure(
        "Margin of the PARITY Transformer",
        ("length n", "smallest difference of the two scores"),
        *(
            line(label, [each.length for each in results], [each.margin for each in results])
            for label, results in runs.items()
        ),
        log="xy",
    )


def scores_figure(
    title: str, x_label: str, x: Sequence[int], scores: Scores, trained_to: int
) -> CurveFigure:
    """Accuracy of each model: mean over seeds, with a band from minimum to maximum."""
    return curve_figure(
        title,
        (x_label, "accuracy"),
        *(curve_with_band(label, x, rows) for label, rows in scores.items()),
        marks=((trained_to, "training limit"),),
    )
