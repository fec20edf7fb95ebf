"""How many full outboxes of pulled authors does one process read a second, as an open does?

Ceiling: the same commands sent and their replies parsed by the driver, nothing done with them.
Its processor time, ours and the server's, is what FORYOU_COST_LOOKUP_US is set from.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.cpu import server_cpu_s
from benchmarks.full_feeds import copy_list, fill_feeds
from benchmarks.machine import machine
from benchmarks.options import Options, say
from benchmarks.result import Result, spread
from benchmarks.servers import servers
from candidate_sources.author_outboxes import AuthorOutboxes
from feed.order import NEWEST
from feed.query import Query, Viewer
from feed.settings import Settings
from storage import keys
from storage.connections import RedisClient, open_redis
from storage.feeds import Feeds

AUTHORS = 20
"""Pulled authors that one reader follows."""


@dataclass
class Way:
    """One way to read the outboxes of an open, and what it took."""

    open: Callable[[], Awaitable[object]]
    per_s: list[float] = field(default_factory=list)
    open_ms: list[float] = field(default_factory=list)
    client_cpu_s: float = 0.0
    server_cpu_s: float = 0.0

    def cpu_us(self, cpu_s: float) -> float:
        """Return microseconds of processor time for one outbox."""
        return cpu_s * 1e6 / (len(self.open_ms) * AUTHORS)


async def run(options: Options) -> Result:
    """Read the same outboxes in both ways, in turns."""
    settings = Settings()
    async with servers(options) as running:
        redis = open_redis(running.redis_url)
        await fill_feeds(redis, settings, 1)
        outboxes = [keys.outbox(author) for author in range(1, AUTHORS + 1)]
        await copy_list(redis, keys.feed(1), outboxes)
        ways = _ways(redis, settings, outboxes)
        for n in range(options.rounds + 1):
            say(f"round {n} of {options.rounds}" if n else "warming up")
            if n == 1:
                ways = _ways(redis, settings, outboxes)  # what the warm-up took is forgotten
            for way in ways:
                await _round(way, redis, options.seconds)
        await redis.aclose()
        return _result(*ways, await machine(running))


def _ways(redis: RedisClient, settings: Settings, outboxes: list[str]) -> tuple[Way, Way]:
    source = AuthorOutboxes(Feeds(redis, cap=settings.outbox_cap))
    authors = np.arange(1, AUTHORS + 1, dtype=np.int64)
    viewer = Viewer(id=1, followees=authors, pulled=authors)
    query = Query(viewer=viewer, before=NEWEST, n=settings.candidates, now_ms=0)

    async def bare() -> object:
        async with redis.pipeline(transaction=False) as pipe:
            for key in outboxes:
                pipe.zrange(key, 0, -1, withscores=True, score_cast_func=float)
            return await pipe.execute()

    return Way(lambda: source.find(query)), Way(bare)


async def _round(way: Way, redis: RedisClient, seconds: float) -> None:
    """Open again and again for a while."""
    server_s, client_s = await server_cpu_s(redis), time.process_time()
    began = now = time.perf_counter()
    n = 0
    while now - began < seconds:
        await way.open()
        n, before, now = n + 1, now, time.perf_counter()
        way.open_ms.append((now - before) * 1000)
    way.per_s.append(n * AUTHORS / (now - began))
    way.client_cpu_s += time.process_time() - client_s
    way.server_cpu_s += await server_cpu_s(redis) - server_s


def _result(ours: Way, bare: Way, on: dict[str, object]) -> Result:
    client_us, server_us = ours.cpu_us(ours.client_cpu_s), ours.cpu_us(ours.server_cpu_s)
    return Result(
        name="lookup",
        value=float(np.median(ours.per_s)),
        unit="outboxes/s",
        ceiling=float(np.median(bare.per_s)),
        ceiling_is="the same commands, replies parsed by the driver and thrown away",
        ratio=float(np.median([o / b for o, b in zip(ours.per_s, bare.per_s, strict=True)])),
        spread=spread(ours.open_ms, "ms"),
        details={
            "outboxes_per_open": AUTHORS,
            "entries_per_outbox": Settings().outbox_cap,
            "client_cpu_us": client_us,
            "server_cpu_us": server_us,
            "cpu_us": client_us + server_us,
            "ceiling_client_cpu_us": bare.cpu_us(bare.client_cpu_s),
        },
        machine=on,
    )
