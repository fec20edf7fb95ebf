"""Strict chronological mode: newest first, followed accounts and oneself, nothing inserted.

Its cursor is the whole key (ms, id) of the last post, so that ties are neither lost nor repeated.
"""

from dataclasses import replace

import numpy as np

from feed.candidates import SOURCES
from feed.chain import Chain
from feed.order import NEWEST, Ids, Key
from feed.query import Query
from feed.telemetry import Trace
from mixer.chains import page_of
from mixer.logbook import Logbook
from mixer.page import Item, Page
from mixer.pipeline import Pipeline
from mixer.safety import Safety
from mixer.upkeep import Upkeep
from mixer.viewers import ViewerReader
from snapshots.cursor import Cursor
from storage.page import PostRow


class ChronologicalFeed:
    """Gives pages of what the sources hold, in the order of time."""

    def __init__(
        self,
        pipeline: Pipeline,
        safety: Safety,
        viewers: ViewerReader,
        upkeep: Upkeep,
        logbook: Logbook,
    ) -> None:
        """Read through `pipeline`, show what `safety` lets through, and log it in `logbook`."""
        self._pipeline = pipeline
        self._logbook = logbook
        self._safety = safety
        self._viewers = viewers
        self._upkeep = upkeep

    async def page(self, cursor: Cursor, limit: int, now_ms: int, trace: Trace) -> Page:
        """Return the page below the cursor's key; without a key, the first.

        Raises:
            Unavailable: The truth cannot be reached.
        """
        with trace.timed("viewer"):
            viewer = await self._viewers.load(cursor.viewer_id)
        sources: dict[int, int] = {}
        visible: set[int] = set()
        missing: dict[str, tuple[int, ...]] = {}
        cut: Key | None = None

        async def more(below: Key, n: int) -> tuple[Ids, Ids]:
            nonlocal cut
            gathered = await self._pipeline.gather(Query(viewer, n, below, now_ms), trace)
            cut = gathered.oldest if gathered.cut else None
            newest = gathered.candidates
            sources.update(zip(newest.ids.tolist(), newest["source"].tolist(), strict=True))
            missing.update(gathered.missing)
            return newest.ids, newest.ms

        async def seen(rows: list[PostRow]) -> list[PostRow]:
            visible.update(row.id for row in rows)
            return rows

        with trace.timed("page"):
            below = cursor.key or NEWEST
            posts, key = await self._safety.from_list(viewer.id, more, below, limit, seen)
        self._upkeep.after(viewer, missing, opened=cursor.key is None)
        listed = (id for id, source in sources.items() if SOURCES[source] == "pushed_feed")
        self._upkeep.sweep(viewer, [id for id in listed if id not in visible])
        items = [
            Item(post, SOURCES[sources[post.id]], cursor.position + place)
            for place, post in enumerate(posts)
        ]
        self._log(cursor, posts, [sources[post.id] for post in posts])
        key = key or cut  # a list that was cut short is not at its end
        following = replace(cursor, key=key, position=cursor.position + len(items))
        return Page(
            items=items,
            next=following if key else None,
            mode="chronological",
            cursor=cursor,
            trace=trace,
        )

    def _log(self, cursor: Cursor, posts: list[PostRow], sources: list[int]) -> None:
        if posts:
            ids = np.array([post.id for post in posts], dtype=np.int64)
            shows = np.array([post.original for post in posts], dtype=np.int64)
            rows = Chain(ids, shows)
            page = page_of(cursor, "chronological", cursor.position, rows, "chronological")
            self._logbook.page(replace(page, sources=bytes(sources)))
