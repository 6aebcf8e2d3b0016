"""Pictures of the same sources, variant by variant: which sources, and what is kept of their maps."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from tests.factories.untrained_runs import untrained_run

from regard.core.records.attention import AlignmentRecord
from regard.runs.load import TrainedRun
from regard.studies.attention import middling, shared_pictures, small

WORDS = [*("a" * length for length in (1, 2, 2)), "cat", "dog", "cats", "dogs", "b" * 20, "c" * 30]

MODELS: dict[str, dict[str, Any]] = {
    "before": {"mechanism": "additive", "wiring": "before"},
    "none": {"mechanism": "none"},
    "transformer": {
        "name": "transformer",
        "model_dim": 8,
        "num_heads": 4,
        "num_layers": 2,
        "feed_forward_dim": 8,
        "tie": "target",
    },
}


@pytest.fixture(scope="module")
def variants() -> dict[str, TrainedRun]:
    return {name: untrained_run(**model) for name, model in MODELS.items()}


def test_variants_without_attention_are_left_out(variants: dict[str, TrainedRun]) -> None:
    pictures = shared_pictures(variants, ["abc", "fade", "bead", "cafe"], count=2)
    assert [set(picture.alignments) for picture in pictures] == [{"before", "transformer"}] * 2
    for picture in pictures:
        for alignment in picture.alignments.values():
            assert alignment.source_tokens == (*picture.source, "<end>")
    assert shared_pictures({"none": variants["none"]}, ["abc"]) == ()


def test_a_picture_is_what_the_run_shows_but_smaller(variants: dict[str, TrainedRun]) -> None:
    (picture,) = shared_pictures(variants, ["fade"])
    whole, kept = variants["before"].alignment("fade"), picture.alignments["before"]
    assert kept.title == whole.title
    assert kept.maps["cross/0"][0][0] == pytest.approx(whole.maps["cross/0"][0][0], abs=5e-5)
    assert list(picture.alignments["transformer"].maps) == [
        "cross/0, mean of 4 heads",
        "cross/1, mean of 4 heads",
    ]
    digits = [text for text in json.dumps(asdict(picture)).split() if text.startswith("0.")]
    assert digits
    assert max(len(text.strip("],}")) for text in digits) <= len("0.1234")


def test_few_heads_are_kept_and_many_averaged() -> None:
    head = ((0.0, 1.0),)
    other = ((0.5, 0.123456),)
    few = AlignmentRecord(
        title="", source_tokens=("a", "b"), output_tokens=("A",), maps={"cross/0": (head, other)}
    )
    assert small(few).maps == {"cross/0": (head, ((0.5, 0.1235),))}
    many = AlignmentRecord(
        title="",
        source_tokens=("a", "b"),
        output_tokens=("A",),
        maps={"cross/0": (head, other, head, other), "cross/1": (head,)},
    )
    assert small(many).maps == {
        "cross/0, mean of 4 heads": (((0.25, 0.5617),),),
        "cross/1": (head,),
    }


def test_sources_are_of_middling_length_and_the_first_is_always_the_same() -> None:
    drawn = [middling(WORDS, count=3, seed=seed) for seed in range(20)]
    assert {sources[0] for sources in drawn} == {"cat"}
    assert {source for sources in drawn for source in sources} == {
        "aa",
        "cat",
        "dog",
        "cats",
        "dogs",
    }
    assert all(len(set(sources)) == 3 for sources in drawn)
    assert middling(WORDS, count=3, seed=4) == drawn[4]


def test_fewer_sources_than_asked_are_all_there_is() -> None:
    assert set(middling(["ab", "cd", " ", "ab"], count=4, seed=0)) == {"ab", "cd"}
    assert middling([], count=4, seed=0) == ()
