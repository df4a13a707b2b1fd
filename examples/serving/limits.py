"""The size of a body is checked while it arrives: what is too large is never held in memory."""

from __future__ import annotations

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class _TooLarge(Exception):
    pass


class BodyLimit:
    """Answers 413 to a body of more than `limit` bytes, announced or not."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app = app
        self.limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.limit:
                raise _TooLarge
            return message

        try:
            if announced.isdigit() and int(announced) > self.limit:
                raise _TooLarge
            await self.app(scope, counted, send)
        except _TooLarge:
            told = {"error": f"the body is larger than {self.limit} bytes"}
            await JSONResponse(told, 413, {"connection": "close"})(scope, receive, send)
