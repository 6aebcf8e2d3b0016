"""Runs the application with uvicorn, on a socket of its own, until Ctrl-C or SIGTERM.

    with closing(bound_socket("127.0.0.1", 8000)) as listener:
        run_server(models, listener, limits=Limits())

A signal ends it cleanly: new requests get 503, those that are open are answered for some seconds.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from types import FrameType

import torch
import uvicorn

from regard.core.errors import RegardError
from regard.serving.app import create_app
from regard.serving.limits import Limits
from regard.serving.models import ServedModel
from regard.serving.queue import WorkQueue

SHUTDOWN_SECONDS = 10
KEEP_ALIVE_SECONDS = 5


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket with this address; raises if it cannot be had."""
    if not 0 <= port < 1 << 16:
        raise RegardError(f"--port {port}: a port is a number from 0 (any free one) to 65535.")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except socket.gaierror as error:
        raise RegardError(
            f"--host {host}: no address has this name. Use 127.0.0.1, or an address of this machine."
        ) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise RegardError(
                f"--port {port} is in use. Choose another, or 0 for any free one."
            ) from error
        raise RegardError(
            f"--host {host} --port {port}: {error.strerror or error}. Use 127.0.0.1 and a port from 1024."
        ) from error
    return listener


class _Server(uvicorn.Server):
    """Ends at a signal without passing it on; `on_exit` is called first."""

    def __init__(self, config: uvicorn.Config, on_exit: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_exit = on_exit

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal ends the server when its requests are answered, the second one at once."""
        del sig, frame
        self._on_exit()
        self.force_exit, self.should_exit = self.should_exit, True


def run_server(
    models: dict[str, ServedModel],
    listener: socket.socket,
    *,
    limits: Limits,
    key: str | None = None,
    threads: int | None = None,
) -> None:
    """Serve until a signal; the model runs with so many threads."""

    def prepare() -> None:
        if threads is not None:
            torch.set_num_threads(threads)

    queue = WorkQueue(limits, prepare=prepare)
    try:
        config = uvicorn.Config(
            create_app(models, queue, limits=limits, key=key),
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        _Server(config, queue.refuse).run(sockets=[listener])
    finally:
        queue.close(timeout=SHUTDOWN_SECONDS)
