"""The addresses at which an engine is watched. Who may ask is `web.access`'s to say, as for every other address."""

import asyncio
import json
from functools import partial

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from ..openai_api.refusal import Refusal
from ..web.disconnect import EventStream, read_body
from ..web.limits import Limits
from .feed import Feed, Full, steer
from .page import PAGE_HEADERS, module_text, served_page

_MOST_SECONDS = 3600.0  # of one stream; a page asks again
_MOST_BYTES = 1024


class WatchApi:
    """The endpoints."""

    def __init__(self, feed: Feed, limits: Limits) -> None:
        self.feed, self.limits = feed, limits

    def routes(self) -> list[Route]:
        """Return them all."""
        return [
            Route("/", self.page),
            Route("/watch.js", self.module),
            Route("/watch/events", self.events),
            Route("/watch/pace", self.pace, methods=["POST"]),
        ]

    async def page(self, request: Request) -> Response:
        """The page, which holds nothing of anybody's."""
        return HTMLResponse(served_page(), headers=PAGE_HEADERS)

    async def module(self, request: Request) -> Response:
        """Its JavaScript."""
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
        return Response(module_text(), media_type="text/javascript", headers=headers)

    async def events(self, request: Request) -> Response:
        """Frames as server-sent events, until the watcher goes."""
        try:
            watcher = self.feed.enter()
        except Full as error:
            raise Refusal(503, str(error), code="too_many_watchers", Retry_After="10") from None
        deadline = asyncio.get_running_loop().time() + _MOST_SECONDS
        return EventStream(watcher.events(), partial(self.feed.leave, watcher), deadline)

    async def pace(self, request: Request) -> Response:
        """Stop the engine, let one pass through, or slow it down."""
        if not self.feed.may_steer:
            raise Refusal(
                403, "the engine's pace is set only where the server was started with --watch", code="no_watch"
            )
        body = await read_body(request, _MOST_BYTES, self.limits.receive_seconds)
        try:
            steer(self.feed, json.loads(body))
        except ValueError as error:
            raise Refusal(400, str(error), code="invalid_pace") from None
        return JSONResponse({"is_slow": self.feed.camera.pace.is_slow})
