"""Puts the api together: settings in, an ASGI application out, for `foryou serve` and tests."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from uuid import uuid4

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from api import (
    admin,
    admin_models,
    admin_modes,
    admin_users,
    events,
    explain,
    feed,
    graph,
    health,
    ingest,
    posts,
    preferences,
    problems,
    users,
)
from api.auth import identify_with
from api.delivery import keep_wanting, want_delivery
from api.deps import Services
from api.feed_metrics import FeedMetrics
from api.ids import LeasedIds
from api.lag import Lag
from api.middleware import BodyBound, RequestLine, RequestMetrics
from api.web import pages, read_files
from feed.errors import Unavailable
from feed.settings import Settings
from mixer.explain import Explain
from mixer.home_feed import build, ranking
from mixer.seen import Impressions
from snapshots.cursor import CursorSigner, cursor_keys
from snapshots.traces import TraceStore
from storage.connections import Postgres, open_redis
from storage.page import PageReader
from storage.seen import SeenStore
from storage.standing import PostgresStandings

PREFIX = "/api/v1"
ROUTERS = (
    feed.router,
    explain.router,
    posts.router,
    graph.router,
    preferences.router,
    users.router,
    ingest.router,
    events.router,
    admin.router,
    admin_users.router,
    admin_modes.router,
    admin_models.router,
)


def create_app(settings: Settings) -> FastAPI:
    """Build the application; nothing is opened before its lifespan starts.

    Raises:
        Misconfigured: The settings cannot serve; the text says what to do.
    """
    registry = CollectorRegistry()
    app = FastAPI(
        title="For You",
        lifespan=_lifespan(settings, FeedMetrics(registry)),
        docs_url=None,  # web/docs.html instead, which needs nothing from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # a redirect would name a Host that the client made up
    )
    app.state.registry = registry
    problems.install(app)
    app.add_middleware(BodyBound)
    app.add_middleware(RequestLine, metrics=RequestMetrics(registry))
    for router in ROUTERS:
        app.include_router(router, prefix=PREFIX)
    app.include_router(health.router)
    app.include_router(pages(read_files()))
    return app


def _lifespan(
    settings: Settings, feed_metrics: FeedMetrics
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    identify = identify_with(settings)
    cursors = CursorSigner(cursor_keys(settings))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        postgres = Postgres(settings.postgres_url)
        redis = open_redis(settings.redis_url, timeout_s=settings.redis_timeout_s)
        ids = LeasedIds(postgres, uuid4())
        lag = Lag(postgres)
        home_feed, effects = build(settings, postgres, redis, token=_token)
        seen = SeenStore(redis, kept=settings.seen_kept, memory_s=settings.seen_memory_s)
        traces = TraceStore(redis, ttl_s=settings.snapshot_ttl_s)
        await postgres.open()
        app.state.services = Services(
            settings=settings,
            identify=identify,
            postgres=postgres,
            redis=redis,
            ids=ids,
            cursors=cursors,
            home_feed=home_feed,
            effects=effects,
            explain=Explain(traces, PageReader(postgres), PostgresStandings(postgres), ranking),
            impressions=Impressions(effects, postgres, seen),
            lag=lag,
            feed_metrics=feed_metrics,
        )
        with suppress(Unavailable):  # without Postgres the api starts all the same, and says so
            await ids.lease_or_renew()
        with suppress(Unavailable):  # before the first request, if it can be
            await want_delivery(postgres, settings)
        await home_feed.heavy.models.look()  # loaded and warm before the first request
        working = (
            ids.keep(),
            lag.keep(),
            keep_wanting(postgres, settings),
            home_feed.heavy.models.keep(),
        )
        beside = [asyncio.create_task(each) for each in working]
        try:
            yield
        finally:
            await _ended(beside)
            await effects.drain()
            home_feed.heavy.close()
            with suppress(Unavailable):
                await ids.release()
            await redis.aclose()
            await postgres.close()

    return lifespan


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    """End loops, asking again: a driver may answer a cancel with an error that a loop survives."""
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=0.1)


def _token() -> str:
    return secrets.token_urlsafe(12)
