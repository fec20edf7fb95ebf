"""A ranked session: a frozen slate, its pages, its renewal when it has expired, and its tail.

`tests/properties/paging_model.py` is this file as a model: lists in, pages out.
"""

import asyncio
import hashlib
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from feed.candidates import Candidates, Gaps, empty_ids, with_discoveries
from feed.chain import Chain
from feed.order import NEWEST, OLDEST, Ids, Key
from feed.profile import OutOfNetwork, Profile
from feed.query import Query, Viewer
from feed.telemetry import Trace
from mixer.chains import Chains
from mixer.filters import NotServed
from mixer.heavy import HeavyRanker
from mixer.logbook import Frozen, Logbook
from mixer.page import Item, Page
from mixer.pipeline import Pipeline, Ranking, skipped
from mixer.profiles import Profiles
from mixer.safety import Safety
from mixer.upkeep import Upkeep
from mixer.viewers import ViewerReader
from snapshots.cursor import Cursor
from snapshots.snapshot import Head, Snapshot, slate_columns
from snapshots.store import SnapshotStore
from snapshots.traces import SlateTrace
from storage.page import PostRow
from storage.timelines import PostgresTimelines


@dataclass(frozen=True)
class Bounds:
    """How many posts are ranked, and how many a chain of cursors remembers as served.

    `wait_s` is how long a request waits for snapshots, without which it can do.
    """

    candidates: int
    served_memory: int
    wait_s: float


@dataclass(frozen=True)
class Rooms:
    """What a ranked session reads and writes."""

    profiles: Profiles
    viewers: ViewerReader
    viewers_with_seen: ViewerReader
    heavy: HeavyRanker
    timelines: PostgresTimelines
    snapshots: SnapshotStore
    chains: Chains
    upkeep: Upkeep
    keep_trace: Callable[[SlateTrace], object]
    logbook: Logbook


class RankedFeed:
    """Opens ranked sessions and turns their pages."""

    def __init__(
        self,
        pipeline: Pipeline,
        ranking: Callable[[Profile], Ranking],
        safety: Safety,
        rooms: Rooms,
        bounds: Bounds,
        *,
        token: Callable[[], str],
    ) -> None:
        """Gather with `pipeline`, order by the `ranking` of the profile in force.

        `token` makes fresh snapshot ids and nonces.
        """
        self._pipeline = pipeline
        self._ranking = ranking
        self._safety = safety
        self._rooms = rooms
        self._bounds = bounds
        self._token = token

    async def open(self, cursor: Cursor, limit: int, now_ms: int, trace: Trace) -> Page:
        """Freeze a slate and return its first page.

        Raises:
            Unavailable: The truth cannot be reached.
        """
        cursor = replace(cursor, snapshot_id=self._token())
        snapshot = await self._freeze(cursor, Chain(), now_ms, trace)
        cursor = replace(cursor, nonce=snapshot.head.nonce)
        return await self._slate_page(cursor, snapshot, limit, trace)

    async def next(self, cursor: Cursor, limit: int, now_ms: int, trace: Trace) -> Page:
        """Return the page at a cursor, from a renewed slate when its snapshot has expired.

        Raises:
            Unavailable: The truth cannot be reached.
        """
        if cursor.part == "tail":
            return await self._tail_page(cursor, limit, trace)
        snapshot = await self._read(cursor, now_ms, trace)
        if snapshot is not None:
            return await self._slate_page(cursor, snapshot, limit, trace)
        return await self._renewed(cursor, limit, now_ms, trace)

    async def _read(self, cursor: Cursor, now_ms: int, trace: Trace) -> Snapshot | None:
        """Return the cursor's own snapshot; another one under its id counts as expired."""
        try:
            with trace.timed("snapshot"):
                async with asyncio.timeout(self._bounds.wait_s):
                    snapshot = await self._rooms.snapshots.read(
                        cursor.viewer_id, cursor.snapshot_id, now_ms
                    )
                return snapshot if snapshot and snapshot.head.nonce == cursor.nonce else None
        except Exception as error:
            skipped("snapshot", error, trace)
            return None

    async def _renewed(self, cursor: Cursor, limit: int, now_ms: int, trace: Trace) -> Page:
        """Go on in a new slate, without what this chain of cursors was served."""
        served = cursor.base + cursor.position
        before = await self._rooms.chains.served(cursor, served, trace)
        if len(before) + self._bounds.candidates > self._bounds.served_memory:
            # The memory of this chain is full; the rest comes in order of time, from the top.
            tail = replace(cursor, part="tail", base=served, key=NEWEST)
            return await self._tail_page(tail, limit, trace)
        cursor = replace(cursor, snapshot_id=_renewed_id(cursor), position=0, base=len(before))
        snapshot = await self._freeze(cursor, before, now_ms, trace)
        cursor = replace(cursor, nonce=snapshot.head.nonce)
        await self._rooms.chains.note_before(cursor, snapshot, before, trace)
        page = await self._slate_page(cursor, snapshot, limit, trace)
        return replace(page, renewed=True)

    async def _freeze(self, cursor: Cursor, before: Chain, now_ms: int, trace: Trace) -> Snapshot:
        """Rank the newest candidates without `before`, and keep the result under the cursor's id.

        The newest are cut by time, never by rank: the slate holds all at or above its oldest.
        """
        with trace.timed("viewer"):
            viewer = await self._rooms.viewers_with_seen.load(cursor.viewer_id)
        profile = self._rooms.profiles.current()
        ranking = self._ranking(profile)
        heavy = self._rooms.heavy.scores(ranking.scorer)
        ranking = replace(ranking, heavy=heavy)
        discover = profile.out_of_network.enabled
        query = Query(viewer, self._bounds.candidates, NEWEST, now_ms, discover)
        gathered = await self._pipeline.gather(query, trace)
        candidates = with_discoveries(
            gathered.candidates,
            gathered.discovered,
            n_discoveries(profile.out_of_network, viewer, len(gathered.candidates)),
        )
        slate = await self._pipeline.slate(query, candidates, ranking, trace, [NotServed(before)])
        self._rooms.upkeep.after(viewer, gathered.missing, opened=len(before) == 0)
        self._rooms.upkeep.sweep(viewer, slate.dropped.get("deleted", empty_ids()).tolist())
        ranker = ranking.ranker(trace)
        model = heavy.model.manifest.version if heavy and ranker == heavy.name else None
        head = Head(
            id=cursor.snapshot_id,
            nonce=self._token(),
            session_id=cursor.session_id,
            created_ms=now_ms,
            ranker=ranker,
            weights=ranking.version,
            oldest=gathered.oldest,
            model=model,
        )
        snapshot = frozen(head, slate.rows)
        try:
            with trace.timed("snapshot"):
                async with asyncio.timeout(self._bounds.wait_s):
                    counts = await self._rooms.snapshots.freeze(viewer.id, snapshot, now_ms)
                if not isinstance(counts, Snapshot):
                    raise ValueError(f"a snapshot of type {type(counts).__name__}")
        except Exception as error:
            skipped("snapshot", error, trace)
            counts = snapshot  # the next page renews it, without what this one serves
        if counts is snapshot:
            known = heavy.known if heavy and model else None
            as_frozen = Frozen(head, slate.rows, tuple(trace.degraded), model, known=known)
            self._rooms.logbook.slate(query, as_frozen)
            made_from = (profile, ranking.skipped(trace), slate.weighed, slate.dropped)
            self._rooms.keep_trace(SlateTrace(viewer.id, head, *made_from))
        return counts

    async def _slate_page(
        self, cursor: Cursor, snapshot: Snapshot, limit: int, trace: Trace
    ) -> Page:
        with trace.timed("page"):
            items, row = await self._safety.from_slate(
                cursor.viewer_id, snapshot, cursor.position, limit
            )
        rows = _looked_at(snapshot, cursor.position, row, items)
        await self._rooms.chains.note(cursor, snapshot, rows, trace)
        following = await self._following(cursor, snapshot, row, trace)
        if not items and following is not None and following.part == "tail":
            return await self._tail_page(following, limit, trace)
        return Page(
            items=items,
            next=following,
            mode="ranked",
            cursor=cursor,
            trace=trace,
            snapshot=snapshot,
        )

    async def _following(
        self, cursor: Cursor, snapshot: Snapshot, row: int, trace: Trace
    ) -> Cursor | None:
        """Return where the session goes on: in the slate, in the tail, or nowhere."""
        if row < len(snapshot):
            return replace(cursor, position=row)
        if snapshot.head.oldest is None:
            return None
        oldest = snapshot.head.oldest
        tail = replace(cursor, part="tail", position=row, base=cursor.base + row, key=oldest)
        posts, key = await self._tail(tail, 1, trace)
        return tail if posts or key else None

    async def _tail_page(self, cursor: Cursor, limit: int, trace: Trace) -> Page:
        posts, key = await self._tail(cursor, limit, trace)
        items = [
            Item(post, "below_floor", cursor.position + place) for place, post in enumerate(posts)
        ]
        await self._rooms.chains.note_tail(cursor, _shown(posts), trace)
        following = replace(cursor, key=key, position=cursor.position + len(items))
        return Page(
            items=items,
            next=following if key else None,
            mode="ranked",
            cursor=cursor,
            trace=trace,
        )

    async def _tail(
        self, cursor: Cursor, limit: int, trace: Trace
    ) -> tuple[list[PostRow], Key | None]:
        """Read posts below the cursor's key from the truth, without what the chain was served."""
        viewer = await self._rooms.viewers.load(cursor.viewer_id)
        served = await self._rooms.chains.served(cursor, cursor.base, trace)
        looked_at, shown = set(served.ids.tolist()), set(served.originals.tolist())
        everybody = Gaps.everywhere(viewer.heard_authors)

        async def more(below: Key, n: int) -> tuple[Ids, Ids]:
            return await self._rooms.timelines.newest_posts(everybody.under(below), OLDEST, n)

        async def chosen(posts: list[PostRow]) -> list[PostRow]:
            """Show an original at the first post met going down, whoever posted or reposted it."""
            originals = [post.original for post in posts]
            shown.update(await self._rooms.chains.shown_in_tail(cursor, originals))
            new = []
            for post in posts:
                if post.id not in looked_at and post.original not in shown:
                    shown.add(post.original)
                    new.append(post)
            return new

        with trace.timed("tail"):
            below = cursor.key or NEWEST
            return await self._safety.from_list(viewer.id, more, below, limit, chosen)


def n_discoveries(bounds: OutOfNetwork, viewer: Viewer, n_in_network: int) -> int:
    """Return how many posts from outside the network a slate may hold.

    So many that they are at most the given share of it; without a bound of this kind for who
    follows few.
    """
    if len(viewer.followees) < bounds.few_follows or bounds.share == 1:
        return sys.maxsize
    return math.floor(n_in_network * bounds.share / (1 - bounds.share))


def _looked_at(snapshot: Snapshot, start: int, end: int, items: list[Item]) -> Chain:
    """Return the slate's rows from `start` to `end`, with what each of them showed."""
    shows = np.zeros(end - start, dtype=np.int64)
    for item in items:
        shows[item.position - start] = item.post.original
    return Chain(snapshot.ids[start:end], shows)


def _shown(posts: list[PostRow]) -> Chain:
    ids = np.array([post.id for post in posts], dtype=np.int64)
    return Chain(ids, np.array([post.original for post in posts], dtype=np.int64))


def frozen(head: Head, slate: Candidates) -> Snapshot:
    """Lay a slate out as the snapshot that is kept of it."""
    folded = slate.columns.get("folded")
    flat, starts = slate_columns([()] * len(slate) if folded is None else folded.tolist())
    return Snapshot(head, slate.ids, slate["source"], flat, starts)


def _renewed_id(cursor: Cursor) -> str:
    """Derive the id of the next snapshot, so that a retry of this cursor finds the same one."""
    text = f"{cursor.snapshot_id}:{cursor.nonce}:{cursor.position}"
    return hashlib.sha256(text.encode()).hexdigest()[:24]
