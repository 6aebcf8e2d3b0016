"""The API: predictions as those of the run, explanations, limits, hostile input, clients that leave."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, ValidationError
from starlette.testclient import TestClient
from tests.factories.hostile_strings import STRINGS
from tests.factories.images import bright, png_header
from tests.factories.sounds import format_chunk, riff, sine, wav_bytes
from tests.serving.conftest import Serve

from regard.core.records.look import LookRecord
from regard.runs.load import TrainedRun
from regard.serving.schemas import ExplainRequest, PredictRequest

WORDS = ["abc", "fed", "a", "", "facade", "deed", "cab", "  bead "]


def png(pixels: np.ndarray) -> str:
    import io

    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return encoded(file.getvalue())


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def wav(hz: float = 400.0, *, seconds: float = 0.3) -> str:
    return encoded(wav_bytes(sine(hz, seconds=seconds, sample_rate=8000), sample_rate=8000))


def outputs(client: TestClient, **body: Any) -> list[Any]:
    answer = client.post("/predict", json=body)
    assert answer.status_code == 200, answer.text
    return [each["output"] for each in answer.json()["predictions"]]


def problem(client: TestClient, status: int, path: str = "/predict", **body: Any) -> str:
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    found = answer.json()
    assert set(found) == {"status", "detail"}
    assert found["status"] == status
    return str(found["detail"])


def test_health_and_models(client: TestClient) -> None:
    health = client.get("/health").json()
    assert (health["status"], health["waiting"]) == ("ready", 0)
    models = {each["name"]: each for each in client.get("/models").json()["models"]}
    kinds = {name: (each["input"], each["output"]) for name, each in models.items()}
    assert kinds == {
        "seq2seq": ("text", "text"),
        "classifier": ("text", "label"),
        "numbers": ("text", "number"),
        "language_model": ("text", "text"),
        "images": ("image", "label"),
        "sounds": ("sound", "label"),
    }
    assert models["classifier"]["labels"] == ["bad", "good"]
    assert models["language_model"]["continues_text"]
    assert models["seq2seq"]["parameters"] > 1000


@pytest.mark.parametrize("kind", ["seq2seq", "classifier", "numbers"])
def test_predictions_are_those_of_the_run(
    kind: str, client: TestClient, runs: dict[str, TrainedRun]
) -> None:
    texts = WORDS if kind == "seq2seq" else ["a fine film", "the dull plot and cast", "word word"]
    expected = runs[kind].predict(texts)
    found = outputs(client, model=kind, inputs=texts)
    alone = [outputs(client, model=kind, inputs=[text])[0] for text in texts]
    if kind == "numbers":
        assert found == pytest.approx(expected)
        assert alone == pytest.approx(expected)
    else:
        assert found == alone == expected


def test_decoding_options(client: TestClient, runs: dict[str, TrainedRun]) -> None:
    expected = runs["seq2seq"].predict(WORDS, beam_size=3, length_penalty=0.5)
    assert outputs(client, inputs=WORDS, beam_size=3, length_penalty=0.5) == expected


def test_concurrent_requests_are_batched(
    serve: Serve, runs: dict[str, TrainedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, queue, _ = serve("seq2seq", batch_wait_seconds=0.2)
    sizes: list[int] = []
    run = runs["seq2seq"]
    predict = run.predict

    def counted(values: list[Any], **options: Any) -> list[Any]:
        sizes.append(len(values))
        return predict(values, **options)

    texts = [word for word in WORDS if word.strip()]
    found: dict[str, Any] = {}
    begin = threading.Barrier(len(texts))

    def ask(text: str) -> None:
        begin.wait()
        found[text] = outputs(client, inputs=[text])[0]

    with client, monkeypatch.context() as patch:
        patch.setattr(run, "predict", counted)
        threads = [threading.Thread(target=ask, args=(text,)) for text in texts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(sizes) == len(texts)
    assert queue.num_waiting == 0
    assert found == {text: run.predict([text])[0] for text in texts}


def test_language_model(client: TestClient, runs: dict[str, TrainedRun]) -> None:
    asked: dict[str, Any] = {"max_new_tokens": 6, "temperature": 0.7, "top_k": 5, "seed": 3}
    options: dict[str, Any] = {"max_tokens": 6, "temperature": 0.7, "top_k": 5, "seed": 3}
    expected = ["ab" + "".join(runs["language_model"].generate("ab", **options))]
    assert outputs(client, model="language_model", inputs=["ab"], **asked) == expected
    message = problem(client, 422, model="language_model", inputs=["a"], max_new_tokens=501)
    assert "max_new_tokens=501" in message
    assert "500" in message
    assert "--max-new-tokens" in message


def test_images_and_sounds(client: TestClient, runs: dict[str, TrainedRun]) -> None:
    pictures = [bright(seed=1, level=10), bright(seed=2, level=200)]
    found = outputs(client, model="images", data=[png(each) for each in pictures])
    assert found == runs["images"].predict(pictures)
    tones = outputs(client, model="sounds", data=[wav(400.0), wav(1200.0)])
    assert set(tones) <= {"0", "1"}


def test_uploads_are_not_cached(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    outputs(client, model="sounds", data=[wav(777.0)])
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"inputs": ["a"], "model": "nope"}, "Unknown model 'nope'"),
        ({"inputs": ["/etc/passwd"], "model": "images"}, "takes images"),
        ({"inputs": ["clip.wav"], "model": "sounds"}, "takes sounds"),
        ({"data": ["AAAA"], "model": "classifier"}, "takes texts"),
        ({"inputs": ["a"], "data": ["AAAA"]}, "one of the two"),
        ({}, "inputs or data"),
        ({"inputs": []}, "inputs=[]: it must have at least 1 item"),
        ({"inputs": ["a", 5]}, "inputs[1]=5: it must be a valid string"),
        ({"inputs": "a"}, "inputs='a': it must be a valid list"),
        ({"inputs": ["a"], "plugin": "x.py:X"}, "plugin is unknown"),
        ({"inputs": ["a"], "beam_size": 17}, "beam_size=17: it must be less than or equal to 16"),
        ({"inputs": ["a"], "beam_size": 2, "model": "classifier"}, "takes no such option"),
        ({"inputs": ["a"], "temperature": 0.5}, "it takes beam_size, length_penalty"),
        ({"inputs": ["a"] * 65}, "65 inputs, the maximum is 64"),
        ({"inputs": ["a" * 1001]}, "1,001 tokens, the maximum is 1,000"),
        ({"inputs": ["a" * 60_000]}, "60,000 characters, the maximum is 50,000"),
        ({"data": ["@@"], "model": "images"}, "data[0]='@@': it must be the bytes of a file"),
        ({"data": [""], "model": "images"}, "not an image"),
        ({"data": ["AAAA"], "model": "images"}, "not an image"),
        ({"data": ["AAAA"], "model": "sounds"}, "not a WAV file"),
        ({"data": [encoded(png_header(width=6000, height=6000))], "model": "images"}, "36,000,000"),
        ({"data": [encoded(png_header(width=60000, height=60000))], "model": "images"}, "large"),
        ({"data": [encoded(png_header(width=40, height=40))], "model": "images"}, "damaged file"),
        ({"data": [png(bright(seed=0, level=9, size=(5, 7)))], "model": "images"}, "5×7 pixels"),
        (
            {
                "data": [
                    encoded(
                        riff(
                            format_chunk(sample_rate=8000),
                            b"data" + (3 * 3600 * 16000).to_bytes(4, "little"),
                        )
                    )
                ],
                "model": "sounds",
            },
            "3 h",
        ),
        ({"inputs": ["a"], "seed": -1}, "seed=-1: it must be greater than or equal to 0"),
    ],
)
def test_inputs_that_cannot_be_used(body: dict[str, Any], words: str, client: TestClient) -> None:
    message = problem(client, 422, **body)
    assert words in message
    assert message.endswith(".")


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"[", 422, "not JSON"),
        (b"[1]", 422, "must be an object"),
        (b"", 422, "The body"),
        (b'{"inputs": ["\xff"]}', 400, "parsing the body"),
        (b'{"inputs": ["\\ud800"]}', 422, "lone surrogates"),
        (b'{"inputs": ["a"], "model": "\\udfff"}', 422, "lone surrogates"),
        (b'{"inputs": ["a"], "\\udfff": 1}', 422, "The body"),
        (b"[" * 100_000, 400, "parsing the body"),
        (b'{"inputs": ["a"], "beam_size": ' + b"1" * 5000 + b"}", 400, "parsing the body"),
        # One error, not one for each of them, which would hold up other requests for minutes.
        (b'{"inputs": [' + b"1, " * 100_000 + b"1]}", 422, "inputs[0]=1"),
        (
            json.dumps(dict.fromkeys(map(str, range(100)))).encode(),
            422,
            "100 keys, the maximum is 64",
        ),
        (b'{"' + b"x" * 10_000 + b'": 1, "inputs": ["a"]}', 422, "is unknown. Remove it"),
        (b'{"inputs": ["a"], "length_penalty": NaN}', 422, "length_penalty=nan"),
        (b'{"inputs": ["a"], "length_penalty": 1e999}', 422, "length_penalty=inf"),
    ],
)
def test_hostile_bodies(content: bytes, status: int, words: str, client: TestClient) -> None:
    answer = client.post("/predict", content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["status"]) == (status, status)
    assert words in answer.json()["detail"]
    assert len(answer.content) < 1000


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (PredictRequest, "inputs"),
        (PredictRequest, "data"),
        (ExplainRequest, "heads"),
        (ExplainRequest, "interventions"),
    ],
)
def test_a_list_has_one_error(kind: type[BaseModel], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate({field: [1] * 50})
    assert caught.value.error_count() == 1


def test_other_content_types(client: TestClient) -> None:
    """A form of another site cannot send JSON without asking first."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = client.post(
            "/predict", content=b'{"inputs": ["a"]}', headers={"content-type": kind}
        )
        assert answer.status_code == 422
        assert "Content-Type: application/json" in answer.json()["detail"]


def test_hostile_texts(client: TestClient) -> None:
    texts = [text for text in STRINGS.values() if is_accepted(text)]
    for model in ("seq2seq", "classifier", "language_model"):
        options = {"max_new_tokens": 2} if model == "language_model" else {}
        assert len(outputs(client, model=model, inputs=texts, **options)) == len(texts)


def is_accepted(text: str) -> bool:
    """Whether a text is not too long and has no lone surrogates."""
    return len(text) < 1000 and text.encode(errors="replace").decode() == text


def test_paths_and_methods(client: TestClient) -> None:
    for path in ("/docs", "/redoc", "/../etc/passwd", "/runs/seq2seq"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["status"]) == (404, 404)
    assert client.get("/predict").status_code == 405
    assert client.options("/predict").headers.get("access-control-allow-origin") is None
    assert client.get("/favicon.ico").status_code == 204


def test_openapi(client: TestClient) -> None:
    found = client.get("/openapi.json").json()
    assert set(found["paths"]) == {"/health", "/models", "/predict", "/explain"}
    for path in ("/predict", "/explain"):
        responses = found["paths"][path]["post"]["responses"]
        assert {"200", "413", "422", "429", "503", "504"} <= set(responses)
    assert "LookRecord" in found["components"]["schemas"]


def test_time_limit(serve: Serve, runs: dict[str, TrainedRun], release: threading.Event) -> None:
    client, queue, _ = serve("seq2seq", timeout_seconds=0.2)
    with client:
        message = problem(client, 504, inputs=["abc"])
        assert "within 0.2 seconds" in message
        assert "--timeout" in message
        assert queue.num_waiting == 0


@pytest.fixture
def release(runs: dict[str, TrainedRun], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The model of letters to phones waits until this is set."""
    event, run = threading.Event(), runs["seq2seq"]
    predict = run.predict

    def slow(values: list[Any], **options: Any) -> list[Any]:
        event.wait(20.0)
        return predict(values, **options)

    monkeypatch.setattr(run, "predict", slow)
    yield event
    event.set()


def test_full_queue(serve: Serve, release: threading.Event) -> None:
    client, queue, _ = serve("seq2seq", max_waiting=2)
    found: list[Any] = []

    def ask(*texts: str) -> threading.Thread:
        thread = threading.Thread(
            target=lambda: found.append(outputs(client, inputs=list(texts))), daemon=True
        )
        thread.start()
        return thread

    with client:
        first = ask("abc")
        until(lambda: queue.is_busy)
        second = ask("fed", "cab")
        until(lambda: queue.num_waiting == 2)
        answer = client.post("/predict", json={"inputs": ["a"]})
        assert answer.status_code == 429
        assert "maximum is 2" in answer.json()["detail"]
        assert answer.headers["retry-after"] == "1"
        assert client.get("/health").json()["waiting"] == 2
        release.set()
        for thread in (first, second):
            thread.join(20.0)
        assert sorted(map(len, found)) == [1, 2]


def test_shutting_down(serve: Serve) -> None:
    client, queue, _ = serve("seq2seq")
    queue.refuse()
    answer = client.post("/predict", json={"inputs": ["a"]})
    assert answer.status_code == 503
    assert "shutting down" in answer.json()["detail"]
    assert "retry-after" in answer.headers
    assert client.get("/health").status_code == 503


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_client_that_leaves_frees_its_slot(serve: Serve, release: threading.Event) -> None:
    _, queue, app = serve("seq2seq", max_waiting=2)

    async def check() -> None:
        running = asyncio.create_task(request(app, inputs=["abc"], leaves=asyncio.Event()))
        await settled(lambda: queue.is_busy)
        leaves = asyncio.Event()
        waiting = asyncio.create_task(request(app, inputs=["fed", "cab"], leaves=leaves))
        await settled(lambda: queue.num_waiting == 2)
        leaves.set()
        assert (await waiting)[0] == 499
        assert queue.num_waiting == 0
        again = asyncio.create_task(request(app, inputs=["bed", "fad"], leaves=asyncio.Event()))
        await settled(lambda: queue.num_waiting == 2)
        release.set()
        assert [(await task)[0] for task in (running, again)] == [200, 200]

    asyncio.run(check())


async def settled(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20.0):
        while not condition():
            await asyncio.sleep(0.005)


async def request(app: Any, *, inputs: list[str], leaves: asyncio.Event) -> tuple[int, bytes]:
    """Status and body of a request whose client leaves when the event is set."""
    body = json.dumps({"inputs": inputs}).encode()
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/predict",
        "raw_path": b"/predict",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 9),
    }
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await leaves.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])


@pytest.mark.parametrize("kind", ["seq2seq", "classifier", "language_model"])
def test_explain(kind: str, client: TestClient) -> None:
    text = "abc" if kind == "seq2seq" else "a fine film"
    found = explained(client, model=kind, input=text)
    assert (found.model, found.title) == (kind, text)
    assert found.maps
    if kind != "language_model":
        assert found.prediction == outputs(client, model=kind, inputs=[text])[0]
    layer = found.maps[0].layer
    for kind_of_change in ("zero_head", "mean_head"):
        change = {"kind": kind_of_change, "layer": layer, "head": "1"}
        changed = explained(client, model=kind, input=text, interventions=[change])
        assert changed.probabilities != found.probabilities or changed.maps != found.maps


def explained(client: TestClient, **body: Any) -> LookRecord:
    answer = client.post("/explain", json=body)
    assert answer.status_code == 200, answer.text
    return LookRecord.from_json(answer.text)


def test_a_change_of_attention_changes_the_answer(client: TestClient) -> None:
    text = "the dull film and the plot"
    found = explained(client, model="classifier", input=text, method="weights")
    layer, probabilities = found.maps[0].layer, []
    assert {each.method for each in found.maps} == {"weights"}
    for key in range(len(found.axes["input"].tokens)):
        change = {"kind": "knock_out", "layer": layer, "head": None, "query": None, "key": key}
        changed = explained(client, model="classifier", input=text, interventions=[change])
        probabilities.append(changed.probabilities["good"])
    assert len(set(probabilities)) > 1
    assert found.probabilities["good"] not in probabilities


@pytest.mark.parametrize("kind", ["images", "sounds"])
def test_explain_an_upload(kind: str, client: TestClient) -> None:
    data = wav() if kind == "sounds" else png(bright(seed=1, level=10))
    found = explained(client, model=kind, data=data)
    assert found.prediction in ({"0", "1"} if kind == "sounds" else {"dark", "light"})
    assert sum(found.probabilities.values()) == pytest.approx(1.0)
    assert (found.sound is not None, found.image is not None) == (
        kind == "sounds",
        kind == "images",
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "give input or data"),
        ({"input": "abc", "method": "magic"}, "Unknown method 'magic'"),
        ({"input": "abc", "heads": ["nope"]}, "nope"),
        ({"input": ""}, "empty"),
        ({"input": "a" * 1001}, "1,001 tokens"),
        ({"input": "abc", "interventions": [{"kind": "zero_head", "layer": "x"}]}, "is missing"),
        (
            {
                "input": "abc",
                "interventions": [{"kind": "zero_head", "layer": "encoder/7", "head": "1"}],
            },
            "encoder/7",
        ),
        (
            {
                "input": "abc",
                "interventions": [{"kind": "zero_head", "layer": "cross/0", "head": "9"}],
            },
            "1 head here",
        ),
        ({"input": "abc", "interventions": [{"kind": "delete"}]}, "interventions[0]"),
        ({"data": "AAAA", "model": "sounds"}, "not a WAV file"),
        ({"input": "clip.wav", "model": "sounds"}, "takes sounds"),
    ],
)
def test_what_cannot_be_explained(body: dict[str, Any], words: str, client: TestClient) -> None:
    assert words in problem(client, 422, "/explain", **body)


def test_live_page(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "script-src 'sha256-" in policy
    assert "unsafe-inline" not in policy.partition("style-src")[0]
    assert "frame-ancestors 'none'" in policy
    assert "not a production server" in answer.text
    assert '"seq2seq", "classifier"' in answer.text
    for address in ("http://", "https://"):
        assert address not in answer.text.replace("http://www.w3.org/", "")
