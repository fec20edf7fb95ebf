"""Keeps in Redis what was on each viewer's screen, and rebuilds it from the engagements log.

A memory is one string: a header, then records of 20 bytes in the order in which they came: post
and author (int64), seconds of the epoch (uint32), little-endian. No header, no memory: missing is
not empty. While a memory is rebuilt its header carries the builder's token; what is seen meanwhile
is appended all the same, and stays. A record may be there twice (`feed.seen` counts it once).
"""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from redis.commands.core import AsyncScript

from feed.seen import Seen
from storage import keys
from storage.columns import id_columns
from storage.connections import Connection, Guard, Postgres, RedisClient, translated_errors
from storage.locks import try_slot

RECORD = np.dtype([("post", "<i8"), ("author", "<i8"), ("at_s", "<u4")])
HEADER_BYTES = 20
READY = bytes(HEADER_BYTES)

VIEWERS_AT_ONCE = 500  # appended to in one round trip

# Appends to a memory that is there, and drops the oldest records beyond the bound. One that is
# being built keeps its short life. KEYS: memory. ARGV: records, bytes kept, ttl_s, ready header.
_APPEND = """
if redis.call('EXISTS', KEYS[1]) == 0 then
    return 0
end
local header = redis.call('GETRANGE', KEYS[1], 0, #ARGV[4] - 1)
local over = redis.call('APPEND', KEYS[1], ARGV[1]) - #header - tonumber(ARGV[2])
if over > 0 then
    local kept = redis.call('GETRANGE', KEYS[1], #header + over, -1)
    redis.call('SET', KEYS[1], header .. kept, 'KEEPTTL')
end
if header == ARGV[4] then
    redis.call('EXPIRE', KEYS[1], ARGV[3])
end
return 1
"""

# Puts what the log holds before what came since the marker, if that is still the builder's.
# KEYS: memory. ARGV: records, bytes kept, ttl_s, ready header, marker.
_FINISH = """
local there = redis.call('GET', KEYS[1])
if not there or string.sub(there, 1, #ARGV[5]) ~= ARGV[5] then
    return 0
end
local records = ARGV[1] .. string.sub(there, #ARGV[5] + 1)
local over = #records - tonumber(ARGV[2])
if over > 0 then
    records = string.sub(records, over + 1)
end
redis.call('SET', KEYS[1], ARGV[4] .. records, 'EX', ARGV[3])
return 1
"""


class SeenStore:
    """Reads, appends to and rebuilds memories, each of at most `kept` impressions."""

    def __init__(
        self, redis: RedisClient, *, kept: int, memory_s: int, guard: Guard = translated_errors
    ) -> None:
        """Keep memories in `redis` for `memory_s` after the last impression."""
        self.kept = kept
        self.memory_s = memory_s
        self._redis = redis
        self._guard = guard
        self._append: AsyncScript = redis.register_script(_APPEND)
        self._finish: AsyncScript = redis.register_script(_FINISH)

    async def read(self, viewer_id: int) -> Seen | None:
        """Return what a viewer has seen; None: missing, or still being built."""
        with self._guard():
            packed = await self._redis.get(keys.seen(viewer_id))
        if packed is None or packed[:HEADER_BYTES] != READY:
            return None
        return unpack(packed[HEADER_BYTES:])

    async def append(self, seen: Mapping[int, Seen]) -> None:
        """Append impressions, by viewer; a memory that is missing is left to its rebuild."""
        packed = [(keys.seen(viewer_id), pack(each)) for viewer_id, each in seen.items()]
        for start in range(0, len(packed), VIEWERS_AT_ONCE):
            with self._guard():
                async with self._redis.pipeline(transaction=False) as pipe:
                    for key, records in packed[start : start + VIEWERS_AT_ONCE]:
                        await self._append(keys=[key], args=self._args(records), client=pipe)
                    await pipe.execute()

    async def begin(self, viewer_id: int, token: str, *, ttl_s: int) -> bool:
        """Mark a missing memory as being built under `token`; False: it is there already."""
        with self._guard():
            key = keys.seen(viewer_id)
            return bool(await self._redis.set(key, _marker(token), nx=True, ex=ttl_s))

    async def finish(self, viewer_id: int, token: str, logged: Seen) -> bool:
        """Make a memory ready, with what was appended since; False: the marker is gone."""
        args = [*self._args(pack(logged)), _marker(token)]
        with self._guard():
            return bool(await self._finish(keys=[keys.seen(viewer_id)], args=args))

    def _args(self, records: bytes) -> list[bytes | int]:
        return [records[-self._bytes :], self._bytes, self.memory_s, READY]

    @property
    def _bytes(self) -> int:
        return self.kept * RECORD.itemsize


def pack(seen: Seen) -> bytes:
    """Pack impressions (m,) into 20 bytes each."""
    records = np.empty(len(seen), dtype=RECORD)
    records["post"], records["author"], records["at_s"] = seen.posts, seen.authors, seen.at_s
    return records.tobytes()


def unpack(packed: bytes) -> Seen:
    """Read packed impressions."""
    records = np.frombuffer(packed, dtype=RECORD)
    return Seen(
        records["post"].astype(np.int64),
        records["author"].astype(np.int64),
        records["at_s"].astype(np.int64),
    )


def _marker(token: str) -> bytes:
    """Return the header of a memory that is being built: no post has id 0."""
    return bytes(8) + hashlib.blake2b(token.encode(), digest_size=HEADER_BYTES - 8).digest()


# The partitions of the last days by the prefix of their primary key; of a day with more events than
# `scan`, which no person makes, any `scan` are read.
# A limit within: one look-up a row under any plan; a join may choose to read posts in a range.
_LATEST = """
WITH latest AS (
    SELECT e.post_id, e.at
      FROM generate_series(0, ceil(%(memory_s)s / 86400.0)::integer) AS ago
     CROSS JOIN LATERAL (
           SELECT post_id, at, type FROM engagements
            WHERE day = (now() AT TIME ZONE 'UTC')::date - ago AND viewer_id = %(viewer)s
            LIMIT %(scan)s) AS e
     WHERE e.type = 'impression' AND e.at > now() - make_interval(secs => %(memory_s)s)
     ORDER BY e.at DESC LIMIT %(kept)s
)
SELECT array_agg(id), array_agg(author_id), array_agg(at_s) FROM (
    SELECT p.id, p.author_id, floor(extract(epoch FROM latest.at))::bigint AS at_s
      FROM latest
     CROSS JOIN LATERAL (SELECT id, author_id FROM posts WHERE id = latest.post_id LIMIT 1) AS p
     ORDER BY latest.at) AS impression
"""
SCAN = 10
"""So many events a day are looked at for each impression that is kept."""


async def latest_impressions(
    connection: Connection, viewer_id: int, *, kept: int, memory_s: int
) -> Seen:
    """Return the latest impressions of a viewer that the log holds, the oldest first."""
    values = {"viewer": viewer_id, "kept": kept, "scan": SCAN * kept, "memory_s": memory_s}
    return Seen(*await id_columns(connection, _LATEST, values))


SLOTS = "seen"


class SeenRebuild:
    """Rebuilds missing memories; all processes together at most `at_once` at a time."""

    def __init__(
        self, postgres: Postgres, store: SeenStore, *, at_once: int, building_ttl_s: int
    ) -> None:
        """Read the log in `postgres` into `store`."""
        self._postgres = postgres
        self._store = store
        self._at_once = at_once
        self._building_ttl_s = building_ttl_s

    async def rebuild(self, viewer_id: int, token: str, *, jitter: float) -> bool:
        """Rebuild a viewer's memory; False: it is there, somebody is at it, or all slots are taken.

        The marker comes first: an impression that the log does not show yet is appended after it.
        """
        store = self._store
        async with self._postgres.transaction() as connection:
            if not await try_slot(connection, SLOTS, self._at_once, jitter=jitter):
                return False
            if not await store.begin(viewer_id, token, ttl_s=self._building_ttl_s):
                return False
            logged = await latest_impressions(
                connection, viewer_id, kept=store.kept, memory_s=store.memory_s
            )
            return await store.finish(viewer_id, token, logged)


_AUTHORS = "SELECT id, author_id FROM posts WHERE id = ANY(%s)"


async def authors_of(connection: Connection, post_ids: Sequence[int]) -> dict[int, int]:
    """Return who wrote these posts, by post."""
    rows = await connection.execute(_AUTHORS, [list(post_ids)])
    return {post_id: author_id for post_id, author_id in await rows.fetchall()}
