"""Reads feeds in process, as the api does, and holds them against the oracle."""

from collections.abc import Sequence
from itertools import count

from feed.query import Mode
from feed.settings import Settings
from feed.telemetry import Trace
from mixer.home_feed import Opening, build
from mixer.page import Page
from storage.connections import Postgres, RedisClient
from tests import oracle

NOW_MS = 1_767_323_045_000
_TOKENS = count()


def opening(viewer_id: int, mode: Mode = "chronological", limit: int = 50) -> Opening:
    """Return what opens a feed."""
    return Opening(
        viewer_id=viewer_id,
        requested=mode,
        mode=mode,
        mode_reason="request",
        session_id=f"session{next(_TOKENS)}",
        limit=limit,
        now_ms=NOW_MS,
    )


class Reader:
    """One api process without its HTTP."""

    def __init__(self, settings: Settings, postgres: Postgres, redis: RedisClient) -> None:
        """Read from these stores."""
        self.postgres = postgres
        self.home, self.effects = build(
            settings, postgres, redis, token=lambda: f"token{next(_TOKENS)}"
        )

    async def read(self, viewer_id: int, mode: Mode = "chronological") -> Page:
        """Open a feed, and let what it leaves to do be done."""
        page = await self.home.open(opening(viewer_id, mode), Trace())
        await self.effects.drain()
        return page

    async def check(self, viewers: Sequence[int]) -> list[Page]:
        """Assert that each of them reads the oracle's feed, all on one page; return the pages."""
        pages = [await self.read(viewer) for viewer in viewers]
        for viewer, page in zip(viewers, pages, strict=True):
            async with self.postgres.connection() as connection:
                wanted = [entry.id for entry in await oracle.home_feed(connection, viewer)]
            assert ids(page) == wanted, f"{viewer} reads {ids(page)} instead of {wanted}"
        return pages


def ids(page: Page) -> list[int]:
    """Return the ids of the posts on a page."""
    return [item.post.id for item in page.items]
