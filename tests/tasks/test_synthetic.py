"""Tasks on drawn strings: they are trained, developed on at their lengths, and tested on longer strings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from regard.core.errors import RegardError
from regard.data.readers.text_file import BadRows
from regard.data.synthetic import is_balanced, recalled, value_of
from regard.models import build_model
from regard.models.generation.search import decode
from regard.runs.spec import RunSpec, read_recipe
from regard.tasks import task_class

LABELLED = ("parity", "even_as", "brackets", "listops", "associate")
WRITTEN = ("copy", "reverse")
ANSWERS: dict[str, Callable[[str], str]] = {
    "parity": lambda text: ("even", "odd")[text.count("1") % 2],
    "even_as": lambda text: "yes" if set(text) == {"a"} and len(text) % 2 == 0 else "no",
    "brackets": lambda text: "yes" if is_balanced(text) else "no",
    "listops": lambda text: str(value_of(text)),
    "associate": recalled,
    "copy": str,
    "reverse": lambda text: text[::-1],
}
SMALL = {"strings": 400, "test_strings": 30, "validation_share": 0.2}


def task_of(name: str, **options: Any) -> Any:
    kind = task_class(name)
    return kind.from_options(
        kind.options_class(**{**SMALL, **options}), seed=0, decode=partial(decode, beam_size=1)
    )


def model_for(task: Any, name: str) -> Any:
    torch.manual_seed(0)
    spec = RunSpec.from_sections(read_recipe(name))
    sizes = task.corpus.vocabularies.sizes()
    return build_model(spec.model, **sizes, **{**spec.model_options, "model_dim": 16})


@pytest.mark.parametrize("name", LABELLED + WRITTEN)
def test_answers_are_right_and_no_held_out_string_is_learned(name: str) -> None:
    corpus = task_of(name).corpus
    for part in (corpus.validation, corpus.test):
        assert len(part) > 0
        for source, answers in zip(part.sources, part.answers, strict=True):
            assert answers == (ANSWERS[name](source),)
    assert corpus.learned_too["validation"] == 0
    assert len(corpus.test) == 30


@pytest.mark.parametrize("name", LABELLED + WRITTEN)
def test_a_few_steps_lower_the_loss(name: str) -> None:
    """Of one small batch, without dropout: the loss differs by what is learned and nothing else."""
    task = task_of(name, strings=24)
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
    assert set(scores) == set(task.metrics)


def test_the_test_part_is_longer_and_other_lengths_can_be_asked_for() -> None:
    task = task_of("parity", longest=8, test_shortest=9, test_longest=12)
    assert {len(text) for text in task.corpus.validation.sources} <= set(range(1, 9))
    assert {len(text) for text in task.corpus.test.sources} == {9, 10, 11, 12}
    for text, lengths in (("20-22", {20, 21, 22}), ("5", {5})):
        part = type(task).held_out(text, task.options, bad=BadRows())
        assert {len(source) for source in part.sources} == lengths
    copied = task_of("copy")
    part = type(copied).held_out("30", copied.options, bad=BadRows())
    assert {len(source) for source in part.sources} == {30}
    assert part.sources == tuple(answers[0] for answers in part.answers)


def test_strings_follow_from_the_options_and_not_from_the_seed_of_the_run() -> None:
    task = task_of("brackets")
    kind, options = type(task), task.options
    other = kind.from_options(options, seed=5, decode=task.decode)
    assert other.corpus.facts() == task.corpus.facts()
    drawn_anew = kind.from_options(replace(options, drawn_from=1), seed=0, decode=task.decode)
    assert drawn_anew.corpus.facts() != task.corpus.facts()


def test_a_whole_answer_counts_or_nothing() -> None:
    scores = task_class("copy").scores(["abc", "ab"], [["abc"], ["abc"]])
    assert scores == {"exact_match": 50.0}


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("parity", {"labels": "a.tsv"}, r"task.labels='a.tsv': the strings of this task are drawn"),
        ("copy", {"pairs": "a.tsv"}, r"task.pairs='a.tsv': the strings of this task are drawn"),
        ("parity", {"shortest": 9, "longest": 8}, r"task.shortest=9 is more than task.longest=8"),
        ("parity", {"strings": 0}, r"task.strings=0: it must be 1 or more"),
        (
            "parity",
            {"test_longest": 600},
            r"length 600 takes 602 places, but task.max_length is 512",
        ),
        ("associate", {"keys": 10}, r"pairs need as many keys, but keys=10"),
        ("even_as", {"b_share": 1.0}, r"task.b_share=1.0: it must be from 0 to below 1"),
    ],
)
def test_what_makes_no_strings_is_refused(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(RegardError, match=said):
        task_of(name, **options)
