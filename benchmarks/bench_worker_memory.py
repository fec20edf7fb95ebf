"""Does the memory of a worker stay flat over a million deliveries?

One worker process performs deliveries of small posts, relayed as in production. The value is its
resident memory at the end. Ceiling, which it should not exceed: its memory after the first tenth,
when connections are open and scripts are loaded.
"""

import asyncio
from itertools import pairwise
from pathlib import Path
from time import perf_counter

from benchmarks.full_feeds import (
    check_full,
    chosen_followers,
    fill_feeds,
    load_people,
    relay_is_there,
    write_posts,
)
from benchmarks.machine import machine
from benchmarks.options import Options, say
from benchmarks.parts import delivery, settings_on
from benchmarks.result import Result, spread
from benchmarks.servers import migrated, servers
from feed.errors import ForYouError
from storage.connections import Postgres, open_redis

DELIVERIES = 1_000_000
READERS = 200
AUTHORS = 100
FOLLOWERS = 20
STEPS = 100  # looks at the memory
OWED_AT_ONCE = 20_000
LOOK_EVERY_S = 0.1
STUCK_S = 60.0
FIRST_ID = 1 << 40


async def run(options: Options) -> Result:
    """Owe deliveries a part at a time, and look at the worker's memory while they go."""
    n = options.size or DELIVERIES
    async with servers(options) as running, migrated(running) as ours:
        settings = settings_on(ours)
        postgres, redis = Postgres(ours.postgres_url, connections=4), open_redis(ours.redis_url)
        await postgres.open()
        followers = chosen_followers(
            options.seed, readers=READERS, authors=AUTHORS, followers_per_author=FOLLOWERS
        )
        await load_people(ours.postgres_url, READERS, followers)
        with delivery(settings, ours.folder) as pids:
            await relay_is_there(redis)
            newest_ms = await fill_feeds(redis, settings, READERS)
            started = perf_counter()
            mb = await _deliver(postgres, pids["worker-fast"], n, newest_ms)
            spent_s = perf_counter() - started
        await check_full(redis, settings, range(1, READERS + 1))
        await redis.aclose()
        await postgres.close()
        first, last = mb[len(mb) // 10], mb[-1]
        return Result(
            name="worker_memory",
            value=last,
            unit="MB at the end",
            ceiling=first,
            ceiling_is="the same worker after the first tenth",
            ratio=first / last,
            spread=spread(mb[len(mb) // 10 :], "MB"),
            details={
                "deliveries": n,
                "followers_per_author": FOLLOWERS,
                "deliveries_per_s": round(n / spent_s),
            },
            machine=await machine(ours),
        )


async def _deliver(postgres: Postgres, worker: int, n: int, newest_ms: int) -> list[float]:
    """Deliver n posts; return the worker's resident megabytes after each hundredth of them."""
    mb = []
    ends = [n * step // STEPS for step in range(STEPS + 1)]
    owed_to = 0
    for step, (_, end) in enumerate(pairwise(ends), start=1):
        if end > owed_to:
            owed_to = await _owe(postgres, owed_to, min(n, owed_to + OWED_AT_ONCE), newest_ms)
        await _until_at_most(postgres, owed_to - end)
        mb.append(resident_mb(worker))
        if step % 10 == 0:
            say(f"{end:,} of {n:,}: {mb[-1]:.1f} MB")
    return mb


async def _owe(postgres: Postgres, after: int, until: int, newest_ms: int) -> int:
    """Write posts number (after, until] with their events; return `until`.

    Each is newer than all that feeds hold, so that every push trims.
    """
    numbers = range(after + 1, until + 1)
    authors = [READERS + 1 + n % AUTHORS for n in numbers]
    ids, ms = [FIRST_ID + n for n in numbers], [newest_ms + n for n in numbers]
    await write_posts(postgres, ids, authors, ms)
    return until


async def _until_at_most(postgres: Postgres, n: int) -> None:
    """Wait until at most n deliveries are owed.

    Raises:
        ForYouError: Nothing is done for a minute, or something failed for good.
    """
    last, since = -1, perf_counter()
    while True:
        async with postgres.connection() as connection:
            rows = await connection.execute(
                "SELECT count(*), count(*) FILTER (WHERE state = 'parked') FROM deliveries"
            )
            row = await rows.fetchone()
        assert row is not None  # an aggregate always gives one row
        owed, parked = row
        if owed <= n:
            return
        if owed != last:
            last, since = owed, perf_counter()
        if parked or perf_counter() - since > STUCK_S:
            raise ForYouError(f"{owed:,} deliveries are owed, {parked:,} parked: none is done.")
        await asyncio.sleep(LOOK_EVERY_S)


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process in megabytes."""
    for line in Path("/proc", str(pid), "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ForYouError(f"The process {pid} has ended.")
