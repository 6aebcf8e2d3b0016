"""The routes of the server: predictions, explanations, the models, and the live page.

    app = create_app(served_models([run], limits), queue)

A route encodes its inputs in a thread of its own, puts them into the queue, and waits for the answer, for
the end of its time, or for the client to leave; in both cases what still waits is dropped.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import reprlib
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from regard import __version__
from regard.core.errors import RegardError
from regard.core.formatting import counted, truncate
from regard.core.records.look import LookRecord
from regard.serving.guard import Guard, error_headers, error_json
from regard.serving.limits import Limits, RequestError, client_gone, out_of_time
from regard.serving.models import ServedModel, model_named
from regard.serving.queue import Job, Work, WorkQueue
from regard.serving.schemas import (
    ErrorResponse,
    ExplainRequest,
    HealthResponse,
    ModelsResponse,
    Prediction,
    PredictRequest,
    PredictResponse,
)
from regard.views.pages.look import look_page

NOT_FOR_PRODUCTION = "A local page and a small API for one person. It is not a production server."
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorResponse, "description": "The body is not JSON."},
    401: {"model": ErrorResponse, "description": "The key is missing or wrong."},
    403: {"model": ErrorResponse, "description": "Another host, or a page of another site."},
    408: {"model": ErrorResponse, "description": "The body arrived too slowly."},
    413: {"model": ErrorResponse, "description": "The body is too large."},
    422: {"model": ErrorResponse, "description": "An input or an option cannot be used."},
    429: {"model": ErrorResponse, "description": "Too many inputs wait."},
    503: {"model": ErrorResponse, "description": "The server is shutting down."},
    504: {"model": ErrorResponse, "description": "It took too long."},
}
MAX_SHOWN = 100  # characters of an unknown key in an error
Result = TypeVar("Result")


def create_app(
    models: dict[str, ServedModel],
    queue: WorkQueue,
    *,
    limits: Limits,
    key: str | None = None,
) -> FastAPI:
    """The application, with its guard; the queue is the caller's to close."""
    app = FastAPI(
        title="regard serve",
        version=__version__,
        description=NOT_FOR_PRODUCTION,
        docs_url=None,  # both load scripts from elsewhere
        redoc_url=None,
        responses=ERRORS,
    )
    app.add_middleware(Guard, limits=limits, key=key, is_closing=lambda: queue.refuses)
    _add_error_handlers(app)
    session = _Session(queue, limits)

    @app.get("/health", summary="Whether the server is ready")
    async def health() -> HealthResponse:
        return HealthResponse(status="ready", version=__version__, waiting=queue.num_waiting)

    @app.get("/models", summary="The models and what they take")
    async def list_models() -> ModelsResponse:
        return ModelsResponse(models=[each.info() for each in models.values()])

    @app.post("/predict", summary="Predict for one or several inputs")
    async def predict(request: Request, body: PredictRequest) -> PredictResponse:
        model = model_named(body.model, models)
        values: Sequence[str | bytes] = body.inputs or body.data or ()
        _validate_count(values, limits)
        work = model.work(body)
        outputs = await session.answers(
            request, lambda: [model.encode(each) for each in values], work
        )
        return PredictResponse(
            model=model.name, predictions=[Prediction(output=each) for each in outputs]
        )

    @app.post("/explain", summary="The attention on one input", response_model=LookRecord)
    async def explain(request: Request, body: ExplainRequest) -> Response:
        model = model_named(body.model, models)
        value: str | bytes = body.data or b"" if body.input is None else body.input
        work = model.explanation(body)
        (record,) = await session.answers(request, lambda: [model.encode_shown(value)], work)
        return Response(record, media_type="application/json")

    page = look_page([], live=True, models=list(models))
    policy = {"Content-Security-Policy": content_policy(page)}

    @app.get("/", include_in_schema=False)
    async def live_page() -> Response:
        return HTMLResponse(page, headers=policy)

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return Response(status_code=204)

    return app


class _Session:
    """Runs the computations of requests: encoding in one thread, models in that of the queue."""

    def __init__(self, queue: WorkQueue, limits: Limits) -> None:
        self.queue, self.limits = queue, limits
        self._encoder = ThreadPoolExecutor(1, thread_name_prefix="encode")

    async def answers(
        self,
        request: Request,
        encode: Callable[[], Sequence[tuple[Any, int]]],
        work: Work,
    ) -> list[Any]:
        """The answers for encoded inputs; what is not waited for any more is cancelled."""
        until = time.monotonic() + self.limits.timeout_seconds
        gone = asyncio.ensure_future(_disconnected(request))
        jobs: list[Job] = []
        try:
            loop = asyncio.get_running_loop()
            encoding = loop.run_in_executor(self._encoder, encode)
            inputs = await self._first(encoding, gone, until)
            jobs = self.queue.submit(work, inputs)
            waiting = asyncio.gather(*(asyncio.wrap_future(job.answer) for job in jobs))
            return await self._first(waiting, gone, until)
        finally:
            gone.cancel()
            self.queue.cancel(jobs)

    async def _first(
        self, computing: asyncio.Future[Result], gone: asyncio.Future[None], until: float
    ) -> Result:
        """What is computed, unless the time ends or the client leaves before."""
        left = max(0.0, until - time.monotonic())
        waited: set[asyncio.Future[Any]] = {computing, gone}
        await asyncio.wait(waited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if computing.done():
            return computing.result()
        computing.add_done_callback(lambda done: done.cancelled() or done.exception())
        computing.cancel()
        if gone.done():
            raise client_gone()
        raise out_of_time(self.limits)


def content_policy(page: str) -> str:
    """What a page may do: run its own scripts, by their hashes, and ask this server."""
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digests = (hashlib.sha256(each.encode()).digest() for each in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(each).decode()}'" for each in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "media-src data: blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
        "form-action 'none'"
    )


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _validate_count(values: Sequence[object], limits: Limits) -> None:
    if len(values) > limits.max_inputs:
        raise RegardError(
            f"The request has {counted(len(values), 'input')}, the maximum is {limits.max_inputs}. Send "
            "several requests."
        )


def _add_error_handlers(app: FastAPI) -> None:
    handlers: dict[type[Exception], Callable[[Any], tuple[int, str]]] = {
        RequestError: lambda error: (error.status, str(error)),
        RegardError: lambda error: (422, str(error)),
        RequestValidationError: lambda error: (422, validation_text(error)),
        HTTPException: lambda error: (error.status_code, f"{error.detail}."),
    }

    def handler(
        described: Callable[[Any], tuple[int, str]],
    ) -> Callable[[Request, Exception], Awaitable[Response]]:
        async def handle(request: Request, error: Exception) -> Response:
            del request
            status, text = described(error)
            headers = {**error_headers(status), **(getattr(error, "headers", None) or {})}
            return Response(error_json(status, text), status, headers, "application/json")

        return handle

    for kind, described in handlers.items():
        app.add_exception_handler(kind, handler(described))


def validation_text(error: RequestValidationError) -> str:
    """The first fault of a body: the field, its value and the rule."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f"The body is not JSON: {first['ctx']['error']}. Send a JSON object."
    path = ""
    for step in first["loc"][1:]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    path = path.removeprefix(".")
    if not path:
        rule = str(first.get("ctx", {}).get("error") or "it must be an object").removesuffix(".")
        return f"The body: {rule}. Send JSON, with Content-Type: application/json."
    if first["type"] == "missing":
        return f"{path} is missing. See /openapi.json."
    if first["type"] == "extra_forbidden":
        return f"{truncate(path, MAX_SHOWN)} is unknown. Remove it; see /openapi.json."
    rule = first["msg"].partition(" should ")[2] or str(first.get("ctx", {}).get("error"))
    return f"{path}={reprlib.repr(first['input'])}: it must {rule}. See /openapi.json."
