"""Keeps snapshots and chains in Redis: each has a TTL, each viewer a bound.

A chain is what one chain of cursors was served up to and within a snapshot, in order, 24 bytes a
row: its id, the original that it showed, and where the page began that looked at it. Who presents
a cursor has taken the rows before it and no others, so that the page which began last counts; where
one page is answered twice, a row counts as shown if one of the answers showed it.
"""

import numpy as np
from redis.commands.core import AsyncScript

from feed.chain import Chain
from snapshots.snapshot import Snapshot, pack, unpack
from storage import keys
from storage.connections import Guard, RedisClient, translated_errors

ROW_BYTES = 24

# Creates a snapshot once, and drops the viewer's least recently used ones beyond the bound, with
# their traces. KEYS: snapshot, list of snapshots. ARGV: packed, ttl_s, now_ms, bound, prefixes of
# the keys of snapshots and traces, id.
# Returns the packed snapshot that was there already, or nil.
_FREEZE = """
local there = redis.call('GET', KEYS[1])
if there then
    return there
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[7])
redis.call('EXPIRE', KEYS[2], ARGV[2])
local over = redis.call('ZCARD', KEYS[2]) - tonumber(ARGV[4])
if over > 0 then
    for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, over - 1)) do
        redis.call('UNLINK', ARGV[5] .. id, ARGV[6] .. id)
        redis.call('ZREM', KEYS[2], id)
    end
end
return nil
"""

# Writes rows into a chain, but keeps a row of a page that began later, and a row that an earlier
# answer of this page has shown. KEYS: chain. ARGV: offset in bytes, packed rows, ttl_s, start.
_NOTE = """
local there = redis.call('GETRANGE', KEYS[1], ARGV[1], ARGV[1] + #ARGV[2] - 1)
local nothing, start = string.rep('\\0', 8), tonumber(ARGV[4])
local rows = {}
for at = 1, #ARGV[2], 24 do
    local row, began = string.sub(there, at, at + 23), -1
    if #row == 24 then
        began = struct.unpack('<i8', row, 17)
    end
    local shown = string.sub(row, 9, 16) ~= nothing
    if began < start or (began == start and not shown) then
        row = string.sub(ARGV[2], at, at + 23)
    end
    rows[#rows + 1] = row
end
redis.call('SETRANGE', KEYS[1], ARGV[1], table.concat(rows))
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
"""


class SnapshotStore:
    """Freezes and reads snapshots, and notes what was looked at."""

    def __init__(
        self,
        redis: RedisClient,
        *,
        ttl_s: int,
        per_viewer: int,
        chain_ttl_s: int,
        guard: Guard = translated_errors,
    ) -> None:
        """Keep at most `per_viewer` snapshots for each viewer, for `ttl_s` after their last use."""
        self._redis = redis
        self._ttl_s = ttl_s
        self._per_viewer = per_viewer
        self._chain_ttl_s = chain_ttl_s
        self._guard = guard
        self._freeze: AsyncScript = redis.register_script(_FREEZE)
        self._note: AsyncScript = redis.register_script(_NOTE)

    async def freeze(self, viewer_id: int, snapshot: Snapshot, now_ms: int) -> Snapshot:
        """Keep a snapshot under its id, unless one is there: return the one that counts."""
        head = snapshot.head
        with self._guard():
            there = await self._freeze(
                keys=[keys.snapshot(viewer_id, head.id), keys.snapshots_of(viewer_id)],
                args=[
                    pack(snapshot),
                    self._ttl_s,
                    now_ms,
                    self._per_viewer,
                    keys.snapshot(viewer_id, ""),
                    keys.trace(viewer_id, ""),
                    head.id,
                ],
            )
        kept = unpack(there) if there else None
        return snapshot if kept is None else kept  # one without rows counts, too

    async def read(self, viewer_id: int, snapshot_id: str, now_ms: int) -> Snapshot | None:
        """Return a snapshot; None when it has expired or cannot be read.

        Its life is extended, and that of its trace.
        """
        with self._guard():
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.getex(keys.snapshot(viewer_id, snapshot_id), ex=self._ttl_s)
                pipe.expire(keys.trace(viewer_id, snapshot_id), self._ttl_s)
                pipe.zadd(keys.snapshots_of(viewer_id), {snapshot_id: now_ms}, xx=True)
                pipe.expire(keys.snapshots_of(viewer_id), self._ttl_s)
                packed, *_ = await pipe.execute()
        return unpack(packed) if packed else None

    async def note(self, viewer_id: int, snapshot: Snapshot, start: int, chain: Chain) -> None:
        """Note rows (n,) that were looked at, as rows `start`.. of the snapshot's chain."""
        if not len(chain):
            return
        began = np.full(len(chain), start)
        rows = np.column_stack((chain.ids, chain.shows, began)).astype("<i8")
        with self._guard():
            await self._note(
                keys=[keys.chain(viewer_id, snapshot.head.id, snapshot.head.nonce)],
                args=[start * ROW_BYTES, rows.tobytes(), self._chain_ttl_s, start],
            )

    async def chain(
        self, viewer_id: int, snapshot_id: str, nonce: str, length: int
    ) -> Chain | None:
        """Return the first `length` rows of a chain; None when not all of them are here."""
        if length == 0:
            return Chain()
        key = keys.chain(viewer_id, snapshot_id, nonce)
        with self._guard():
            packed = await self._redis.getrange(key, 0, length * ROW_BYTES - 1)
        if len(packed) != length * ROW_BYTES:
            return None
        rows = np.frombuffer(packed, dtype="<i8").reshape(-1, 3)
        chain = Chain(rows[:, 0], rows[:, 1])
        return chain if len(chain.known()) == length else None
