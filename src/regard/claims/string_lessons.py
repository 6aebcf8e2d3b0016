"""Small models taught drawn strings of growing length, and how they do on longer ones.

A lesson is a task on drawn strings, a model, and stages: the greatest length of each. What is learned is
kept, so that several claims may ask the same pupils.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from regard.core.claim_record import Curve
from regard.core.text_batch import TextBatch
from regard.data.bad_rows import BadRows
from regard.models import build_model
from regard.models.decoding import decode
from regard.tasks import task_class
from regard.tasks.held_out import HeldOut
from regard.tasks.text_batches import plain_batch

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
