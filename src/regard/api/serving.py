"""`serve`: a live page and an API for trained runs, on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

from regard.api.options import (
    File,
    Log,
    Plugins,
    given_options,
    load_plugins,
    optional_path,
    silent,
    torch_threads,
)
from regard.core.device import resolve_device
from regard.core.errors import MissingDependencyError, RegardError
from regard.core.malloc import return_freed_memory
from regard.runs.load import TrainedRun, load

KEY_VARIABLE = "REGARD_SERVE_KEY"
MIB = 1 << 20


def serve(
    runs: File | TrainedRun | Sequence[File | TrainedRun],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    key_file: File | None = None,
    max_body: int | None = None,
    max_tokens: int | None = None,
    max_new_tokens: int | None = None,
    queue: int | None = None,
    timeout: float | None = None,
    device: str | None = None,
    threads: int | None = None,
    plugin: Plugins = (),
    log: Log | None = None,
) -> None:
    """Serve runs until Ctrl-C. Not a production server.

    Only this machine is served, unless there is a key: the first line of `key_file`, or the variable
    REGARD_SERVE_KEY. `max_body` is in MiB. `log` receives the address.
    """
    for module in ("fastapi", "uvicorn"):
        if find_spec(module) is None:
            raise MissingDependencyError(
                f"regard serve needs {module}, which is not installed. Run: pip install 'regard[serve]'"
            )
    from regard.serving.guard import is_loopback, validate_key
    from regard.serving.limits import Limits
    from regard.serving.models import served_models
    from regard.serving.server import bound_socket, run_server

    log = log or silent
    sizes = {
        "max_body_bytes": None if max_body is None else max_body * MIB,
        "max_tokens": max_tokens,
        "max_new_tokens": max_new_tokens,
        "max_waiting": queue,
        "timeout_seconds": timeout,
    }
    limits = Limits(**given_options(sizes))
    key = _read_key(optional_path(key_file))
    if key is not None:
        key = validate_key(key)
    elif not is_loopback(host):
        raise RegardError(
            f"--host {host}: other machines could reach it, which needs a key. Name a file that has one "
            f"with --key-file, set {KEY_VARIABLE}, or use --host 127.0.0.1."
        )
    given = [runs] if isinstance(runs, str | os.PathLike | TrainedRun) else list(runs)
    if not given:
        raise RegardError("There is no run to serve. Name the folder of a trained run.")
    place = None if device is None else resolve_device(device)
    load_plugins(plugin)
    with closing(bound_socket(host, port)) as listener, torch_threads(threads):
        loaded = [each if isinstance(each, TrainedRun) else load(each) for each in given]
        if place is not None:
            for run in loaded:
                run.model.to(place)
        # Batches differ in size, and the process should not stay as large as the largest.
        return_freed_memory()
        models = served_models(loaded, limits)
        address, actual_port = listener.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        listener.listen()  # who reads the address may connect
        url = f"http://{shown}:{actual_port}/"
        log(f"serving {', '.join(models)} on {url} (Ctrl-C ends it; not a production server)")
        run_server(models, listener, limits=limits, key=key, threads=threads)
    log("stopped")


def _read_key(file: Path | None) -> str | None:
    """The first line of a file, or the variable; None if there is neither."""
    if file is None:
        return os.environ.get(KEY_VARIABLE) or None
    try:
        with file.open(encoding="utf-8") as lines:
            return lines.readline(10_000).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise RegardError(
            f"--key-file {file}: {reason}. Name a file whose first line is the key."
        ) from error
