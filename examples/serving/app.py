"""HTTP: the routes of the Open Inference Protocol, generation, health and metrics."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from examples.serving import protocol
from examples.serving.entries import Entry
from examples.serving.limits import BodyLimit
from examples.serving.messages import End, Generate, Token
from examples.serving.metrics import Metrics
from examples.serving.pool import Pool, Sequence, ServingError
from examples.serving.settings import Settings


def create_app(settings: Settings) -> FastAPI:
    """The server; its workers start and end with it."""
    metrics = Metrics()
    pool = Pool(settings, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        pool.start()
        try:
            yield
        finally:
            await pool.stop()

    app = FastAPI(title="Packages of torch-max-backend", lifespan=lifespan)
    app.add_middleware(BodyLimit, limit=settings.max_body)
    app.state.pool = pool

    def told(name: str, start: float, status: int) -> None:
        metrics.requests.labels(name, str(status)).inc()
        metrics.seconds.labels(name).observe(time.perf_counter() - start)

    def entry_of(name: str) -> Entry:
        if name not in pool.entries and pool.entries:
            raise ServingError(404, f"there is no entry {name!r}; there are {list(pool.entries)}")
        if name not in pool.entries:
            raise ServingError(503, pool.problem)
        return pool.entries[name]

    @app.exception_handler(ServingError)
    async def failed(request: Request, error: ServingError) -> JSONResponse:
        headers = {"retry-after": "1"} if error.status in (429, 503) else None
        return JSONResponse({"error": str(error)}, error.status, headers)

    @app.get("/v2/health/live")
    async def live() -> dict[str, bool]:
        return {"live": True}

    @app.get("/v2/health/ready")
    async def ready() -> dict[str, bool]:
        if not pool.ready:
            raise HTTPException(503, pool.problem)
        return {"ready": True}

    @app.get("/metrics")
    async def read_metrics() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/v2/models/{name}")
    async def describe(name: str) -> dict[str, Any]:
        return protocol.metadata(entry_of(name))

    @app.get("/v2/models/{name}/ready")
    async def model_ready(name: str) -> dict[str, Any]:
        entry_of(name)
        return {"name": name, "ready": pool.ready}

    @app.post("/v2/models/{name}/infer")
    async def infer(name: str, body: protocol.InferRequest) -> Response:
        start, status = time.perf_counter(), 200
        entry = entry_of(name)
        try:
            results = await pool.call(entry, protocol.arrays(entry, body))
            return Response(protocol.answer(name, body.id, results), media_type="application/json")
        except protocol.InvalidRequest as error:
            status = 400
            raise ServingError(400, str(error)) from None
        except ServingError as error:
            status = error.status
            raise
        finally:
            told(name, start, status)

    def submit(body: protocol.GenerateRequest) -> Sequence:
        return pool.submit(
            Generate(0, body.tokens, body.max_tokens, body.stop, body.temperature, body.seed)
        )

    @app.post("/v2/generate")
    async def generate(body: protocol.GenerateRequest) -> dict[str, Any]:
        start = time.perf_counter()
        sequence = submit(body)
        async with contextlib.aclosing(pool.events(sequence)) as events:
            async for event in events:
                if isinstance(event, End):
                    told("generate", start, 500 if event.reason == "error" else 200)
                    if event.reason == "error":
                        raise ServingError(500, event.why)
                    return {"tokens": sequence.tokens, "finish_reason": event.reason}
        raise AssertionError("a sequence has an end")

    @app.post("/v2/generate_stream")
    async def generate_stream(body: protocol.GenerateRequest) -> StreamingResponse:
        start = time.perf_counter()
        sequence = submit(body)

        async def lines() -> AsyncIterator[str]:
            async with contextlib.aclosing(pool.events(sequence)) as events:
                async for event in events:
                    if isinstance(event, Token):
                        yield _line({"token": event.token})
                    elif event.reason == "error":
                        told("generate", start, 500)
                        yield _line({"error": event.why})
                    else:
                        told("generate", start, 200)
                        yield _line({"finish_reason": event.reason})

        return StreamingResponse(lines(), media_type="text/event-stream")

    return app


def _line(event: dict[str, Any]) -> str:
    """A server-sent event."""
    return f"data: {json.dumps(event)}\n\n"
