"""The server under load: many clients and requests, requests made from its schema, clients that are killed.

Figures are printed (`pytest -m stress -s tests/serving`).
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.serving.conftest import Process

from regard import api
from regard.data import RowErrors, cmudict_pairs

pytestmark = pytest.mark.stress

CLIENTS, REQUESTS, TRAINING_STEPS = 32, 500, 200
FIRST_REQUESTS, ALL_REQUESTS, MAX_GROWTH = 2_000, 20_000, 20 << 20
CASES = 2_000
PLAIN = ("input", "inputs", "data", "interventions")
# One client that is killed: requests that take long, in several connections.
KILLED = """
import json, socket, sys, time
body = json.dumps({"inputs": ["abcdefghij" * 20] * 32, "beam_size": 16}).encode()
head = b"POST /predict HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\n"
clients = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(8)]
for each in clients:
    each.sendall(head + b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
print("sent", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the recipe pronounce-quick, trained briefly."""
    folder = tmp_path_factory.mktemp("load") / "quick"
    recipe, steps = "pronounce-quick", TRAINING_STEPS
    api.train("pronounce", recipe=recipe, steps=steps, threads=1, out=folder)
    return folder


@pytest.fixture(scope="module")
def server(quick: Path) -> Iterator[Process]:
    process = Process(quick)
    yield process
    assert process.stop() == (0, "stopped\n")


@pytest.fixture(scope="module")
def words() -> list[str]:
    """Words of the dictionary, in random order."""
    found = sorted({row.input for row in cmudict_pairs().rows(errors=RowErrors(skip=True))})
    random.Random(0).shuffle(found)
    return found


async def client(port: int, texts: Iterator[str], found: dict[str, str]) -> None:
    """Send a request for one text after another over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for text in texts:
        body = json.dumps({"inputs": [text], "beam_size": 1}).encode()
        writer.write(
            b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body) + body
        )
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 200 "), head
        length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
        answer = json.loads(await reader.readexactly(length))
        found[text] = answer["predictions"][0]["output"]
    writer.close()
    await writer.wait_closed()


def load(port: int, texts: Sequence[str], *, clients: int) -> tuple[dict[str, str], float]:
    """The prediction for each text, and requests per second."""

    async def run() -> tuple[dict[str, str], float]:
        found: dict[str, str] = {}
        rest, begin = iter(texts), time.perf_counter()
        await asyncio.gather(*(client(port, rest, found) for _ in range(clients)))
        return found, len(texts) / (time.perf_counter() - begin)

    return asyncio.run(run())


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) << 10


def test_predictions_are_those_of_the_command(
    server: Process, quick: Path, words: list[str]
) -> None:
    texts = words[:REQUESTS]
    found, rate = load(server.port, texts, clients=CLIENTS)
    expected = api.predict(quick, texts, beam=1, threads=1)
    assert [found[text] for text in texts] == expected
    assert isinstance(expected, list)
    print(f"\n{len(texts)} requests, {len(set(expected))} different outputs, {rate:.0f} per second")


def test_throughput(server: Process, words: list[str]) -> None:
    rates: dict[int, list[float]] = {1: [], CLIENTS: []}
    for turn in range(3):
        for clients, rate in rates.items():
            begin = turn * REQUESTS
            rate.append(load(server.port, words[begin : begin + REQUESTS], clients=clients)[1])
    alone, together = (sorted(rate)[1] for rate in rates.values())
    print(f"\n1 client {alone:.0f}, {CLIENTS} clients {together:.0f} requests per second")
    assert together >= 3 * alone


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads resident memory of Linux")
def test_memory(server: Process, words: list[str]) -> None:
    load(server.port, words[:FIRST_REQUESTS], clients=CLIENTS)
    before = resident_bytes(server.process.pid)
    load(server.port, words[FIRST_REQUESTS:ALL_REQUESTS], clients=CLIENTS)
    growth = resident_bytes(server.process.pid) - before
    print(
        f"\n{before / 2**20:.0f} MiB after 2,000 requests, {growth / 2**20:+.1f} MiB after 20,000"
    )
    assert growth <= MAX_GROWTH


def test_killed_clients_free_their_slots(server: Process, words: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(server.port)], stdout=subprocess.PIPE
    ) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"sent\n"
        until(lambda: server.get("health")["waiting"] > 100)
        killed.kill()
    begin = time.perf_counter()
    until(lambda: server.get("health")["waiting"] == 0)
    print(f"\nfree after {time.perf_counter() - begin:.2f} s")
    assert len(load(server.port, words[:64], clients=CLIENTS)[0]) == 64


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_requests_made_from_the_schema(
    run_folders: Callable[[str], Path], start: Callable[..., Process]
) -> None:
    """No fault of the server, and answers as the schema says; half of the requests name a model."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings, strategies
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    kinds = ("seq2seq", "classifier", "language_model", "images", "sounds")
    server = start(*map(run_folders, kinds), "--max-new-tokens", "20")
    schema = schemathesis.openapi.from_url(f"{server.url}openapi.json")
    statuses: dict[int, int] = {}

    def check(case: Any, model: str | None) -> None:
        if model is not None and isinstance(case.body, dict):
            plain = {name: case.body[name] for name in PLAIN if name in case.body}
            case.body = {**plain, "model": model}
        answer = case.call(base_url=server.url)
        statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
        assert "Traceback" not in answer.text
        case.validate_response(
            answer,
            checks=[
                not_a_server_error,
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
            ],
        )

    options: dict[str, Any] = {
        "deadline": None,
        "derandomize": True,
        "database": None,
        "phases": [Phase.generate],
        "suppress_health_check": list(HealthCheck),
    }
    model = strategies.sampled_from([*kinds, *[None] * len(kinds)])
    counts = {"GET /health": 1, "GET /models": 1, "POST /predict": 1000, "POST /explain": 1000}
    for name, count in counts.items():
        method, path = name.split()

        @settings(max_examples=count, **options)
        @given(schema[path][method].as_strategy(), model)
        def send(case: Any, model: str | None) -> None:
            check(case, model)

        send()
    print(f"\n{sum(statuses.values())} requests: {dict(sorted(statuses.items()))}")
    assert sum(statuses.values()) >= CASES
    assert statuses[200] > 100
    assert server.get("health")["waiting"] == 0
    code, log = server.stop()
    assert (code, log) == (0, "stopped\n")
