"""Compares what the cached lists of a viewer hold with the truth: `foryou check` and the auditor.

The lists are read as a feed reads them, above their floors only: what is below, and every list
that is missing, is read from Postgres and cannot differ. Things move while one looks, so what is
missing counts only when a second look, a moment later, misses it too and nobody owes it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from feed.order import OLDEST, Ids
from feed.query import Viewer
from storage import keys
from storage.connections import Connection, Postgres
from storage.facts import load_viewer
from storage.feeds import CachedList, Feeds

Kind = Literal["missing", "late", "extra", "out_of_order"]
KINDS: tuple[Kind, ...] = get_args(Kind)

LOOK_AGAIN_AFTER_S = 0.3
FOR_EVER_S = 1e12  # affinities do not matter here, so they need not age


class ListName(NamedTuple):
    """A cached list: the pushed feed of a viewer, or the outbox of an author."""

    kind: Literal["feed", "outbox"]
    owner_id: int

    @property
    def key(self) -> str:
        """Where it is in Redis."""
        return keys.feed(self.owner_id) if self.kind == "feed" else keys.outbox(self.owner_id)


class Fault(NamedTuple):
    """One post that a list holds, or lacks, against the truth.

    `missing` the viewer does not get it; `late` neither, but its delivery is under way; `extra` it
    does not belong there, which does no harm, since reads check; `out_of_order` its time is wrong.
    """

    kind: Kind
    viewer_id: int
    list: ListName
    post_id: int
    author_id: int

    @property
    def harms(self) -> bool:
        """Whether it is for somebody to repair: what is late comes by itself."""
        return self.kind in ("missing", "out_of_order")


@dataclass(frozen=True)
class Look:
    """What was found for one viewer: the lists that feeds are read from (None: missing), faults."""

    viewer_id: int
    lists: dict[ListName, CachedList | None]
    faults: frozenset[Fault]

    def of_kind(self, kind: Kind) -> list[Fault]:
        """Return the faults of one kind, by post."""
        return sorted(each for each in self.faults if each.kind == kind)

    @property
    def harms(self) -> bool:
        """Whether something is missing or out of order."""
        return any(each.harms for each in self.faults)


class FeedCheck:
    """Looks at the cached lists of viewers, one viewer at a time."""

    def __init__(
        self, postgres: Postgres, lists: Feeds, *, again_after_s: float = LOOK_AGAIN_AFTER_S
    ) -> None:
        """Compare `lists`, feeds and outboxes alike, with `postgres`."""
        self._postgres = postgres
        self._lists = lists
        self._again_after_s = again_after_s

    async def check(self, viewer_id: int) -> Look:
        """Look at a viewer's lists, twice when something seems wrong.

        Raises:
            Unavailable: Postgres or Redis cannot be reached.
        """
        first = await self._look(viewer_id)
        if not first.harms:
            return first
        await asyncio.sleep(self._again_after_s)
        # What is owed is read before the lists: whoever settled a delivery has pushed before.
        suspects = first.of_kind("missing")
        async with self._postgres.connection() as connection:
            owed = await _owed(connection, viewer_id, suspects)
        second = await self._look(viewer_id)
        faults = {
            each._replace(kind="late") if each in owed else each
            for each in first.faults & second.faults
        }
        return replace(second, faults=frozenset(faults))

    async def _look(self, viewer_id: int) -> Look:
        """Read as a feed does: who is pulled first, then the lists, then the truth."""
        async with self._postgres.connection() as connection:
            viewer = await load_viewer(connection, viewer_id, half_life_s=FOR_EVER_S)
        names = _names(viewer)
        read = await self._lists.read([each.key for each in names])
        lists = dict(zip(names, read, strict=True))
        async with self._postgres.connection() as connection:
            wrong = await _entries_at_fault(connection, viewer, lists)
            missing = await _missing(connection, viewer, lists)
        return Look(viewer_id, lists, frozenset(wrong + missing))


def _names(viewer: Viewer) -> list[ListName]:
    """Name the lists that a feed of this viewer is read from: none while everybody is pulled."""
    if not viewer.reads_lists:
        return []
    outboxes = [ListName("outbox", author) for author in viewer.pulled.tolist()]
    return [ListName("feed", viewer.id), *outboxes]


_ENTRIES = """
SELECT entry.place, coalesce(p.author_id, 0), p.effective_ms
FROM unnest(%s::bigint[]) WITH ORDINALITY AS entry (id, place)
LEFT JOIN posts p ON p.id = entry.id AND p.deleted_at IS NULL
ORDER BY entry.place
"""


async def _entries_at_fault(
    connection: Connection, viewer: Viewer, lists: dict[ListName, CachedList | None]
) -> list[Fault]:
    """Find the entries that do not belong in their list, and those with a wrong time."""
    present = {name: each for name, each in lists.items() if each is not None}
    entries = [
        (name, id, ms)
        for name, each in present.items()
        for id, ms in zip(each.ids.tolist(), each.ms.tolist(), strict=True)
    ]
    rows = await connection.execute(_ENTRIES, [[id for _, id, _ in entries]])
    followed = set(viewer.followees.tolist())
    faults = []
    for (name, id, ms), (_, author, true_ms) in zip(entries, await rows.fetchall(), strict=True):
        belongs = author in followed if name.kind == "feed" else author == name.owner_id
        if not belongs:
            faults.append(Fault("extra", viewer.id, name, id, author))
        elif ms != true_ms:
            faults.append(Fault("out_of_order", viewer.id, name, id, author))
    return faults


# A muted author's posts belong in the lists: mutes end without an event.
_TRUTH = """
SELECT p.id, p.author_id
FROM unnest(%(authors)s::bigint[], %(floors)s::bigint[]) AS known (author_id, floor_ms)
CROSS JOIN LATERAL (
    SELECT id, author_id FROM posts
    WHERE author_id = known.author_id AND deleted_at IS NULL AND effective_ms > known.floor_ms
    ORDER BY effective_ms DESC, id DESC LIMIT %(most)s) AS p
WHERE EXISTS (SELECT FROM follows
               WHERE follower_id = %(viewer)s AND followee_id = known.author_id)
  AND NOT EXISTS (SELECT FROM blocks
                   WHERE (blocker_id, blocked_id) IN ((%(viewer)s::bigint, known.author_id),
                                                      (known.author_id, %(viewer)s::bigint)))
"""


async def _missing(
    connection: Connection, viewer: Viewer, lists: dict[ListName, CachedList | None]
) -> list[Fault]:
    """Find the posts above a list's floor that are in none of the lists."""
    held = {id for each in lists.values() if each is not None for id in each.ids.tolist()}
    floors = _floors(viewer, lists)
    values = {
        "viewer": viewer.id,
        "authors": list(floors),
        "floors": [floor_ms for _, floor_ms in floors.values()],
        "most": _most(lists),
    }
    rows = await connection.execute(_TRUTH, values)
    return [
        Fault("missing", viewer.id, floors[author][0], id, author)
        for id, author in await rows.fetchall()
        if id not in held
    ]


def _floors(
    viewer: Viewer, lists: dict[ListName, CachedList | None]
) -> dict[int, tuple[ListName, int]]:
    """Say for each author which list must hold their posts, and above which time."""
    floors: dict[int, tuple[ListName, int]] = {}
    for name, each in lists.items():
        if each is not None:
            authors: Ids = viewer.pushed if name.kind == "feed" else np.array([name.owner_id])
            floor_ms = OLDEST.ms if each.floor_ms is None else each.floor_ms
            floors.update((author, (name, floor_ms)) for author in authors.tolist())
    return floors


def _most(lists: dict[ListName, CachedList | None]) -> int:
    """Bound the posts looked at for one author: twice what the longest list holds, and some."""
    return 100 + 2 * max((len(each.ids) for each in lists.values() if each is not None), default=0)


_OWED = """
SELECT post_id
FROM unnest(%(posts)s::bigint[], %(authors)s::bigint[]) AS suspect (post_id, author_id)
WHERE EXISTS (
    SELECT FROM (VALUES ('post', post_id::text), ('relation', %(viewer)s || ':' || author_id))
             AS cause (aggregatetype, aggregateid)
    JOIN outbox_events e USING (aggregatetype, aggregateid)
    JOIN deliveries d ON d.event_id = e.id
    WHERE d.state = 'pending' AND e.type <> 'post.deleted')
   OR EXISTS (
    SELECT FROM deliveries d JOIN outbox_events e ON e.id = d.event_id
    WHERE d.state = 'pending' AND e.type = 'import.finished')
"""


async def _owed(
    connection: Connection, viewer_id: int, suspects: Sequence[Fault]
) -> frozenset[Fault]:
    """Return those of these missing posts that a delivery under way will bring; none is parked."""
    if not suspects:
        return frozenset()
    values = {
        "viewer": str(viewer_id),
        "posts": [each.post_id for each in suspects],
        "authors": [each.author_id for each in suspects],
    }
    owed = {id for (id,) in await (await connection.execute(_OWED, values)).fetchall()}
    return frozenset(each for each in suspects if each.post_id in owed)


# A sample of pages where the table is large, so that it is not read as a whole.
_SAMPLE = """
SELECT user_id FROM user_activity TABLESAMPLE SYSTEM (
    (SELECT least(100, 100.0 * %(enough)s / greatest(reltuples, 1))
       FROM pg_class WHERE oid = 'user_activity'::regclass)::real) REPEATABLE (%(seed)s)
WHERE last_seen_at > now() - make_interval(secs => %(within_s)s)
ORDER BY hashint8extended(user_id, %(seed)s), user_id
LIMIT %(n)s
"""


async def sample_viewers(
    connection: Connection, n: int, *, within_s: float, seed: int
) -> list[int]:
    """Choose up to `n` viewers at random among those who were here within `within_s` seconds."""
    values = {"n": n, "enough": max(10_000, 50 * n), "within_s": within_s, "seed": seed}
    rows = await connection.execute(_SAMPLE, values)
    return [user_id for (user_id,) in await rows.fetchall()]
