"""Keeps snapshots and chains in Redis: each has a TTL, each viewer a bound.

A chain is what one chain of cursors was served up to and within a snapshot, eight bytes a post,
in order. Its content at an index never changes, so that writing a page twice changes nothing.
"""

import numpy as np
from redis.commands.core import AsyncScript

from feed.order import Ids
from snapshots.snapshot import Snapshot, pack, unpack
from storage import keys
from storage.connections import RedisClient, translated_errors

BYTES_PER_ID = 8

# Creates a snapshot once, and drops the viewer's least recently used ones beyond the bound.
# KEYS: snapshot, list of snapshots. ARGV: packed, ttl_s, now_ms, bound, prefix of keys, id.
# Returns the packed snapshot that was there already, or nil.
_FREEZE = """
local there = redis.call('GET', KEYS[1])
if there then
    return there
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[6])
redis.call('EXPIRE', KEYS[2], ARGV[2])
local over = redis.call('ZCARD', KEYS[2]) - tonumber(ARGV[4])
if over > 0 then
    for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, over - 1)) do
        redis.call('UNLINK', ARGV[5] .. id)
        redis.call('ZREM', KEYS[2], id)
    end
end
return nil
"""


class SnapshotStore:
    """Freezes and reads snapshots, and notes what was looked at."""

    def __init__(
        self, redis: RedisClient, *, ttl_s: int, per_viewer: int, chain_ttl_s: int
    ) -> None:
        """Keep at most `per_viewer` snapshots for each viewer, for `ttl_s` after their last use."""
        self._redis = redis
        self._ttl_s = ttl_s
        self._per_viewer = per_viewer
        self._chain_ttl_s = chain_ttl_s
        self._freeze: AsyncScript = redis.register_script(_FREEZE)

    async def freeze(self, viewer_id: int, snapshot: Snapshot, now_ms: int) -> Snapshot:
        """Keep a snapshot under its id, unless one is there: return the one that counts."""
        head = snapshot.head
        with translated_errors():
            there = await self._freeze(
                keys=[keys.snapshot(viewer_id, head.id), keys.snapshots_of(viewer_id)],
                args=[
                    pack(snapshot),
                    self._ttl_s,
                    now_ms,
                    self._per_viewer,
                    keys.snapshot(viewer_id, ""),
                    head.id,
                ],
            )
        return snapshot if there is None else unpack(there)

    async def read(self, viewer_id: int, snapshot_id: str) -> Snapshot | None:
        """Return a snapshot and extend its life; None when it has expired."""
        with translated_errors():
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.getex(keys.snapshot(viewer_id, snapshot_id), ex=self._ttl_s)
                pipe.expire(keys.snapshots_of(viewer_id), self._ttl_s)
                packed, _ = await pipe.execute()
        return None if packed is None else unpack(packed)

    async def note(self, viewer_id: int, snapshot: Snapshot, start: int, ids: Ids) -> None:
        """Note that `ids` (n,) were looked at, as entries `start`.. of the snapshot's chain."""
        if not len(ids):
            return
        key = keys.chain(viewer_id, snapshot.head.id, snapshot.head.nonce)
        with translated_errors():
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.setrange(key, start * BYTES_PER_ID, ids.astype("<i8").tobytes())
                pipe.expire(key, self._chain_ttl_s)
                await pipe.execute()

    async def chain(self, viewer_id: int, snapshot_id: str, nonce: str, length: int) -> Ids | None:
        """Return the first `length` ids of a chain; None when not all of them are here."""
        if length == 0:
            return np.empty(0, dtype=np.int64)
        key = keys.chain(viewer_id, snapshot_id, nonce)
        with translated_errors():
            packed = await self._redis.getrange(key, 0, length * BYTES_PER_ID - 1)
        ids = np.frombuffer(packed, dtype="<i8")
        return ids if len(ids) == length and bool((ids != 0).all()) else None
