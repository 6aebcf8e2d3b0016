"""`regard serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from regard import api
from regard.cli.options import Device, Plugins, Threads, keywords, log


def run_serve(
    runs: Annotated[list[Path], "RUN...", "Folders of trained runs; the first is the default."],
    *,
    host: Annotated[
        str, "ADDRESS", "Address to listen on; other than this machine's own needs a key."
    ] = "127.0.0.1",
    port: Annotated[int, "Port; 0 is any free one."] = 8000,
    key_file: Annotated[
        Path | None,
        "FILE",
        "Its first line is the key that requests must have; default: REGARD_SERVE_KEY, else none.",
    ] = None,
    max_body: Annotated[int | None, "MIB", "Largest body of a request; default: 16."] = None,
    max_tokens: Annotated[int | None, "Most tokens of a text; default: 1,000."] = None,
    max_new_tokens: Annotated[
        int | None, "Most tokens that a language model writes; default: 500."
    ] = None,
    queue: Annotated[int | None, "Most inputs that wait for the model; default: 256."] = None,
    timeout: Annotated[float | None, "SECONDS", "Longest time to an answer; default: 60."] = None,
    device: Device = None,
    threads: Threads = None,
    plugin: Plugins = None,
) -> None:
    """Serve trained runs: a live page to type texts or upload sounds and images, and a small API.

    On the page, change the attention of the model and see the answer change, and compare two models.
    The API is described by /openapi.json. It serves this machine only, unless there is a key. It is not a
    production server.
    """
    options = keywords(locals())
    api.serve(**options, log=log)
