"""What was on a viewer's screen: read beside the viewer's facts, noted beside the response.

Only an impression counts: what was served may never have been looked at, and what was liked was
seen anyway. It decides relevance only; a viewer whose memory is missing is shown everything.
"""

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

import numpy as np

from feed.candidates import Candidates, Column
from feed.errors import Unavailable
from feed.query import Query, Viewer
from feed.seen import Seen, authors_seen, times_seen
from mixer.side_effects import SideEffects
from mixer.viewers import ViewerReader
from storage.connections import Postgres
from storage.engagements import Event, clamped
from storage.seen import SeenRebuild, SeenStore, authors_of

log = logging.getLogger("foryou.seen")

S_PER_H = 3600


class SeenReader(Protocol):
    """Where it is read what a viewer has seen (`Screens`)."""

    async def read(self, viewer_id: int) -> Seen:
        """Return what a viewer has seen, nothing while it is not known."""
        ...


class SeenMemory:
    """How often each candidate and its author were on this viewer's screen, fading with time."""

    name = "seen_memory"

    def __init__(self, *, half_life_h: float, author_half_life_h: float, memory_s: int) -> None:
        """Let an impression halve in so long, for its post and for its author; then forget it."""
        self._half_life_s = half_life_h * S_PER_H
        self._author_half_life_s = author_half_life_h * S_PER_H
        self._memory_s = memory_s

    async def hydrate(self, query: Query, candidates: Candidates) -> dict[str, Column]:
        """Return the columns seen and author_seen (n,).

        Raises:
            Unavailable: It could not be read what the viewer has seen.
        """
        if query.viewer.seen is None:
            raise Unavailable("What the viewer has seen is not known")
        now_s = query.now_ms / 1000
        seen = query.viewer.seen.since(now_s - self._memory_s)
        originals, authors = candidates["original"], candidates["author"]
        return {
            "seen": times_seen(seen, originals, candidates.ids, now_s, self._half_life_s),
            "author_seen": authors_seen(seen, authors, now_s, self._author_half_life_s),
        }


class ViewersWithSeen:
    """Loads viewers with what they have seen, side by side; a failure leaves that None."""

    def __init__(self, viewers: ViewerReader, seen: SeenReader, *, deadline_s: float) -> None:
        """Wait for `seen` no longer than `deadline_s`; without `viewers` there is no feed."""
        self._viewers = viewers
        self._seen = seen
        self._deadline_s = deadline_s

    async def load(self, viewer_id: int) -> Viewer:
        """Load what is known of a viewer who opens a ranked feed."""
        viewer, seen = await asyncio.gather(self._viewers.load(viewer_id), self._seen_by(viewer_id))
        return replace(viewer, seen=seen)

    async def _seen_by(self, viewer_id: int) -> Seen | None:
        try:
            async with asyncio.timeout(self._deadline_s):
                return await self._seen.read(viewer_id)
        except Exception as error:
            log.warning("what was seen is not known", extra={"error": repr(error)})
            return None


class Screens:
    """Reads memories, and has a missing one rebuilt beside the request."""

    def __init__(
        self,
        effects: SideEffects,
        store: SeenStore,
        rebuild: SeenRebuild,
        *,
        token: Callable[[], str],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Read from `store`; `token` makes a fresh marker for each rebuild."""
        self._effects = effects
        self._store = store
        self._rebuild = rebuild
        self._token = token
        self._jitter = jitter
        self._under_way: set[int] = set()

    async def read(self, viewer_id: int) -> Seen:
        """Return what a viewer has seen, nothing while it is not known."""
        seen = await self._store.read(viewer_id)
        if seen is not None:
            return seen
        self._effects.start("seen", self._rebuilt(viewer_id))
        return Seen()

    async def _rebuilt(self, viewer_id: int) -> None:
        """Rebuild a memory unless this process is at it."""
        if viewer_id in self._under_way:
            return
        self._under_way.add(viewer_id)
        try:
            await self._rebuild.rebuild(viewer_id, self._token(), jitter=self._jitter())
        finally:
            self._under_way.remove(viewer_id)


class Impressions:
    """Notes impressions in the memories of their viewers, after the commit of their events."""

    def __init__(self, effects: SideEffects, postgres: Postgres, store: SeenStore) -> None:
        """Append to `store`; `postgres` knows the authors."""
        self._effects = effects
        self._postgres = postgres
        self._store = store

    def note(self, accepted: Sequence[Event], now: datetime) -> None:
        """Note the impressions among committed events, beside the response; none counts twice.

        One that gets lost is missing until the memory is rebuilt from the log.
        """
        seen = [each for each in clamped(accepted, now) if each.type == "impression"]
        if seen:
            self._effects.start("impressions", self._note(seen))

    async def _note(self, events: Sequence[Event]) -> None:
        async with self._postgres.connection() as connection:
            authors = await authors_of(connection, sorted({each.post_id for each in events}))
        by_viewer: dict[int, list[Event]] = defaultdict(list)
        for each in events:
            if each.post_id in authors:
                by_viewer[each.viewer_id].append(each)
        await self._store.append({id: _seen(own, authors) for id, own in by_viewer.items()})


def _seen(events: Sequence[Event], authors: dict[int, int]) -> Seen:
    """Return the impressions of one viewer, the oldest first."""
    events = sorted(events, key=lambda each: each.at)
    return Seen(
        np.array([each.post_id for each in events], dtype=np.int64),
        np.array([authors[each.post_id] for each in events], dtype=np.int64),
        np.array([int(each.at.timestamp()) for each in events], dtype=np.int64),
    )
