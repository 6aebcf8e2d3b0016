"""`regard serve` as a command: its errors, a real process, a signal, the key."""

from __future__ import annotations

import signal
import socket
import urllib.error
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.factories.command_line import regard
from tests.serving.conftest import Process

from regard import api
from regard.core.errors import MissingDependencyError, RegardError
from regard.serving.server import bound_socket

KEY = "correct-horse-battery-staple"


@pytest.fixture
def run(run_folders: Callable[[str], Path]) -> Path:
    return run_folders("seq2seq")


def test_a_process(
    run_folders: Callable[[str], Path], run: Path, start: Callable[..., Process]
) -> None:
    """Predictions, two runs of one name, a long body in chunks, garbage, clients that leave."""
    server = start(run, run_folders("classifier"), run, "--max-body", "1")
    (found,) = server.post("predict", inputs=["abc"])["predictions"]
    assert found["output"] == api.predict(run, ["abc"])[0]  # type: ignore[index]
    names = [each["name"] for each in server.get("models")["models"]]
    assert names == ["seq2seq", "classifier", "seq2seq (2)"]

    def exchange(content: bytes, *, leaves: bool = False) -> bytes:
        with closing(socket.create_connection(("127.0.0.1", server.port), timeout=30)) as client:
            client.sendall(content)
            return b"" if leaves else client.makefile("rb").read()

    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    chunks = (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 17 + b"0\r\n\r\n"
    answer = exchange(head + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunks)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"1.00 MiB" in answer
    assert b"400" in exchange(b"\x16\x03\x01 garbage\r\n\r\n").partition(b"\r\n")[0]
    exchange(head + b"Content-Length: 50\r\n\r\n{", leaves=True)
    exchange(head + b'Content-Length: 19\r\n\r\n{"inputs": ["abc"]}', leaves=True)
    assert server.get("health")["waiting"] == 0
    assert server.stop(signal.SIGINT) == (0, "stopped\n")


def test_a_process_with_a_key(run: Path, tmp_path: Path, start: Callable[..., Process]) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    server = start(run, "--host", "0.0.0.0", "--key-file", tmp_path / "key")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        server.post("predict", inputs=["abc"])
    headers = {"Authorization": f"Bearer {KEY}", "Host": "elsewhere.example:80"}
    assert server.post("predict", headers, inputs=["abc"])["model"] == run.name
    assert server.stop(signal.SIGTERM) == (0, "stopped\n")


def test_port_in_use(run: Path) -> None:
    with closing(bound_socket("127.0.0.1", 0)) as other:
        other.listen()
        port = other.getsockname()[1]
        done = regard("serve", run, "--port", port)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr == f"error: --port {port} is in use. Choose another, or 0 for any free one.\n"
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--port", "70000"], "--port 70000"),
        (["--host", "0.0.0.0"], "--host 0.0.0.0: other machines could reach it"),
        (["--host", "::"], "--key-file"),
        (["--host", "example.com"], "needs a key"),
        (["--key-file", "absent"], "--key-file absent: No such file"),
        (["--max-tokens", "0"], "max_tokens=0"),
        (["--timeout", "-1"], "timeout_seconds=-1"),
        (["--threads", "0"], "--threads 0"),
    ],
)
def test_options_that_are_refused(options: list[str], words: str, run: Path) -> None:
    done = regard("serve", run, *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_short_key(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_SERVE_KEY", "secret")
    done = regard("serve", run, "--host", "0.0.0.0")
    assert "16 or more" in done.stderr
    assert "secret'" not in done.stderr


def test_runs_that_cannot_be_served(tmp_path: Path) -> None:
    assert "nowhere" in regard("serve", tmp_path / "nowhere", "--port", "0").stderr
    with pytest.raises(RegardError, match="no run to serve"):
        api.serve([])


@pytest.mark.parametrize("module", ["fastapi", "uvicorn"])
def test_missing_extra(module: str, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "regard.api.serving.find_spec", lambda name: None if name == module else object()
    )
    with pytest.raises(MissingDependencyError, match=rf"{module}.*pip install 'regard\[serve\]'"):
        api.serve(run)


def test_help_says_what_it_is_not() -> None:
    text = " ".join(regard("serve", "--help").stdout.split())
    assert "It is not a production server" in text
