"""Recordings on pages: audio that plays, a line that follows it, and data with hostile names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.browser.visits import PHONE, Visit
from tests.factories.hostile_strings import STRINGS
from tests.factories.sounds import sine, write_wav
from tests.factories.tiny_runs import TRAINING, train_tiny

from regard.studies.run_report import run_record
from regard.views.pages.run import run_page

pytestmark = pytest.mark.stress

DURATIONS = """
async () => await Promise.all([...document.querySelectorAll("audio")].map((audio) =>
  audio.readyState > 0 ? audio.duration
    : new Promise((done) => audio.addEventListener("loadedmetadata", () => done(audio.duration)))))
"""
SEEK = """
async (time) => {
  const audio = document.querySelector("audio");
  await new Promise((done) => { audio.addEventListener("seeked", done); audio.currentTime = time; });
  await new Promise(requestAnimationFrame);
  const line = document.querySelector(".playhead");
  return [line.getAttribute("visibility"), Number(line.getAttribute("x1"))];
}
"""


@pytest.mark.parametrize("name", ["run-speech", "run-audio", "study-speech"])
def test_audio_can_be_played(
    name: str, visit: Callable[..., Visit], page_file: Callable[[str], Path]
) -> None:
    visited = visit(page_file(name))
    durations = visited.page.evaluate(DURATIONS)
    assert durations
    assert all(0.2 < seconds < 2 for seconds in durations)
    left, right, *_, seconds = map(
        float, visited.page.locator("[data-time]").first.get_attribute("data-time").split()
    )
    shown, x = visited.page.evaluate(SEEK, durations[0] / 2)
    assert shown == "visible"
    assert x == pytest.approx(left + (right - left) * durations[0] / 2 / seconds, abs=1)
    visited.assert_sound()


def test_click_plays_from_there(
    visit: Callable[..., Visit], page_file: Callable[[str], Path]
) -> None:
    visited = visit(page_file("run-speech"))
    (seconds, *_) = visited.page.evaluate(DURATIONS)
    chart = visited.page.locator("[data-time]").first
    box = chart.bounding_box()
    chart.click(position={"x": box["width"] * 0.75, "y": box["height"] / 4})
    visited.page.wait_for_function("document.querySelector('audio').currentTime > 0")
    assert visited.page.evaluate("document.querySelector('audio').currentTime") > seconds / 2
    visited.assert_sound()


def test_images_have_the_colour_of_the_scheme(
    visit: Callable[..., Visit], page_file: Callable[[str], Path]
) -> None:
    fills = [
        visit(page_file("run-speech"), scheme=scheme).page.evaluate(
            "['.spectrogram', '.cells'].map((name) => "
            "getComputedStyle(document.querySelector(`.sound ${name}`)).fill)"
        )
        for scheme in ("light", "dark")
    ]
    assert len({*fills[0], *fills[1]}) == 4


def test_hostile_file_names_and_transcripts(visit: Callable[..., Visit], tmp_path: Path) -> None:
    data, lines = tmp_path / "data", ["file_name,text"]
    for number in range(12):
        payload = STRINGS["closed tag"].replace("/", "") if number % 2 else "'><b onclick=1>"
        name = f"{'test' if number < 5 else 'train'}/{number}{payload}.wav"
        write_wav(data / name, sine(300.0 + 50 * number, seconds=0.6))
        text = STRINGS["script"] if number % 2 else STRINGS["double quote"]
        lines.append(",".join('"' + each.replace('"', '""') + '"' for each in (name, text)))
    (data / "metadata.csv").write_text("\n".join(lines) + "\n")
    sections = {
        "task": {
            "name": "speech_recognition",
            "train_file": str(data),
            "num_bands": 8,
            "validation_fraction": 0.3,
        },
        "model": {"name": "ctc", "model_dim": 8, "num_heads": 2, "num_layers": 1},
        "training": TRAINING,
    }
    record = run_record(train_tiny(lambda _: sections, tmp_path / "run"))
    assert len(record.alignments) == 3
    visited = visit(run_page(record), size=PHONE)
    assert all(seconds > 0.2 for seconds in visited.page.evaluate(DURATIONS))
    for place in ("audio", "svg", "label", ".output"):
        visited.page.locator(place).first.dispatch_event("mouseover")
    assert visited.page.evaluate("window.__pwned") is None
    assert visited.page.locator(".sound b, .sound img, .sound script").count() == 0
    visited.assert_sound()
