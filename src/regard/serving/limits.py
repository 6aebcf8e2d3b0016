"""Limits of the server: what a client may send, how much may wait, and how long."""

from __future__ import annotations

from typing import ClassVar

from regard.core.errors import RegardError
from regard.core.formatting import bytes_text, counted, integer_text
from regard.core.options import NonNegativeFloat, Options, PositiveFloat, PositiveInt


class Limits(Options):
    """Limits of `regard serve`.

    Args:
        max_body_bytes: Largest body of a request; 413 above it.
        max_inputs: Most texts or files in a request; 422 above it.
        max_tokens: Most tokens of a text; 422 above it.
        max_new_tokens: Most tokens that a language model may be asked for; 422 above it.
        max_pixels: Largest image before it is resized; 422 above it.
        max_waiting: Most inputs that wait for the model; 429 above it.
        max_requests: Most requests that are open at a time; 429 above it.
        timeout_seconds: Longest time to an answer, the upload included; 504 above it.
        max_batch: Most inputs that the model predicts for at once.
        batch_wait_seconds: How long the first input of a batch waits for others, at most.
    """

    SECTION: ClassVar[str] = "limits"

    max_body_bytes: PositiveInt = 16 << 20
    max_inputs: PositiveInt = 64
    max_tokens: PositiveInt = 1000
    max_new_tokens: PositiveInt = 500
    max_pixels: PositiveInt = 25_000_000
    max_waiting: PositiveInt = 256
    max_requests: PositiveInt = 256
    timeout_seconds: PositiveFloat = 60.0
    max_batch: PositiveInt = 64
    batch_wait_seconds: NonNegativeFloat = 0.005


class RequestError(RegardError):
    """A request that is answered with an error: its HTTP status, and a message for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def body_too_large(limits: Limits) -> RequestError:
    """The error of a body that is too large."""
    return RequestError(
        413,
        f"The body has more than {bytes_text(limits.max_body_bytes)}, the maximum of this server. Send "
        "less at a time, or start the server with a larger --max-body.",
    )


def queue_full(waiting: int, limits: Limits) -> RequestError:
    """The error of inputs for which there is no room."""
    return RequestError(
        429,
        f"{counted(waiting, 'input')} wait for the model, the maximum is "
        f"{integer_text(limits.max_waiting)}. Try again in a moment, or start the server with a larger "
        "--queue.",
    )


def too_many_requests(limits: Limits) -> RequestError:
    """The error of one request too many."""
    return RequestError(
        429,
        f"{counted(limits.max_requests, 'request')} are open, the maximum of this server. Try again in a "
        "moment.",
    )


def out_of_time(limits: Limits) -> RequestError:
    """The error of a request that took too long."""
    return RequestError(
        504,
        f"There was no answer within {limits.timeout_seconds:g} seconds, the maximum of this server. Send "
        "less at a time, or start the server with a larger --timeout.",
    )


def shutting_down() -> RequestError:
    """The error of a request that comes too late."""
    return RequestError(
        503, "The server is shutting down. Start it again, then repeat the request."
    )


def client_gone() -> RequestError:
    """Ends the handling of a request whose client has left; nobody reads it."""
    return RequestError(499, "The client has closed the connection.")
