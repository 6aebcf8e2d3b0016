"""What every request passes before a route sees it: host, key, origin, limits; and headers of every answer.

An ASGI middleware. It reads the body itself, so that the limit holds without a Content-Length too. An error
is a JSON object; a fault of the server is logged without anything of the request.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import ipaddress
import json
import logging
import traceback
from collections.abc import Callable, Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.core.errors import RegardError
from regard.serving.limits import (
    Limits,
    RequestError,
    body_too_large,
    client_gone,
    shutting_down,
    too_many_requests,
)

logger = logging.getLogger("regard.serving")

MIN_KEY = 16
SAFE_METHODS = ("GET", "HEAD")
# Bodies in memory, in units of the largest one.
MAX_BODIES = 8
# A client reads the answer only when it has sent its body; so much of it is read and thrown away.
DRAIN_SECONDS = 1.0
NO_CONTENT_POLICY = (
    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"content-security-policy": NO_CONTENT_POLICY.encode("ascii"),
}


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by name or address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def host_name(header: str) -> str:
    """A Host header without its port.

    >>> host_name("localhost:8000"), host_name("[::1]:8000")
    ('localhost', '::1')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


class Guard:
    """The middleware.

    Args:
        app: What is guarded.
        limits: `max_body_bytes`, `max_requests` and `timeout_seconds` count.
        key: The secret that every request must have; without one only this machine is served.
        is_closing: Whether the server is shutting down.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        key: str | None = None,
        is_closing: Callable[[], bool] = lambda: False,
    ) -> None:
        self.app, self.limits, self.is_closing = app, limits, is_closing
        self._key = None if key is None else _digest(key.encode())
        self.num_requests = self.held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with an error."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        answer = _Answer(send)
        self.num_requests += 1
        body = bytearray()
        try:
            self._admit(scope)
            if scope["method"] not in SAFE_METHODS:
                await self._read(body, scope, receive)
                receive = _replay(bytes(body), receive)
            await self.app(scope, receive, answer)
        except RequestError as error:
            await answer.error(error.status, str(error))
        except Exception as error:
            log_fault(error)
            await answer.error(
                500, "The server made an error, which is in its log. Report it, with its log."
            )
        finally:
            self.num_requests -= 1
            self.held_bytes -= len(body)

    def _admit(self, scope: Scope) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if self._key is None and not is_loopback(host_name(host)):
            # A page of another site whose name was made to resolve to this machine (DNS rebinding).
            raise RequestError(
                403,
                f"The Host header is {host!r}; without a key the server answers to 127.0.0.1 and localhost "
                "only. Use such an address.",
            )
        if self._key is not None and not self._has_key(headers.get(b"authorization", "")):
            raise RequestError(
                401, "The key is missing or wrong. Send the header Authorization: Bearer KEY."
            )
        if scope["method"] not in SAFE_METHODS:
            _validate_origin(headers, host)
        if self.is_closing():
            raise shutting_down()
        if self.num_requests > self.limits.max_requests:
            raise too_many_requests(self.limits)

    def _has_key(self, header: str) -> bool:
        """As a bearer token, or as the password that a browser asks for."""
        kind, _, given = header.partition(" ")
        if kind.lower() == "basic":
            try:
                given = base64.b64decode(given, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return False
        elif kind.lower() != "bearer":
            return False
        assert self._key is not None
        return hmac.compare_digest(_digest(given.strip().encode("utf-8")), self._key)

    async def _read(self, body: bytearray, scope: Scope, receive: Receive) -> None:
        """Read the body, as long as it is within the limits."""
        headers, most = dict(scope["headers"]), self.limits.max_body_bytes
        announced = headers.get(b"content-length", b"0")
        if not announced.isdigit() or int(announced) > most:
            if b"expect" not in headers:
                await _drain(receive)
            raise body_too_large(self.limits)
        try:
            async with asyncio.timeout(self.limits.timeout_seconds):
                while (message := await receive())["type"] == "http.request":
                    part = message.get("body", b"")
                    body += part
                    self.held_bytes += len(part)
                    if len(body) > most or self.held_bytes > MAX_BODIES * most:
                        is_large = len(body) > most
                        await _drain(receive)
                        raise (body_too_large if is_large else too_many_requests)(self.limits)
                    if not message.get("more_body", False):
                        return
        except TimeoutError as error:
            raise RequestError(
                408,
                f"The body did not arrive within {self.limits.timeout_seconds:g} seconds, the maximum of "
                "this server. Send it faster, or start the server with a larger --timeout.",
            ) from error
        raise client_gone()


class _Answer:
    """Sends messages with the headers of every answer."""

    def __init__(self, send: Send) -> None:
        self._send, self._has_begun = send, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._has_begun = True
            own = {name.lower() for name, _ in message["headers"]}
            more = [(name, value) for name, value in HEADERS.items() if name not in own]
            message = {**message, "headers": [*message["headers"], *more]}
        await self._send(message)

    async def error(self, status: int, text: str) -> None:
        """An error as JSON, if nothing was sent yet."""
        if self._has_begun:
            return
        body = error_json(status, text)
        headers = {b"content-type": b"application/json", b"content-length": str(len(body)).encode()}
        headers |= {name.encode(): value.encode() for name, value in error_headers(status).items()}
        await self(
            {"type": "http.response.start", "status": status, "headers": list(headers.items())}
        )
        await self({"type": "http.response.body", "body": body})


def error_json(status: int, text: str) -> bytes:
    """The body of an error: ASCII, since a text may have lone surrogates."""
    return json.dumps({"status": status, "detail": text}).encode("ascii")


def error_headers(status: int) -> Mapping[str, str]:
    """What a client needs beside the status: how to send the key, and when to try again."""
    return {
        401: {"www-authenticate": 'Basic realm="regard", charset="UTF-8", Bearer'},
        429: {"retry-after": "1"},
        503: {"retry-after": "10"},
    }.get(status, {})


def log_fault(error: BaseException) -> None:
    """Log a fault: its type and where it was, without its message, which may quote the request."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error("%s\n%s", type(error).__name__, frames)


def _validate_origin(headers: Mapping[bytes, str], host: str) -> None:
    """Raise for a request that another site makes in a browser."""
    origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site", "same-origin")
    is_own = origin is None or origin.partition("://")[2] == host
    if site not in ("same-origin", "none") or not is_own:
        raise RequestError(
            403,
            f"The request comes from another site ({(origin or site)!r}). Use the page of this server, or "
            "a program that is not a browser.",
        )


def _digest(key: bytes) -> bytes:
    # Of equal length, so that a comparison does not tell the length of the key.
    return hashlib.sha256(key).digest()


async def _drain(receive: Receive) -> None:
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            while (message := await receive())["type"] == "http.request":
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        return


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body first."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def validate_key(key: str) -> str:
    """A key of enough characters that a header can hold."""
    if len(key) < MIN_KEY or not (key.isascii() and key.isprintable() and " " not in key):
        raise RegardError(
            f"The key has {len(key)} characters; it must have {MIN_KEY} or more, of printable ASCII "
            "without spaces. Make one: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return key
