"""Look page in a browser: values of maps, choices by pointer and keyboard, two records, a live page."""

from __future__ import annotations

import base64
import dataclasses
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.browser.visits import DESKTOP, SCHEMES, SIZES, Visit, contrast, numbers
from tests.factories.looks import (
    classified_document,
    classified_picture,
    language_model,
    long_text,
    recognised_speech,
    translation,
)

from regard.core.records.look import LookRecord
from regard.views.pages.look import look_page

pytestmark = pytest.mark.stress

# All entries of a head as the page unpacks them, null where it has none, and its tile.
UNPACKED = """
([layer, head]) => {
  const map = mapOf(records[0], layer, head);
  const plain = (row) => Array.from(row, (value) => Number.isNaN(value) ? null : value);
  return [Array.from({length: map.rows}, (_, query) => plain(map.row(query))), plain(map.tile())];
}
"""


def chosen(visited: Visit, *names: str) -> list[Any]:
    """What is chosen on the page."""
    found: dict[str, Any] = visited.page.evaluate("state")
    return [found[name] for name in names]


def press(visited: Visit, selector: str, *keys: str) -> None:
    """Press keys while an element has the focus."""
    visited.page.locator(selector).first.focus()
    for key in keys:
        visited.page.keyboard.press(key)


@pytest.mark.parametrize("head", ["1", "2"])
def test_maps_are_those_of_the_record(head: str, visit: Callable[..., Visit]) -> None:
    record = long_text()
    maps = record.layer_maps("encoder/0", "weights")
    assert maps is not None
    rows, tile = visit(look_page([record])).page.evaluate(UNPACKED, ["encoder/0", head])
    kept = maps.shape[1] if head in maps.exact else 16
    for row, expected in zip(rows, maps.matrix(head), strict=True):
        assert sum(value is not None for value in row) == kept
        assert [value or 0.0 for value in row] == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert tile == pytest.approx([cell for line in maps.tile(head) for cell in line], abs=1e-6)


def test_by_pointer(visit: Callable[..., Visit]) -> None:
    visited = visit(look_page([translation()]))
    page = visited.page
    page.get_by_role("gridcell", name="cross/1 head 3").click()
    assert page.locator("#map h3").inner_text() == "cross/1, head 3"
    canvas = page.locator("canvas.map")
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] - 6, "y": box["height"] - 6})
    assert chosen(visited, "layer", "head", "query", "key") == ["cross/1", "3", 6, 4]
    value = page.evaluate("numberText(mapOf(records[0], 'cross/1', '3').row(6)[4])")
    assert page.locator("#map .map-note").inner_text() == f"</s> → </s>: {value}"
    entry = page.locator(".entries button").nth(1)
    name = entry.inner_text()
    entry.click()
    assert page.locator(".entries [aria-pressed=true]").inner_text() == name
    page.get_by_role("option", name="Haus").click()
    assert chosen(visited, "key") == [1]
    page.locator(".written", has_text="house").click()
    assert chosen(visited, "layer", "query", "heat") == ["cross/1", 1, "row"]
    assert page.locator(".written[aria-pressed=true] b").inner_text() == "▁house"
    heats = page.locator("[aria-label=input] .token").evaluate_all(
        "(all) => all.map((each) => Number(each.style.getPropertyValue('--heat')))"
    )
    row = page.evaluate("Array.from(mapOf(records[0], 'cross/1', '3').row(1))")
    assert heats.index(max(heats)) == row.index(max(row))
    assert max(heats) == pytest.approx(0.9)
    visited.assert_sound()


def test_by_keyboard(visit: Callable[..., Visit]) -> None:
    visited = visit(look_page([language_model()]))
    press(visited, ".tiles [tabindex='0']", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft")
    assert chosen(visited, "layer", "head") == ["decoder/1", "2"]
    press(visited, "canvas.map", "ArrowUp", "ArrowUp", "ArrowLeft", *["ArrowDown"] * 9)
    row, column = chosen(visited, "query", "key")
    assert row == 10
    assert visited.page.locator("#map .map-note").inner_text().startswith("on → ")
    press(visited, "canvas.map", *["ArrowLeft"] * 12)
    assert chosen(visited, "key") == [0]
    assert column >= 0
    press(visited, ".tokens", "ArrowLeft", "ArrowUp", "ArrowRight")
    assert chosen(visited, "query") == [9]
    assert visited.page.locator(".tokens").get_attribute("aria-activedescendant").endswith("-9")
    press(visited, ".written", "Enter")
    assert chosen(visited, "query") == [6]
    press(visited, ".look-controls select", "ArrowDown")
    assert chosen(visited, "method") == ["contribution_norm"]
    visited.assert_sound()


def test_methods(visit: Callable[..., Visit]) -> None:
    visited = visit(look_page([language_model()]))
    page, method = visited.page, visited.page.get_by_label("Method")
    assert page.locator("#faithfulness figure:visible").count() == 2
    assert "lowers it more than at random, 0.18 (0.14 to 0.22). Keeping only" in (
        page.locator(".record dd").last.inner_text()
    )
    method.select_option("gradient_attention")
    assert "Signed" in page.locator(".meaning").inner_text()
    assert page.locator(".entries .negative").count() > 0
    assert page.locator(".token.negative").count() > 0
    assert page.locator(".arcs .negative").count() > 0
    assert "not measured for this method" in page.locator(".record dd").last.inner_text()
    assert page.locator("#faithfulness figure:visible").count() == 0
    assert page.locator("#faithfulness .hint").first.is_visible()
    method.select_option(label="Rollout (heuristic)")
    assert "heuristic" in page.locator(".meaning").inner_text()
    assert page.locator(".tiles button").count() == 1
    assert page.locator("#map h3").inner_text() == "decoder/0, head all"
    method.select_option("weights")
    assert page.locator(".tiles button").count() == 8
    visited.assert_sound()


def test_not_measured_says_why(visit: Callable[..., Visit]) -> None:
    text = visit(look_page([translation()])).page.locator(".record dd").last.inner_text()
    assert text.endswith("not measured: the model has no run, and no --validation-file was named.")


def test_patterns_sort_and_choose(visit: Callable[..., Visit]) -> None:
    visited = visit(look_page([language_model()]))
    table = visited.page.locator(".patterns")
    heading = table.get_by_role("button", name="induction")
    heading.click()
    heading.click()
    first = table.locator("tbody tr").first
    assert first.inner_text().split()[:2] == ["decoder/1", "4"]
    first.get_by_role("button").click()
    assert chosen(visited, "layer", "head") == ["decoder/1", "4"]
    assert first.get_attribute("class") == "chosen"


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_long_text(size: dict[str, int], visit: Callable[..., Visit]) -> None:
    visited = visit(look_page([long_text()]), size=size)
    page, about = visited.page, visited.page.locator("#map .map-view .hint")
    assert "Only the 16 largest entries of each row are kept" in about.inner_text()
    assert "161–200 of 200" in about.inner_text()
    overview = page.locator("canvas.overview")
    overview.click(position={"x": 5, "y": 100})
    query, key = chosen(visited, "query", "key")
    assert 100 < query < 130
    assert key < 10
    assert "columns 1–" in about.inner_text()
    press(visited, "canvas.overview", "ArrowUp", "ArrowUp", "ArrowUp")
    assert chosen(visited, "query") == [max(query - 120, 0)]
    press(visited, "canvas.map", *["ArrowRight"] * 40)
    assert "not among the 16" in page.locator("#map .map-note").inner_text()
    page.get_by_role("gridcell", name="encoder/0 head 2").click()
    assert "Only the 16" not in about.inner_text()
    assert page.locator("#arcs").count() == 0
    visited.assert_sound()


def test_two_records_and_their_difference(visit: Callable[..., Visit]) -> None:
    first, second = language_model(), language_model("runs/other", seed=40)
    visited = visit(look_page([first, second]))
    page = visited.page
    assert page.locator(".tiles").count() == page.locator("canvas.map:visible").count() == 3
    one, other, difference = page.evaluate(
        "[mapOf(records[0], 'decoder/1', '2'), mapOf(records[1], 'decoder/1', '2'),"
        " differenceOf('decoder/1', '2')].map((map) => Array.from(map.row(9)))"
    )
    assert difference == pytest.approx(
        [b - a for a, b in zip(one, other, strict=True)], rel=1e-5, abs=1e-7
    )
    page.locator(".tiles").nth(2).get_by_role("gridcell", name="decoder/1 head 2").click()
    titles = page.locator("#map h3").all_inner_texts()
    assert titles == ["decoder/1, head 2"]
    visited.assert_sound()
    unlike = visit(look_page([first, classified_document()]))
    assert unlike.page.locator("canvas.map:visible").count() == 1
    assert "There is no difference" in unlike.page.locator("#map > .hint").inner_text()
    unlike.assert_sound()


def test_image(visit: Callable[..., Visit]) -> None:
    visited = visit(look_page([classified_picture()]))
    picture = visited.page.locator("canvas[tabindex].picture")
    picture.click(position={"x": 5, "y": 5})
    assert chosen(visited, "query") == [1]
    press(visited, "canvas[tabindex].picture", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp")
    assert chosen(visited, "query") == [3]
    assert visited.page.locator("#input .map-note").first.inner_text().startswith("row 1, column 3")
    visited.page.get_by_role("option", name="class token").click()
    assert chosen(visited, "query") == [0]
    visited.assert_sound()


def test_sound(visit: Callable[..., Visit]) -> None:
    record = recognised_speech()
    visited = visit(look_page([record]))
    press(visited, ".look-sound", *["ArrowLeft"] * 40, "ArrowRight", "ArrowRight")
    assert chosen(visited, "key") == [2]
    cells = visited.page.locator(".look-sound .cells rect")
    assert cells.count() == len(record.axes["input"].tokens)
    assert visited.page.locator("audio").evaluate(
        "(audio) => new Promise((done) => audio.readyState ? done(audio.duration)"
        " : audio.addEventListener('loadedmetadata', () => done(audio.duration)))"
    ) == pytest.approx(record.sound.seconds if record.sound else 0.0, abs=0.1)
    visited.assert_sound()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tokens_are_legible_on_every_shade(scheme: str, visit: Callable[..., Visit]) -> None:
    page = visit(look_page([language_model()]), scheme=scheme).page
    ground = numbers(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    for sign in ("remove", "add"):
        for heat in (0.0, 0.5, 0.9):
            shade, ink = map(
                numbers,
                page.locator(".token").first.evaluate(
                    "(node, [sign, heat]) => { node.classList[sign]('negative');"
                    "node.style.setProperty('--heat', heat); const style = getComputedStyle(node);"
                    "return [style.backgroundColor, style.color]; }",
                    [sign, heat],
                ),
            )
            alpha = shade[3] if len(shade) > 3 else 1.0
            mixed = [a * alpha + b * (1 - alpha) for a, b in zip(shade[:3], ground, strict=True)]
            assert contrast(mixed, ink) >= 4.5


class Server:
    """A stand-in for `regard serve`: one record, whose prediction changes with interventions."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.status = 200
        page = look_page([], live=True, models=["runs/lm", "runs/other"])
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kinds = [
                    {"name": "runs/lm", "input": "text"},
                    {"name": "runs/other", "input": "image"},
                ]
                files = {"/": page, "/models": json.dumps({"models": kinds})}
                self.answer(200 if self.path in files else 404, files.get(self.path, ""))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.bodies.append(body)
                record = outer.record(body).as_json()
                problem = json.dumps({"detail": "The text has 9 tokens; <b>8</b> are allowed."})
                self.answer(outer.status, record if outer.status == 200 else problem)

            def answer(self, status: int, text: str) -> None:
                kind = "text/html" if self.path == "/" else "application/json"
                self.send_response(status)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @staticmethod
    def record(body: dict[str, Any]) -> LookRecord:
        """The answer to a request."""
        if "data" in body:
            return classified_picture(model=body["model"])
        found = language_model(body["model"], title=body["input"])
        if body["interventions"]:
            found = dataclasses.replace(found, prediction="a dog", probabilities={"mat": 0.25})
        return found


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.server.shutdown()


def test_live_page(server: Server, visit: Callable[..., Visit]) -> None:
    visited = visit(server.address, size=DESKTOP)
    page = visited.page
    assert page.locator("#live-acts button:enabled").count() == 0
    page.get_by_label("Text").fill("the cat")
    page.get_by_role("button", name="Explain").click()
    page.get_by_text("Done.").wait_for()
    assert page.get_by_role("heading", level=1).inner_text() == "the cat"
    assert server.bodies == [
        {"model": "runs/lm", "input": "the cat", "method": None, "heads": [], "interventions": []}
    ]
    page.get_by_role("gridcell", name="decoder/1 head 2").click()
    page.get_by_role("button", name="Zero the head").click()
    page.get_by_text("Done, with 1 change.").wait_for()
    zeroed = {"kind": "zero_head", "layer": "decoder/1", "head": "2"}
    assert server.bodies[-1]["interventions"] == [zeroed]
    assert "(without changes: the cat sat on)" in page.locator(".record").inner_text()
    assert "0.25 (was 0.62)" in page.locator(".labels").inner_text()
    assert chosen(visited, "layer", "head") == ["decoder/1", "2"]
    press(visited, "canvas.map", *["ArrowLeft"] * 12, "ArrowRight")
    page.get_by_role("button", name="Knock out the entry").click()
    page.get_by_text("Done, with 2 changes.").wait_for()
    page.get_by_role("button", name="Knock out the key").click()
    page.get_by_text("Done, with 3 changes.").wait_for()
    knocked = {"kind": "knock_out", "layer": "decoder/1", "head": "2", "query": 10, "key": 1}
    assert server.bodies[-1]["interventions"] == [zeroed, knocked, {**knocked, "query": None}]
    assert page.locator("#live-changes li").all_inner_texts() == [
        "zero decoder/1, head 2 Remove",
        "knock out on → cat in decoder/1, head 2 Remove",
        "knock out every query → cat in decoder/1, head 2 Remove",
    ]
    page.get_by_role("button", name="Remove: knock out every").click()
    page.get_by_text("Done, with 2 changes.").wait_for()
    page.get_by_role("button", name="Reset").click()
    page.get_by_text("Done.", exact=True).wait_for()
    assert server.bodies[-1]["interventions"] == []
    assert "was 0.62" not in page.locator(".labels").inner_text()
    page.get_by_role("button", name="Exact map").click()
    page.get_by_text("Done.", exact=True).wait_for()
    assert server.bodies[-1]["heads"] == ["decoder/1.2"]
    assert visited.complaints == []
    assert all(each.startswith(server.address) for each in visited.requests)


def test_live_page_of_two_models_and_a_file(
    server: Server, visit: Callable[..., Visit], tmp_path: Path
) -> None:
    visited = visit(server.address)
    page = visited.page
    page.get_by_label("Beside it").select_option("runs/other")
    page.get_by_label("Text").fill("the cat")
    page.get_by_role("button", name="Explain").click()
    page.get_by_text("Done.").wait_for()
    assert sorted(body["model"] for body in server.bodies) == ["runs/lm", "runs/other"]
    assert page.locator(".record").count() == 2
    page.get_by_label("Beside it").select_option("")
    page.locator(".record").nth(1).wait_for(state="detached")
    page.get_by_label("Model").select_option("runs/other")
    (tmp_path / "a.png").write_bytes(b"picture")
    page.get_by_label("Sound or image").set_input_files(tmp_path / "a.png")
    assert not page.get_by_label("Text", exact=True).is_visible()
    page.get_by_role("button", name="Explain").click()
    page.locator("canvas.picture").first.wait_for()
    assert base64.b64decode(server.bodies[-1]["data"]) == b"picture"
    assert "input" not in server.bodies[-1]
    assert visited.complaints == []


def test_errors_of_the_server_are_text(server: Server, visit: Callable[..., Visit]) -> None:
    visited = visit(server.address)
    page, alert = visited.page, visited.page.get_by_role("alert")
    server.status = 413
    page.get_by_label("Text").fill("a")
    page.get_by_role("button", name="Explain").click()
    alert.wait_for()
    assert alert.inner_text() == "The text has 9 tokens; <b>8</b> are allowed. (status 413)"
    assert alert.locator("b").count() == 0
    server.status = 200
    page.get_by_role("button", name="Explain").click()
    page.get_by_text("Done.").wait_for()
    assert not alert.is_visible()
    server.server.shutdown()
    server.server.server_close()
    page.get_by_role("button", name="Explain").click()
    alert.wait_for()
    assert "The server does not answer" in alert.inner_text()
