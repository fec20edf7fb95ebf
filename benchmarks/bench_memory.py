"""How many bytes does one entry of a full pushed feed take?

Ceiling: the raw data, 8 bytes of id and 8 of time. Peer: the same feeds on a server with its
default `zset-max-listpack-entries`. A snapshot of 500 rows and its trace are measured beside it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import numpy.typing as npt

from benchmarks.full_feeds import post_id
from benchmarks.machine import machine
from benchmarks.options import Options, say
from benchmarks.result import Result, spread
from benchmarks.servers import servers
from cli.doctor import packed_entries
from feed.candidates import Candidates
from feed.ids import NODE_BITS, SEQUENCE_BITS
from feed.order import Ids, newest_first
from feed.profile import Profile
from feed.settings import Settings
from snapshots.snapshot import Head, Snapshot
from snapshots.store import SnapshotStore
from snapshots.traces import SlateTrace, TraceStore
from storage import keys
from storage.connections import RedisClient, open_redis
from storage.feeds import Feeds

FEEDS = 200
FOLLOWEES = 200
RAW_BYTES = 16.0
DEFAULT_LISTPACK_ENTRIES = 128
NOW_MS = 1_767_312_000_000
DAYS_MS = 3 * 86_400_000


async def run(options: Options) -> Result:
    """Fill feeds and snapshots, and ask the server what they take."""
    settings = Settings()
    async with servers(options) as running:
        redis = open_redis(running.redis_url)
        say(f"filling {FEEDS} feeds of {settings.feed_cap} entries, twice")
        async with _packed_up_to(redis, packed_entries(settings.feed_cap)):
            packed = await _bytes_per_entry(redis, settings, options.seed)
            snapshots = await _bytes_per_snapshot(redis, settings, options.seed)
            traces = await _bytes_per_trace(redis, settings, options.seed)
        async with _packed_up_to(redis, DEFAULT_LISTPACK_ENTRIES):
            default = await _bytes_per_entry(redis, settings, options.seed)
        await redis.aclose()
        samples, default_median = spread(packed, "bytes"), spread(default, "bytes").p50
        return Result(
            name="memory",
            value=samples.p50,
            unit="bytes/entry",
            ceiling=RAW_BYTES,
            ceiling_is="the raw data: an id and a time of 8 bytes each",
            ratio=RAW_BYTES / samples.p50,
            spread=samples,
            peers={f"zset-max-listpack-entries {DEFAULT_LISTPACK_ENTRIES}": default_median},
            details={
                "feeds": FEEDS,
                "entries_per_feed": settings.feed_cap,
                "bytes_per_feed": samples.p50 * settings.feed_cap,
                "bytes_per_snapshot": spread(snapshots, "bytes").p50,
                "bytes_per_trace": spread(traces, "bytes").p50,
                "rows_per_snapshot": settings.candidates,
            },
            machine=await machine(running),
        )


@asynccontextmanager
async def _packed_up_to(redis: RedisClient, entries: int) -> AsyncIterator[None]:
    """Have the server pack sorted sets of up to `entries`; keys made in the block go with it."""
    name = "zset-max-listpack-entries"
    before = (await redis.config_get(name))[name]
    await redis.config_set(name, entries)
    try:
        yield
    finally:
        await redis.config_set(name, before)
        await redis.flushdb()


async def _bytes_per_entry(redis: RedisClient, settings: Settings, seed: int) -> list[float]:
    feeds = Feeds(redis, cap=settings.feed_cap)
    rng = np.random.default_rng(seed)
    for viewer in range(1, FEEDS + 1):
        key = keys.feed(viewer)
        ids, ms = _posts(rng, settings.feed_cap)
        await feeds.begin(key, "bench", ttl_s=60)
        # With a floor, as in a feed that was trimmed.
        await feeds.finish(key, "bench", ids, ms, NOW_MS - DAYS_MS - 1, ttl_s=settings.feed_ttl_s)
        # What a feed goes through: full, it takes another post, and then many at once.
        await feeds.push([key], post_id(NOW_MS + 1), NOW_MS + 1)
        await feeds.merge(key, ids, ms, None)
    sizes = [await redis.memory_usage(keys.feed(viewer)) for viewer in range(1, FEEDS + 1)]
    return [size / settings.feed_cap for size in sizes]


async def _bytes_per_snapshot(redis: RedisClient, settings: Settings, seed: int) -> list[float]:
    store = SnapshotStore(redis, ttl_s=900, per_viewer=8, chain_ttl_s=900)
    rng = np.random.default_rng(seed)
    for viewer in range(1, FEEDS + 1):
        await store.freeze(viewer, _snapshot(rng, settings.candidates), NOW_MS)
    named = [keys.snapshot(viewer, "s" * 16) for viewer in range(1, FEEDS + 1)]
    return [float(await redis.memory_usage(key)) for key in named]


async def _bytes_per_trace(redis: RedisClient, settings: Settings, seed: int) -> list[float]:
    store = TraceStore(redis, ttl_s=900)
    rng = np.random.default_rng(seed)
    for viewer in range(1, FEEDS + 1):
        await store.keep(_trace(rng, viewer, settings.candidates))
    named = [keys.trace(viewer, "s" * 16) for viewer in range(1, FEEDS + 1)]
    return [float(await redis.memory_usage(key)) for key in named]


def _trace(rng: np.random.Generator, viewer_id: int, n: int) -> SlateTrace:
    """Make rows as a viewer with 200 followees has them, a fifth of them reposts."""
    ids, ms = _posts(rng, n)
    order = newest_first(ms, ids)
    ids, ms = ids[order], ms[order]
    author = rng.integers(0, FOLLOWEES, n)
    likes = np.minimum(2 * rng.pareto(1, n), 10_000).astype(np.int64)
    engaged, seen = (rng.random(FOLLOWEES) < 0.3 for _ in range(2))
    columns = {
        "source": np.zeros(n, dtype=np.int8),
        "out_of_network": rng.random(n) < 0.1,
        "author": rng.integers(1, 10**7, FOLLOWEES)[author],
        "original": np.where(rng.random(n) < 0.2, rng.permutation(ids), ids),
        "format": rng.integers(0, 4, n),
        "likes": likes,
        "comments": likes // 5,
        "reposts": likes // 10,
        "author_age_d": rng.uniform(1, 1_000, FOLLOWEES)[author],
        "affinity": np.where(engaged, rng.uniform(0.3, 1, FOLLOWEES), 0.3)[author],
        "seen": np.where(rng.random(n) < 0.2, rng.random(n), 0.0),
        "author_seen": np.where(seen, rng.random(FOLLOWEES), 0.0)[author],
    }
    head = _snapshot(rng, 0).head
    return SlateTrace(viewer_id, head, Profile(), (), Candidates(ids, ms, columns), {})


def _snapshot(rng: np.random.Generator, n: int) -> Snapshot:
    ids, _ = _posts(rng, n)
    head = Head("s" * 16, "n" * 16, "f" * 32, NOW_MS, "affinity_decay", "default-12345678", None)
    nothing = np.zeros(n + 1, dtype=np.int64)
    return Snapshot(head, ids, np.zeros(n, dtype=np.int8), nothing[:0], nothing)


def _posts(rng: np.random.Generator, n: int) -> tuple[Ids, Ids]:
    """Make ids as the service makes them, each in its own millisecond of three days."""
    ms: npt.NDArray[np.int64] = NOW_MS - rng.choice(DAYS_MS, n, replace=False).astype(np.int64)
    return ms << (NODE_BITS + SEQUENCE_BITS) | rng.integers(0, 4, n), ms
