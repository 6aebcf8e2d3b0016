"""Page and text of one run: sections, scores beside baselines, items, states, files."""

from __future__ import annotations

import dataclasses
import re

import pytest
from tests.factories.runs import (
    audio_run,
    classifier_run,
    language_model_run,
    masked_run,
    regression_run,
    sequence_run,
    speech_run,
    tree_run,
    unfinished_run,
)

from regard.core.records.run import RunRecord
from regard.views.pages.run import run_page
from regard.views.text.run import run_text

EVERY = (
    sequence_run,
    classifier_run,
    language_model_run,
    regression_run,
    masked_run,
    tree_run,
    unfinished_run,
)


def sections(html: str) -> list[str]:
    return re.findall(r'<section id="(\w+)"', html)


def text_of(html: str) -> str:
    body = html[html.index("<body>") : html.index("<script>")]
    return re.sub(r"[\s\u00a0\u202f]+", " ", re.sub(r"<[^>]+>", " ", body))


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_record_makes_the_same_page_after_a_round_trip(make: type) -> None:
    record: RunRecord = make()
    page = run_page(record)
    assert run_page(RunRecord.from_json(record.as_json())) == page
    identifiers = re.findall(r'\bid="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))
    assert {link[1:] for link in re.findall(r'href="([^"]+)"', page)} <= set(identifiers)
    assert re.findall(r"https?:|@import|url\(", page) == []


def test_scores_stand_beside_the_baselines_with_their_intervals() -> None:
    record = classifier_run()
    page = run_page(record)
    rows = [text_of(f"<body>{row}<script>") for row in page.split("<tr")]
    test = record.splits[0]
    score = test.scores[record.primary.name]
    assert any(f"{score.value:.2f} {score.low:.2f} to {score.high:.2f}" in row for row in rows)
    for name, scores in test.baselines.items():
        escaped = name.replace("'", "&#39;")
        (row, *_) = [row for row in rows if f"{escaped} baseline" in row]
        assert f"{scores[record.primary.name]:.2f}" in row
    assert "the best baseline, TF-IDF + logistic regression, has 82.90 %" in page


def test_confusion_calibration_items_and_attention_of_a_classifier() -> None:
    page = run_page(classifier_run())
    assert sections(page) == [
        *("scores", "curves", "errors", "items", "attention", "cost", "settings", "repeat")
    ]
    for text in ("Confusion matrix of", "Reliability diagram", "Worst items", "Best items"):
        assert text in page
    assert 'class="word' in page
    assert "Deletion test, test" in page


def test_alignments_and_trees_are_drawn() -> None:
    assert run_page(sequence_run()).count("while generating") >= 2
    assert 'class="tree"' in run_page(tree_run())


def test_an_unfinished_run_says_so_and_has_no_scores() -> None:
    record = unfinished_run()
    page = run_page(record, refresh_seconds=5)
    assert "The run is training" in page
    assert '<meta http-equiv="refresh" content="5">' in page
    assert "<progress" in page
    assert not {"scores", "errors", "items", "attention"} & set(sections(page))
    assert "curves" in sections(page)
    assert "refresh" not in run_page(record)
    stopped = run_page(dataclasses.replace(record, state="stopped"))
    assert "was stopped and can be resumed" in stopped


def test_settings_command_and_hashes_are_listed() -> None:
    record = sequence_run()
    page = text_of(run_page(record))
    for file in record.files:
        assert file.sha256 in page
    assert record.reproducibility["command"] in page


def test_an_empty_record_is_a_page() -> None:
    record = dataclasses.replace(
        unfinished_run(),
        training=(),
        evaluations=(),
        best_step=None,
        settings={},
        reproducibility={},
        files=(),
    )
    assert sections(run_page(record)) == ["cost"]


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
@pytest.mark.parametrize("width", [40, 100])
def test_text_fits_the_terminal(make: type, width: int) -> None:
    record: RunRecord = make()
    text = run_text(record, width=width)
    assert text.startswith(f"{record.name}: {record.model} on {record.task}")
    if width == 100:
        assert max(map(len, text.splitlines())) <= width


def test_a_finished_run_without_a_score_is_a_page() -> None:
    record = classifier_run()
    splits = tuple(dataclasses.replace(split, scores={}, baselines={}) for split in record.splits)
    without = dataclasses.replace(record, splits=splits)
    page = run_page(without)
    assert "scores" not in sections(page)
    assert "without a score" in text_of(page)


def test_numbers_have_no_mark_of_correctness() -> None:
    record = regression_run()
    items = tuple(dataclasses.replace(item, correct=None) for item in record.examples)
    unmarked = dataclasses.replace(record, examples=items, best_items=(), worst_items=())
    assert "wrong:" not in text_of(run_page(unmarked))


def test_ties_of_the_worst_items_are_counted() -> None:
    assert "409 items have the score of the last one." in text_of(run_page(classifier_run()))


def test_recordings_have_a_spectrogram_and_a_player() -> None:
    record = speech_run()
    page = run_page(record)
    assert page.count("<audio controls") == page.count('src="data:audio/wav;base64,') == 3
    assert page.count('aria-label="Recording ann/00000"') == 1
    assert "img-src data:; media-src data:" in page
    identifiers = re.findall(r'\bid="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))
    text = text_of(page)
    assert "Alignment accuracy on test: 88.4 % (chance 16.5 %)" in text
    assert "cross/1, head 1 31.0 31.0 cross/1, head 2 88.4 88.4 chance 16.5 16.5" in text
    assert "reference three one four prediction ✗ wrong: tree one for" in text
    assert "(empty)" in text
    assert "Alignment accuracy on test: 88.4 %" in run_text(record, width=200)
    assert len(page) < 500_000


def test_other_pages_load_no_images_and_no_audio() -> None:
    assert "img-src" not in run_page(sequence_run())
    assert "media-src" not in run_page(classifier_run())


def test_classes_of_recordings() -> None:
    page = run_page(audio_run())
    assert page.count("<audio") == 1
    text = text_of(page)
    assert "prediction ✗ wrong: 3 (80 %)" in text
    assert "The data has features only, so there is no recording to play." in text


def test_record_has_no_audio() -> None:
    record = speech_run()
    stored = RunRecord.from_json(record.as_json())
    page = run_page(stored)
    assert "<audio" not in page
    assert "The audio is not in the record" in text_of(page)
    assert page.count("<image") == run_page(record).count("<image") == 6
