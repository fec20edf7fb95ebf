"""Strict chronological mode: newest first, followed accounts and oneself, nothing inserted.

Its cursor is the whole key (ms, id) of the last post, so that ties are neither lost nor repeated.
"""

from dataclasses import replace

from feed.candidates import SOURCES
from feed.order import NEWEST, Ids, Key
from feed.query import Query
from feed.telemetry import Trace
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
        self, pipeline: Pipeline, safety: Safety, viewers: ViewerReader, upkeep: Upkeep
    ) -> None:
        """Read through `pipeline`, show what `safety` lets through."""
        self._pipeline = pipeline
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
        key = key or cut  # a list that was cut short is not at its end
        following = replace(cursor, key=key, position=cursor.position + len(items))
        return Page(
            items=items,
            next=following if key else None,
            mode="chronological",
            cursor=cursor,
            trace=trace,
        )
