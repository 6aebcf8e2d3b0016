"""Synthetic tasks: targets, splits and lengths, training, invalid options."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch

from regard.core.errors import RegardError
from regard.data.readers.text_file import RowErrors
from regard.data.synthetic import evaluate_listops, is_balanced
from regard.models import build_model
from regard.models.generation.search import decode
from regard.runs.spec import RunSpec, read_recipe
from regard.tasks import task_class

CLASSIFIED = ("parity", "aa_star", "brackets", "listops", "associative_recall")
TRANSFORMED = ("copy", "reverse")
TARGETS: dict[str, Callable[[str], str]] = {
    "parity": lambda text: ("even", "odd")[text.count("1") % 2],
    "aa_star": lambda text: "yes" if set(text) == {"a"} and len(text) % 2 == 0 else "no",
    "brackets": lambda text: "yes" if is_balanced(text) else "no",
    "listops": lambda text: str(evaluate_listops(text)),
    "associative_recall": lambda text: dict(pairwise(text.split()[:-2]))[text.split()[-1]],
    "copy": str,
    "reverse": lambda text: text[::-1],
}
SMALL = {"num_examples": 400, "num_test_examples": 30, "validation_fraction": 0.2}


def task_of(name: str, **options: Any) -> Any:
    kind = task_class(name)
    return kind.from_options(
        kind.options_class(**{**SMALL, **options}), seed=0, decode=partial(decode, beam_size=1)
    )


def model_for(task: Any, name: str) -> Any:
    torch.manual_seed(0)
    spec = RunSpec.from_sections(read_recipe(name))
    sizes = task.dataset.preprocessor.sizes()
    return build_model(spec.model, **sizes, **{**spec.model_options, "model_dim": 16})


@pytest.mark.parametrize("name", CLASSIFIED + TRANSFORMED)
def test_references_are_correct_and_nothing_leaks(name: str) -> None:
    corpus = task_of(name).dataset
    for split in (corpus.validation, corpus.test):
        assert len(split) > 0
        for source, references in zip(split.inputs, split.references, strict=True):
            target = TARGETS[name](source)
            assert references == ((target,) if name in TRANSFORMED else target)
    assert corpus.leakage["validation"] == 0
    assert len(corpus.test) == 30


@pytest.mark.parametrize("name", CLASSIFIED + TRANSFORMED)
def test_training_lowers_the_loss(name: str) -> None:
    """On one small batch, in evaluation mode: no dropout."""
    task = task_of(name, num_examples=24)
    model = model_for(task, name).eval()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    batch, losses = task.epoch(0)[0], list[float]()
    while len(losses) < 60 and (not losses or losses[-1] >= 0.8 * losses[0]):
        loss = task.loss(model, batch)
        optimizer.zero_grad()
        (loss.total / loss.num_predictions).backward()
        optimizer.step()
        losses.append(loss.total.item() / loss.num_predictions)
    # ten seeds, after all 60 steps: 0.001 to 0.52 of the first; untrained: 1
    assert losses[-1] < 0.8 * losses[0]
    with torch.inference_mode():
        scores = task.evaluate(model)
    assert set(scores) == {metric.name for metric in task.metrics}


def test_lengths_of_the_test_split_and_of_other_splits() -> None:
    task = task_of("parity", longest=8, test_shortest=9, test_longest=12)
    assert {len(text) for text in task.dataset.validation.inputs} <= set(range(1, 9))
    assert {len(text) for text in task.dataset.test.inputs} == {9, 10, 11, 12}
    for text, lengths in (("20-22", {20, 21, 22}), ("5", {5})):
        split = type(task).read_split(
            text, task.options, preprocessor=task.dataset.preprocessor, errors=RowErrors()
        )
        assert {len(source) for source in split.inputs} == lengths
    copied = task_of("copy")
    split = type(copied).read_split(
        "30", copied.options, preprocessor=copied.dataset.preprocessor, errors=RowErrors()
    )
    assert {len(source) for source in split.inputs} == {30}
    assert split.inputs == tuple(references[0] for references in split.references)


def test_data_does_not_depend_on_the_seed_of_the_run() -> None:
    task = task_of("brackets")
    kind, options = type(task), task.options
    other = kind.from_options(options, seed=5, decode=task.decode)
    assert other.dataset.facts() == task.dataset.facts()
    redrawn = kind.from_options(options.replace(data_seed=1), seed=0, decode=task.decode)
    assert redrawn.dataset.facts() != task.dataset.facts()


def test_exact_match() -> None:
    scores = task_class("copy").scores(["abc", "ab"], [("abc",), ("abc",)])
    assert scores == {"exact_match": 50.0}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("parity", {"train_file": "a.tsv"}, r"task.train_file='a.tsv'"),
        ("copy", {"train_file": "a.tsv"}, r"task.train_file='a.tsv'"),
        ("parity", {"shortest": 9, "longest": 8}, r"task.shortest=9 is more than task.longest=8"),
        ("parity", {"num_examples": 0}, r"task.num_examples=0: it must"),
        ("parity", {"test_longest": 600}, r"length 600 has 602 tokens, but task.max_length is 512"),
        ("associative_recall", {"keys": 10}, r"pairs need as many keys, but keys=10"),
        ("aa_star", {"b_fraction": 1.0}, r"task.b_fraction=1.0: it must"),
    ],
)
def test_invalid_options(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        task_of(name, **options)
