"""The pupils of the claims about limits: small Transformers and LSTMs, taught drawn strings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from regard.claims.experiments.parity_transformer import AtLength
from regard.core.batches import END, START, TextBatch
from regard.core.errors import RegardError
from regard.core.records.claim import Curve, CurvePicture
from regard.data.readers.text_file import BadRows
from regard.data.splits import HeldOut
from regard.data.synthetic import Brackets, DrawnLabels, depth_of
from regard.data.tokenizers.vocabulary import FIRST_TOKEN
from regard.mechanisms import build_mechanism
from regard.models import build_model
from regard.models.generation.search import decode
from regard.tasks import task_class
from regard.tasks.text_task import plain_batch

# Small models taught drawn strings of growing length, and how they do on longer ones.
#
# A lesson is a task on drawn strings, a model, and stages: the greatest length of each. What is
# learned is kept, so that several claims may ask the same pupils.


SURE_BATCHES = 30
BATCH = 128
FALLING = 0.3  # the last share of a stage's steps, in which the learning rate falls to zero
CLIP = 1.0

Settings = tuple[tuple[str, Any], ...]  # options by name, in a form that can be remembered


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What is taught to which model; `stages` are greatest lengths, each for `steps` at most.

    A batch is known if its mean loss is below `sure`; a stage ends when so many in turn are.
    """

    task: str
    model: str
    model_options: Settings
    stages: tuple[int, ...]
    task_options: Settings = ()
    steps: int = 1500
    learning_rate: float = 3e-3
    sure: float = 0.01
    seed: int = 0


class Pupil(NamedTuple):
    """A taught model, the task of its last stage, and the steps it took."""

    task: Any
    model: nn.Module
    steps: int

    def accuracy(self, part: HeldOut) -> float:
        """The share of right answers."""
        with torch.inference_mode():
            return float(self.task.assess_on(self.model, part).scores["accuracy"]) / 100

    def accuracy_at(self, length: int) -> float:
        """The share of right answers on fresh strings of one length."""
        kind, options = type(self.task), self.task.options
        return self.accuracy(kind.held_out(str(length), options, bad=BadRows()))


@cache
def taught(lesson: Lesson) -> Pupil:
    """The model after its lesson: a function of the lesson alone."""
    kind = task_class(lesson.task)
    words = {**dict(lesson.task_options), "longest": lesson.stages[-1], "drawn_from": lesson.seed}
    options = kind.options_class(**words)
    task = kind.from_options(options, seed=lesson.seed, decode=decode)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(lesson.seed)
        sizes = task.corpus.vocabularies.sizes()
        model = build_model(lesson.model, **sizes, **dict(lesson.model_options))
    optimizer = torch.optim.Adam(model.parameters(), lr=lesson.learning_rate, fused=True)
    total = sum(
        _stage(model, optimizer, task, lesson, number) for number in range(len(lesson.stages))
    )
    return Pupil(task, model.eval(), total)


def _stage(
    model: nn.Module, optimizer: torch.optim.Optimizer, task: Any, lesson: Lesson, number: int
) -> int:
    """Teach the strings up to this stage's length; how many steps that took."""
    chance = np.random.default_rng([lesson.seed, number])
    batches = _batches(task, longest=lesson.stages[number], chance=chance)
    sure = done = 0
    model.train()
    while done < lesson.steps and sure < SURE_BATCHES:
        for group in optimizer.param_groups:
            left = 1 - done / lesson.steps
            group["lr"] = lesson.learning_rate * min(1.0, left / FALLING)
        optimizer.zero_grad()
        loss = task.loss(model, next(batches))
        mean = loss.total / loss.num_predictions
        mean.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        done += 1
        sure = sure + 1 if mean.item() < lesson.sure else 0
    return done


def _batches(task: Any, *, longest: int, chance: np.random.Generator) -> Iterator[TextBatch]:
    """Batches without end of the strings up to a length.

    Lengths are mixed, unlike in the batches of `task.epoch`: what is learned of one length is else
    unlearned by a batch of another.
    """
    rows = task.corpus.train
    fitting = np.flatnonzero(rows.store.source_lengths <= task.rule(task.options).tokens(longest))
    while True:
        order = chance.permutation(fitting)
        for first in range(0, len(order), BATCH):
            yield plain_batch(rows, order[first : first + BATCH])


def curve_with_band(
    label: str, xs: Sequence[int], of_seeds: Sequence[Sequence[float]], *, dashed: bool = False
) -> Curve:
    """The mean over seeds, between the least and the greatest of them."""
    columns = list(zip(*of_seeds, strict=True))
    return Curve(
        label=label,
        x=tuple(float(x) for x in xs),
        y=tuple(math.fsum(column) / len(column) for column in columns),
        low=tuple(min(column) for column in columns),
        high=tuple(max(column) for column in columns),
        dashed=dashed,
    )


BRACKET_STRINGS = 20_000
DEPTH = 4  # to which brackets are nested in what is taught
SOFTMAX, LINEAR, LSTM = "softmax Transformer", "linear Transformer (elu + 1)", "LSTM"
PUPILS = (SOFTMAX, LINEAR, LSTM)
LEAST_PARITY = 4  # of shorter strings there are too few to hold some out
LEAST_BRACKETS = 2 * (DEPTH + 1)  # brackets deeper than those taught take so many places

ENCODER: dict[str, Any] = {
    "model_dim": 32,
    "num_heads": 4,
    "num_layers": 2,
    "feed_forward_dim": 64,
    "dropout": 0.0,
    "norm_first": True,
    "embedding_scaled": True,
    "pretraining_heads": False,
}
# Dropout makes it sure of its state; without it, one string in a thousand goes wrong when it is long.
LAYER: dict[str, Any] = {"model_dim": 8, "take": "last", "dropout": 0.2, "word_dropout": 0.0}
LSTM_STEPS = 400  # a stage

NESTED_TRIED = 40  # times as many strings are drawn as are kept of one depth


def parity_pupil(kind: str, *, longest: int, steps: int, seed: int) -> Pupil:
    """Taught PARITY to this length.

    Without positions, since the answer is a function of two numbers then, and not of every string.
    """
    return taught(
        Lesson(
            task="parity",
            task_options=_settings(strings=8000),
            # A Transformer learns what is even anew for every length: shorter stages only cost time.
            stages=_stages(longest) if kind == LSTM else (longest // 2, longest),
            seed=seed,
            **_model(kind, position="none", hidden_dim=16, steps=steps),
        )
    )


def bracket_pupil(kind: str, *, longest: int, steps: int, seed: int) -> Pupil:
    """Taught two kinds of brackets, `DEPTH` deep, to this length."""
    return taught(
        Lesson(
            task="brackets",
            task_options=_settings(strings=BRACKET_STRINGS, kinds=2, depth=DEPTH),
            stages=_stages(longest) if kind == LSTM else (longest // 2, longest),
            seed=seed,
            **_model(kind, position="rotary", hidden_dim=32, steps=steps),
        )
    )


def nested(length: int, depth: int, *, count: int = 400) -> HeldOut:
    """Strings of brackets of one length in which exactly so many are open at once.

    As many are balanced as are not: a pupil that always gives the same answer is right about half.
    """
    drawn = DrawnLabels(
        rule=Brackets(kinds=2, depth=depth),
        shortest=length,
        longest=length,
        count=NESTED_TRIED * count,
        seed=1,
    )
    kept: dict[str, list[tuple[str, str]]] = {"yes": [], "no": []}
    for row in drawn.rows(bad=BadRows()):
        if depth_of(row.text) == depth:
            kept[row.label].append((row.text, row.label))
    of_each = min(count // 2, *(len(rows) for rows in kept.values()))
    return HeldOut.of([*kept["yes"][:of_each], *kept["no"][:of_each]], group=False)


def _stages(longest: int) -> tuple[int, ...]:
    """Short strings first, then ever twice as long ones.

    >>> _stages(12)
    (2, 4, 8, 12)
    """
    powers = (2**power for power in range(1, longest.bit_length()))
    return tuple(sorted({*powers, longest}))


def _model(kind: str, *, position: str, hidden_dim: int, steps: int) -> dict[str, Any]:
    if kind == LSTM:
        return {
            "model": "recurrent_text",
            "model_options": _settings(**LAYER, hidden_dim=hidden_dim),
            "learning_rate": 1e-2,
            # It knows soon, and becomes sure after that: so it is never stopped early.
            "steps": min(steps, LSTM_STEPS),
            "sure": 0.0,
        }
    mechanism = "scaled_dot" if kind == SOFTMAX else "elu"
    return {
        "model": "text_encoder",
        "model_options": _settings(**ENCODER, position=position, mechanism=mechanism),
        "learning_rate": 2e-3,
        "steps": steps,
    }


def _settings(**options: Any) -> Settings:
    return tuple(options.items())


# How much one symbol of a string can change what a model says, by the length of the string.


BITS = (FIRST_TOKEN, FIRST_TOKEN + 1)
TRIED = 16  # places at which the symbol is changed, evenly spread


def untrained(name: str, *, seed: int, attention_gain: float = 1.0, **options: Any) -> Any:
    """A model of two symbols and two classes with weights as drawn, in float64.

    `attention_gain` multiplies what queries and keys are made with, so that attention is less even.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = build_model(name, vocabulary=FIRST_TOKEN + 2, classes=2, **options)
    for layer in getattr(model, "blocks", ()):
        projection = layer.attention.projection
        widths = projection.sizes.query_width + projection.sizes.key_width
        with torch.no_grad():
            projection.linear.weight[:widths] *= attention_gain
    return model.double().eval()


def largest_change(model: Any, *, length: int, strings: int = 4) -> float:
    """The greatest change of any score by one symbol of a random string; the mean over some strings."""
    generator = torch.Generator().manual_seed(length)
    places = sorted({round(place) for place in np.linspace(0, length - 1, TRIED).tolist()})
    changes = []
    for _ in range(strings):
        rows = torch.randint(0, 2, (1, length), generator=generator).repeat(len(places) + 1, 1)
        rows[range(1, len(rows)), places] ^= 1
        ends = torch.ones(len(rows), 1, dtype=torch.int64)
        tokens = torch.cat([START * ends, torch.tensor(BITS)[rows], END * ends], dim=1)
        with torch.inference_mode():
            logits = model.classified(tokens, torch.full((len(rows),), length + 2)).logits
        changes.append(float((logits[1:] - logits[:1]).abs().max()))
    return sum(changes) / strings


def slope(xs: Sequence[int], ys: Sequence[float]) -> float:
    """The power p of the best y ∝ xᵖ.

    >>> round(slope([1, 2, 4], [8.0, 2.0, 0.5]), 6)
    -2.0
    """
    return float(np.polyfit(np.log(xs), np.log(ys), 1)[0])


# How many pairs attention gives back when each is asked for by its key, with nothing learned.
#
# Keys are random unit vectors and values random signs. Each key asks, and counts as recalled if
# what is read is nearest to its own value. How sharply is asked is chosen anew for each number of
# pairs, in favour of each mechanism.


SHARPNESS = (0.5, 2.0, 8.0, 32.0, 128.0)  # of q·k for a key asked for by itself


@dataclass(frozen=True)
class Memory:
    """A mechanism of the table with its options, by the name it has in the picture."""

    label: str
    mechanism: str
    options: dict[str, Any] = field(default_factory=dict)

    def build(self, width: int) -> Any:
        """The mechanism for keys of this width."""
        return build_mechanism(self.mechanism, query_dim=width, key_dim=width, **self.options)

    def features(self, width: int) -> int:
        """The rows of its state; none where every pair is kept."""
        kernel = getattr(self.build(width), "kernel", None)
        return 0 if kernel is None else int(kernel.num_features(width))


EVERYTHING = Memory("softmax", "dot")
KERNELS = (
    Memory("elu + 1", "elu"),
    Memory("Taylor, 2 terms", "taylor", {"num_terms": 2, "scale": 1.0}),
    Memory("Taylor, 3 terms", "taylor", {"num_terms": 3, "scale": 1.0}),
)


def recalled_share(
    memory: Memory, *, pairs: int, width: int, value_width: int, seed: int, draws: int = 3
) -> float:
    """The share of pairs that are given back, in the mean over `draws` sets of pairs."""
    mechanism = memory.build(width)
    generator = torch.Generator().manual_seed(seed)
    shares = torch.zeros(draws, len(SHARPNESS), dtype=torch.float64)
    for draw in range(draws):
        keys = torch.randn(pairs, width, generator=generator, dtype=torch.float64)
        keys = keys / keys.norm(dim=-1, keepdim=True)
        signs = torch.randint(0, 2, (pairs, value_width), generator=generator)
        values = 2.0 * signs.double() - 1.0
        for place, sharpness in enumerate(SHARPNESS):
            asked = (sharpness**0.5 * keys)[None, None]
            read = mechanism(asked, asked, values[None, None])[0, 0]
            nearest = (read @ values.T).argmax(dim=-1)
            shares[draw, place] = (nearest == torch.arange(pairs)).double().mean()
    return float(shares.mean(dim=0).max())


def require_room(full: Mapping[str, int], *, most: int) -> None:
    """Refuse to stop before the state of every kernel is full."""
    label, pairs = max(full.items(), key=lambda entry: entry[1])
    if pairs > most:
        raise RegardError(
            f"most={most}: {label} is asked for {pairs} pairs. Use most={pairs}, or a smaller width."
        )


# The pictures of the claims about limits.


Scores = Mapping[str, Sequence[Sequence[float]]]  # who → seed by seed → a score for each place


def influence_picture(lengths: Sequence[int], changes: Sequence[Sequence[float]]) -> CurvePicture:
    """The change by length, beside 1/n."""
    first = max(row[0] for row in changes)
    guide = tuple(first * lengths[0] / n for n in lengths)
    return CurvePicture(
        title="How far one symbol of n moves a score",
        x_label="length n",
        y_label="greatest change",
        x_scale="log",
        y_scale="log",
        curves=(
            curve_with_band("Transformers with weights as drawn", lengths, changes),
            Curve(label="1/n", x=tuple(map(float, lengths)), y=guide, dashed=True),
        ),
    )


def margin_picture(runs: Mapping[str, Sequence[AtLength]]) -> CurvePicture:
    """The least difference of the two scores over the strings of each length."""
    return CurvePicture(
        title="How sure the machine for PARITY is",
        x_label="length n",
        y_label="least difference of the two scores",
        x_scale="log",
        y_scale="log",
        curves=tuple(
            Curve(
                label=label,
                x=tuple(float(run.length) for run in some),
                y=tuple(run.margin for run in some),
            )
            for label, some in runs.items()
        ),
    )


def weight_picture(
    lengths: Sequence[int], plain: Sequence[float], scaled: Sequence[float]
) -> CurvePicture:
    """The weight of the place that is meant."""
    x = tuple(map(float, lengths))
    return CurvePicture(
        title="The weight of the place that is meant",
        x_label="length n",
        y_label="weight",
        x_scale="log",
        y_scale="log",
        curves=(
            Curve(label="scores as they are", x=x, y=tuple(plain)),
            Curve(label="scores times log n", x=x, y=tuple(scaled)),
        ),
    )


def recall_picture(
    numbers: Sequence[int], shares: Mapping[str, Sequence[float]], width: int
) -> CurvePicture:
    """The share of pairs given back; upright lines where the features of a kernel are used up."""
    return CurvePicture(
        title=f"Pairs given back by their keys of width {width}",
        x_label="pairs",
        y_label="share given back",
        x_scale="log",
        curves=tuple(
            Curve(label=label, x=tuple(map(float, numbers)), y=tuple(row))
            for label, row in shares.items()
        ),
        marks=tuple(
            (float(kernel.features(width)), f"features of {kernel.label}") for kernel in KERNELS
        ),
    )


def scores_picture(
    title: str, x_label: str, places: Sequence[int], scores: Scores, taught_to: int
) -> CurvePicture:
    """Accuracy of each pupil, mean of seeds between the least and the greatest."""
    return CurvePicture(
        title=title,
        x_label=x_label,
        y_label="share of right answers",
        curves=tuple(curve_with_band(label, places, rows) for label, rows in scores.items()),
        marks=((float(taught_to), "taught to here"),),
    )
