"""The service as the properties hold it: stores that step, tiny caps, workers without a queue."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from itertools import count
from typing import Any

from fanout.housekeeping import Housekeeping
from fanout.pressure import UnderLag
from fanout.tasks import Fanout
from feed.errors import Unavailable
from feed.query import Mode
from feed.settings import Settings
from feed.telemetry import Trace
from mixer.home_feed import Opening, build
from mixer.page import Page
from snapshots.cursor import Cursor
from storage.check import FeedCheck
from storage.connections import Postgres, RedisClient
from storage.feeds import Feeds
from storage.rebuild import Rebuild
from storage.restarts import Restarts
from storage.users import stamp_visit

NOW_MS = 1_767_312_000_000
A_MOMENT_S, LONG_S = 1e-6, 3_600.0


def small(settings: Settings) -> Settings:
    """Return settings under which a handful of posts trims lists, fills slates and ends pages."""
    return replace(
        settings,
        feed_cap=4,
        outbox_cap=4,
        fanout_page=1,
        candidates=8,
        scan_bound=5,
        # Time stands still between two steps, so nothing may run out of it.
        budget_ms=600_000,
        redis_timeout_s=600,
        lease_s=600,
        rebuilds_at_once=1_000,
        switch_grace_s=A_MOMENT_S,
        lag_bound_s=600,
        lag_recover_s=600,
    )


class InFlight(Settings):
    """Settings whose grace period is over when no request is in flight: it is longer than any."""

    requests: Collection[object] = ()

    @property
    def switch_grace_s(self) -> float:  # type: ignore[override]
        """How long a request in flight may yet take."""
        return LONG_S if self.requests else A_MOMENT_S

    @switch_grace_s.setter
    def switch_grace_s(self, given: float) -> None: ...

    @classmethod
    def of(cls, settings: Settings, requests: Collection[object], **changed: Any) -> "InFlight":
        """Let these requests in flight decide."""
        given = {each.name: getattr(settings, each.name) for each in fields(settings)}
        made = cls(**{**given, **changed})
        object.__setattr__(made, "requests", requests)
        return made


class Service:
    """Reads feeds and performs deliveries on given stores, put together as in production."""

    def __init__(self, settings: Settings, postgres: Postgres, redis: RedisClient) -> None:
        """Use `settings` that are `small`."""
        self.postgres = postgres
        self.redis = redis
        self.in_flight: set[object] = set()
        # The log waits by the clock for more to write together: steps would not be the seed's.
        settings = InFlight.of(settings, self.in_flight, log_queue=0)
        self._tokens = (f"token{number}" for number in count())
        self.home, self.effects = build(settings, postgres, redis, token=lambda: next(self._tokens))
        feeds = Feeds(redis, cap=settings.feed_cap)
        outboxes = Feeds(redis, cap=settings.outbox_cap)
        self._fanout = Fanout(postgres, feeds, settings, outboxes=outboxes)
        self._rebuild = Rebuild(postgres, feeds, outboxes, settings, patience_s=60)
        self.check = FeedCheck(postgres, feeds, again_after_s=0)
        self.under_lag = UnderLag(postgres, settings)
        self.housekeeping = Housekeeping(postgres, feeds, Restarts(redis), settings)
        pulling = InFlight.of(settings, self.in_flight, delivery="pull")
        self.pulling = Housekeeping(postgres, feeds, Restarts(redis), pulling)

    async def open(self, viewer_id: int, mode: Mode, limit: int) -> Page:
        """Open a feed."""
        opening = Opening(
            viewer_id=viewer_id,
            requested=mode,
            mode=mode,
            mode_reason="request",
            session_id=next(self._tokens),
            limit=limit,
            now_ms=NOW_MS,
        )
        return await self.home.open(opening, Trace())

    async def next(self, cursor: Cursor, limit: int) -> Page:
        """Turn a page."""
        return await self.home.next(cursor, limit, NOW_MS, Trace())

    async def scroll(self, viewer_id: int, mode: Mode, limit: int) -> list[int]:
        """Open a feed and turn its pages to the end; return what came."""
        page = await self.open(viewer_id, mode, limit)
        got = [item.post.id for item in page.items]
        for _ in range(1_000):
            if page.next is None:
                return got
            page = await self.next(page.next, limit)
            got += [item.post.id for item in page.items]
        raise AssertionError("a scroll without an end")

    async def deliver(self, ids: Sequence[int]) -> None:
        """Perform deliveries as a worker does."""
        # Two that settle the same deliveries may deadlock: one of them is put off, and sent again.
        with suppress(Unavailable):
            await self._fanout.deliver(ids)

    async def rebuild_feed(self, viewer_id: int) -> None:
        """Rebuild a missing feed as a visit does."""
        async with self.postgres.connection() as connection:
            await stamp_visit(connection, viewer_id)
        await self._rebuild.feed(viewer_id, next(self._tokens))

    async def rebuild_outbox(self, author_id: int) -> None:
        """Rebuild a missing outbox as a reader does."""
        await self._rebuild.outbox(author_id, next(self._tokens))
