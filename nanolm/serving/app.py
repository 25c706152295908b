"""An OpenAI-compatible HTTP endpoint over the engine: addresses, and what becomes of errors.

It serves one model, and encrypts nothing: before other machines it stands behind a proxy that does.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..openai_api.refusal import Refusal
from ..text.tokenizer import Tokenizer
from ..watching.endpoints import WatchApi
from ..watching.feed import Feed
from ..web.access import Access, Guard
from ..web.limits import Limits
from .async_engine import AsyncEngine
from .endpoints import Api


def build_app(
    thread: AsyncEngine,
    tokenizer: Tokenizer,
    name: str,
    limits: Limits | None = None,
    access: Access | None = None,
    feed: Feed | None = None,
) -> Starlette:
    """Return the ASGI application that serves one model under a name; it starts and closes the thread.

    Args:
        access: whose requests are taken; None: anybody's but those of web pages.
        feed: what whoever watches the engine at / sees; None: lengths and no texts.
    """
    limits, access = limits or Limits(), access or Access()
    api = Api(thread, tokenizer, name, limits)
    feed = feed or Feed(thread.engine, thread.call)
    thread.on_drain = feed.close

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        thread.start()
        feed.start()
        try:
            yield
        finally:
            await thread.close(limits.grace_seconds)
            api.pool.close()

    app = Starlette(
        routes=[
            Route("/health", api.health),
            Route("/ready", api.ready),
            Route("/metrics", api.metrics),
            *WatchApi(feed, limits).routes(),
            Route("/v1/models", api.models),
            Route("/v1/models/{name:path}", api.model),
            Route("/v1/completions", api.complete, methods=["POST"]),
            Route("/v1/chat/completions", api.chat, methods=["POST"]),
        ],
        middleware=_middleware(access),
        # Starlette's type has every handler take any Exception, though it hands each its own kind.
        exception_handlers={  # pyright: ignore[reportArgumentType]
            Refusal: _refused,
            HTTPException: _no_route,
            ClientDisconnect: _gone,
            Exception: _failed,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # it would send a client to the host that it named itself
    return app


def _middleware(access: Access) -> list[Middleware]:
    guard = Middleware(Guard, access=access)
    if not access.origins:
        return [guard]
    headers = ["Authorization", "Content-Type"]
    cors = Middleware(
        CORSMiddleware, allow_origins=access.origins, allow_methods=["GET", "POST"], allow_headers=headers
    )
    return [cors, guard]


async def _refused(request: Request, error: Refusal) -> Response:
    return JSONResponse(error.body(), error.status, error.headers)


async def _no_route(request: Request, error: HTTPException) -> Response:
    """There is no such address, or not for this method."""
    refusal = Refusal(error.status_code, f"{request.method} {request.url.path}: {error.detail}", code="no_such_route")
    return JSONResponse(refusal.body(), error.status_code, error.headers)


async def _gone(request: Request, error: ClientDisconnect) -> Response:
    return Response(status_code=499)  # nobody reads it


async def _failed(request: Request, error: Exception) -> Response:
    """A mistake of the server's own; the traceback goes to the log."""
    return JSONResponse(Refusal(500, "the server failed; its log says more", code="internal_error").body(), 500)
