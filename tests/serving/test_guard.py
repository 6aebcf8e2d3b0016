"""The guard: host, key, origin, bodies with and without a length, open requests, faults, headers."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, Router
from starlette.testclient import TestClient

from regard.core.errors import RegardError
from regard.serving.guard import Guard, validate_key
from regard.serving.limits import Limits

KEY = "correct-horse-battery-staple"
Ask = Callable[..., Any]


async def echo(request: Request) -> JSONResponse:
    if "fault" in request.query_params:
        raise KeyError(request.query_params["fault"])
    body = await request.body()
    return JSONResponse({"bytes": len(body)})


def guarded(**options: Any) -> Guard:
    limits = Limits(**options.pop("limits", {}))
    app = Router([Route("/", echo, methods=["GET", "POST"])])
    return Guard(app, limits=limits, **options)


@pytest.fixture
def ask() -> Ask:
    """Send a request to an app with a guard of the given options."""

    def send(
        method: str = "POST",
        *,
        headers: dict[str, str] | None = None,
        content: bytes | Iterable[bytes] = b"{}",
        base_url: str = "http://127.0.0.1:8000",
        path: str = "/",
        **options: Any,
    ) -> Any:
        client = TestClient(guarded(**options), base_url=base_url)
        body: dict[str, Any] = {} if method == "GET" else {"content": content}
        return client.request(method, path, headers=headers, **body)

    return send


@pytest.mark.parametrize(
    "host", ["http://127.0.0.1:8000", "http://localhost", "http://LOCALHOST:9", "http://[::1]:8000"]
)
def test_hosts_of_this_machine(host: str, ask: Ask) -> None:
    assert ask(base_url=host).status_code == 200


@pytest.mark.parametrize(
    "host", ["http://example.com:8000", "http://127.0.0.1.example.com", "http://192.168.0.7:8000"]
)
def test_other_hosts(host: str, ask: Ask) -> None:
    """A site whose name resolves to this machine."""
    for method in ("GET", "POST"):
        answer = ask(method, base_url=host)
        assert answer.status_code == 403
        assert "127.0.0.1" in answer.json()["detail"]
    assert ask(base_url=host, key=KEY, headers=bearer(KEY)).status_code == 200


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def basic(text: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


@pytest.mark.parametrize("headers", [bearer(KEY), basic(f"me:{KEY}"), basic(f":{KEY}")])
def test_key(headers: dict[str, str], ask: Ask) -> None:
    for method in ("GET", "POST"):
        assert ask(method, key=KEY, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer(""),
        bearer(KEY[:-1]),
        bearer(KEY + "x"),
        bearer("ключ"),
        basic(KEY),
        basic("me:"),
        {"Authorization": "Basic @@@"},
        {"Authorization": KEY},
        {"Authorization": f"Digest {KEY}"},
    ],
)
def test_wrong_keys(headers: dict[str, str], ask: Ask) -> None:
    encoded: Any = {name: value.encode() for name, value in headers.items()}
    for method in ("GET", "POST"):
        answer = ask(method, key=KEY, headers=encoded)
        assert answer.status_code == 401
        assert "Bearer" in answer.json()["detail"]
        assert answer.headers["www-authenticate"].startswith("Basic ")


@pytest.mark.parametrize(
    "key", ["", "short", "with a space in it all", "ключ" * 5, "k" * 20 + "\n"]
)
def test_keys_that_are_refused(key: str) -> None:
    with pytest.raises(RegardError, match="16 or more"):
        validate_key(key)
    assert validate_key(KEY) == KEY


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "cross-site"},
    ],
)
def test_posts_of_other_sites(headers: dict[str, str], ask: Ask) -> None:
    answer = ask(headers=headers)
    assert answer.status_code == 403
    assert "another site" in answer.json()["detail"]
    # A link to the page is followed.
    assert ask("GET", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://127.0.0.1:8000"},
        {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_posts_of_the_own_page(headers: dict[str, str], ask: Ask) -> None:
    assert ask(headers=headers).status_code == 200


def test_headers_of_every_answer(ask: Ask) -> None:
    for answer in (ask(), ask("GET", path="/nothing"), ask(headers={"Origin": "null"})):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("chunked", [False, True])
def test_body_limit(chunked: bool, ask: Ask) -> None:
    def content(size: int) -> Any:
        return iter([b"x"] * size) if chunked else b"x" * size

    limits = {"max_body_bytes": 100}
    assert ask(content=content(100), limits=limits).json() == {"bytes": 100}
    answer = ask(content=content(101), limits=limits)
    assert answer.status_code == 413
    assert "100 B" in answer.json()["detail"]
    assert "--max-body" in answer.json()["detail"]


@pytest.mark.parametrize("length", ["-1", "many", "99999999999999999999"])
def test_lengths_that_lie(length: str, ask: Ask) -> None:
    assert ask(headers={"Content-Length": length}).status_code == 413


async def exchange(
    app: Any, parts: AsyncIterator[bytes], headers: Iterable[tuple[bytes, bytes]] = ()
) -> tuple[int, Any]:
    """Status and JSON of a request whose body arrives in parts."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), *headers],
    }
    sent: list[Any] = []

    async def receive() -> Any:
        try:
            return {"type": "http.request", "body": await anext(parts), "more_body": True}
        except StopAsyncIteration:
            return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_a_body_that_never_ends_is_not_kept() -> None:
    app, received = guarded(limits={"max_body_bytes": 1000}), 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal received
        while True:
            received += 100
            yield b"x" * 100
            await asyncio.sleep(0.001)

    status, _ = asyncio.run(exchange(app, endless()))
    assert status == 413
    assert received > 1000
    assert (app.num_requests, app.held_bytes) == (0, 0)


def test_a_slow_body() -> None:
    app = guarded(limits={"timeout_seconds": 0.05})

    async def slow() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.sleep(20)

    status, found = asyncio.run(exchange(app, slow()))
    assert status == 408
    assert "0.05 seconds" in found["detail"]
    assert (app.num_requests, app.held_bytes) == (0, 0)


def test_bodies_together_are_limited() -> None:
    app = guarded(limits={"max_body_bytes": 100})

    async def check() -> list[int]:
        go = asyncio.Event()

        async def held() -> AsyncIterator[bytes]:
            yield b"x" * 100
            await go.wait()

        tasks = [asyncio.create_task(exchange(app, held())) for _ in range(9)]
        async with asyncio.timeout(20):
            while not any(task.done() for task in tasks):
                await asyncio.sleep(0.01)
        go.set()
        return sorted([status for status, _ in await asyncio.gather(*tasks)])

    assert asyncio.run(check()) == [200] * 8 + [429]
    assert app.held_bytes == 0


def test_open_requests_are_limited() -> None:
    app = guarded(limits={"max_requests": 2})

    async def check() -> list[int]:
        go = asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield b"x"
            await go.wait()

        tasks = [asyncio.create_task(exchange(app, slow())) for _ in range(3)]
        async with asyncio.timeout(20):
            while not any(task.done() for task in tasks):
                await asyncio.sleep(0.01)
        go.set()
        return sorted([status for status, _ in await asyncio.gather(*tasks)])

    assert asyncio.run(check()) == [200, 200, 429]


def test_a_fault_is_logged_without_the_request(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        answer = ask(path="/?fault=secret", content=b"another secret text")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/json"
    assert "Traceback" not in answer.text
    assert "secret" not in answer.text
    assert "KeyError" in caplog.text
    assert "in echo" in caplog.text
    assert "secret" not in caplog.text


def test_closing(ask: Ask) -> None:
    answer = ask("GET", is_closing=lambda: True)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "10"
