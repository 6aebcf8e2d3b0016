"""The live page in a browser, with a server of its own: every control, every kind of input, two models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.visits import SCHEMES, SIZES, browser_or_skip
from tests.factories.images import bright, write_image
from tests.factories.sounds import sine, write_wav
from tests.serving.conftest import KINDS, Process

pytestmark = pytest.mark.stress


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from browser_or_skip()


@pytest.fixture(scope="module")
def server(run_folders: Callable[[str], Path]) -> Iterator[Process]:
    process = Process(*map(run_folders, KINDS))
    yield process
    assert process.stop() == (0, "stopped\n")


class Live:
    """The live page of a server, and what it complained of and asked for."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page, self.url = self.context.new_page(), url
        self.page.set_default_timeout(20_000)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(url)

    def explain(
        self, *, model: str, beside: str = "", text: str = "", file: Path | None = None
    ) -> None:
        """Choose models and an input, and wait for the answer."""
        self.page.locator("#live select").nth(0).select_option(model)
        self.page.locator("#live select").nth(1).select_option(beside)
        if file is None:
            self.page.locator("#live-text").fill(text)
        else:
            self.page.locator("#live-file").set_input_files(file)
        self.press("Explain")

    def press(self, name: str) -> None:
        """Press a button, and wait until the server has answered; it may be answering another question."""
        idle = "#live-status:not(:has-text('Computing'))"
        self.page.locator(idle).wait_for(state="attached")
        with self.page.expect_response("**/explain"):
            self.page.get_by_role("button", name=name, exact=True).click()
        # Not `wait_for_function`, which the policy of the page forbids.
        ended = "#live-status:has-text('Done'), #live-error:not([hidden])"
        self.page.locator(ended).first.wait_for(state="attached")

    def problem(self) -> str:
        """The error that is shown, if any."""
        return str(self.page.locator("#live-error").text_content())

    def assert_sound(self) -> None:
        """No message, no request beyond the server, nothing wider than the window."""
        assert self.complaints == []
        beyond = [
            each for each in self.requests if not each.startswith((self.url, "data:", "blob:"))
        ]
        assert beyond == []
        wide = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0


@pytest.fixture
def visit(browser: Any, server: Process) -> Iterator[Callable[..., Live]]:
    opened: list[Live] = []

    def open_page(**options: Any) -> Live:
        opened.append(Live(browser, server.url, **options))
        return opened[-1]

    yield open_page
    for each in opened:
        each.context.close()


TEXTS = {
    "seq2seq": "facade",
    "classifier": "the dull film and the fine plot",
    "numbers": "word word",
    "language_model": "ab a",
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_every_kind_of_input(
    size: str, scheme: str, visit: Callable[..., Live], tmp_path: Path
) -> None:
    page = visit(viewport=SIZES[size], color_scheme=scheme)
    for model, text in TEXTS.items():
        page.explain(model=model, text=text)
        assert page.problem() == "", model
        page.assert_sound()
    image = write_image(tmp_path / "a.png", bright(seed=1, level=200))
    sound = write_wav(tmp_path / "a.wav", sine(400.0, seconds=0.3), sample_rate=8000)
    for model, file in (("images", image), ("sounds", sound)):
        page.explain(model=model, file=file)
        assert page.problem() == "", model
        page.assert_sound()


def test_a_change_of_the_attention_changes_the_answer(visit: Callable[..., Live]) -> None:
    live = visit()
    live.explain(model="classifier", text=TEXTS["classifier"])
    before = live.page.locator("#look").inner_text()
    for name in ("Knock out the key", "Knock out the entry", "Zero the head", "Average the head"):
        button = live.page.get_by_role("button", name=name)
        if not button.is_enabled():
            continue
        live.press(name)
        assert live.problem() == ""
        assert live.page.locator("#live-changes li").count() == 1
        assert live.page.locator("#look").inner_text() != before
        live.press("Reset")
        assert live.page.locator("#live-changes li").count() == 0
    assert live.page.locator("#look").inner_text() == before
    live.assert_sound()


def test_two_models_side_by_side(visit: Callable[..., Live]) -> None:
    live = visit()
    live.explain(model="classifier", beside="numbers", text="word the fine film")
    assert live.problem() == ""
    shown = live.page.locator("#look").inner_text()
    assert "classifier" in shown
    assert "numbers" in shown
    live.assert_sound()


def test_what_cannot_be_explained(visit: Callable[..., Live], tmp_path: Path) -> None:
    live = visit()
    live.explain(model="classifier", text="")
    assert "The text is empty" in live.problem()
    (tmp_path / "no.wav").write_bytes(b"no sound")
    live.explain(model="sounds", file=tmp_path / "no.wav")
    assert "not a WAV file" in live.problem()
