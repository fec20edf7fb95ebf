"""Puts the api together: settings in, an ASGI application out, for `foryou serve` and tests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from uuid import uuid4

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from api import events, graph, health, ingest, posts, preferences, problems, users
from api.auth import identify_with
from api.deps import Services
from api.ids import LeasedIds
from api.middleware import BodyBound, RequestLine, RequestMetrics
from feed.errors import Unavailable
from feed.settings import Settings
from storage.connections import Postgres, open_redis
from storage.feeds import Feeds

PREFIX = "/api/v1"
ROUTERS = (
    posts.router,
    graph.router,
    preferences.router,
    users.router,
    ingest.router,
    events.router,
)


def create_app(settings: Settings) -> FastAPI:
    """Build the application; nothing is opened before its lifespan starts.

    Raises:
        Misconfigured: The settings cannot serve; the text says what to do.
    """
    registry = CollectorRegistry()
    app = FastAPI(title="For You", lifespan=_lifespan(settings), redoc_url=None)
    app.state.registry = registry
    problems.install(app)
    app.add_middleware(BodyBound)
    app.add_middleware(RequestLine, metrics=RequestMetrics(registry))
    for router in ROUTERS:
        app.include_router(router, prefix=PREFIX)
    app.include_router(health.router)
    return app


def _lifespan(settings: Settings) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    identify = identify_with(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        postgres = Postgres(settings.postgres_url)
        redis = open_redis(settings.redis_url)
        ids = LeasedIds(postgres, uuid4())
        await postgres.open()
        app.state.services = Services(
            settings=settings,
            identify=identify,
            postgres=postgres,
            redis=redis,
            feeds=Feeds(redis, cap=settings.feed_cap),
            ids=ids,
        )
        with suppress(Unavailable):  # without Postgres the api starts all the same, and says so
            await ids.lease_or_renew()
        leasing = asyncio.create_task(ids.keep())
        try:
            yield
        finally:
            leasing.cancel()
            with suppress(asyncio.CancelledError):
                await leasing
            with suppress(Unavailable):
                await ids.release()
            await redis.aclose()
            await postgres.close()

    return lifespan
