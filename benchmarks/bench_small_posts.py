"""How many posts with 150 followers a second go all the way: written, relayed, pushed?

Over HTTP into one api process, through the relay, the queue and the workers, into full feeds; the
client, the servers and all the parts share the machine. The time of a burst ends when one reader
who follows everybody has every post of it and nothing is owed any more. Ceiling: how many of the
same posts the api alone takes, with the relay and the workers stopped. The quantiles are of the
lag at 50 posts a second: from the answer to the post being in that reader's feed.
"""

import asyncio
import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter

from benchmarks.cpu import cpu_s
from benchmarks.full_feeds import (
    check_full,
    chosen_followers,
    fill_feeds,
    load_people,
    relay_is_there,
)
from benchmarks.load import Client
from benchmarks.machine import machine
from benchmarks.options import Options, say
from benchmarks.parts import delivery, service, settings_on
from benchmarks.result import Result, spread
from benchmarks.servers import migrated, servers
from feed.errors import ForYouError
from storage import keys
from storage.connections import Postgres, RedisClient, open_redis
from storage.health import backlog

READERS = 2_000
WATCHER = READERS  # follows every author, and comes last in each page of followers
AUTHORS = 500
FOLLOWERS = 150
BURST = 400  # fewer than a feed holds, so that each can be looked for
CONNECTIONS = 8
PACE_PER_S = 50
PACED_S = 20
LOOK_EVERY_S = 0.005
WITHIN_S = 120.0


async def run(options: Options) -> Result:
    """Write bursts with and without delivery, in turns, and then at a steady pace."""
    async with servers(options) as running, migrated(running) as ours:
        settings = settings_on(ours)
        followers = _followers(options.seed)
        postgres, redis = Postgres(ours.postgres_url, connections=4), open_redis(ours.redis_url)
        await postgres.open()
        say(f"filling {READERS:,} feeds of {settings.feed_cap} entries")
        await load_people(ours.postgres_url, READERS, followers)
        with service(settings, ours.folder) as api, delivery(settings, ours.folder) as pids:
            await relay_is_there(redis)
            await fill_feeds(redis, settings, READERS)
            bench = Bench(api.port, postgres, redis, sorted(followers))
            say("warming up")
            await bench.delivered_per_s()
            burst, alone = [], []
            before_s = {name: cpu_s(pid) for name, pid in {**pids, "api": api.pid}.items()}
            for n in range(1, options.rounds + 1):
                say(f"round {n} of {options.rounds}")
                burst.append(await bench.delivered_per_s())
                with stopped(pids):
                    alone.append(await bench.written_per_s())
                await bench.drained()
            cpu_ms = {
                name: (cpu_s(pid) - before_s[name]) * 1000 / (2 * BURST * options.rounds)
                for name, pid in {**pids, "api": api.pid}.items()
            }
            say(f"{PACE_PER_S} posts a second for {PACED_S} s")
            lags_s = await bench.lags_s()
        await check_full(redis, settings, range(1, READERS + 1))
        await redis.aclose()
        await postgres.close()
        return Result(
            name="small_posts",
            value=median(burst),
            unit="posts/s",
            ceiling=median(alone),
            ceiling_is="what the api alone takes, relay and workers stopped",
            ratio=median(ours / api for ours, api in zip(burst, alone, strict=True)),
            spread=spread([lag * 1000 for lag in lags_s], "ms"),
            details={
                "followers_per_author": FOLLOWERS,
                "posts_in_a_burst": BURST,
                "connections": CONNECTIONS,
                "lag_at_posts_per_s": PACE_PER_S,
                "cpu_ms_of_a_post": {name: round(ms, 2) for name, ms in cpu_ms.items()},
            },
            machine=await machine(ours),
        )


class Bench:
    """Writes posts, and looks when they are in the feed of the watcher."""

    def __init__(
        self, port: int, postgres: Postgres, redis: RedisClient, authors: Sequence[int]
    ) -> None:
        """Write through the api at `port`; look in the stores."""
        self._port = port
        self._postgres = postgres
        self._redis = redis
        self._authors = authors

    async def delivered_per_s(self) -> float:
        """Write a burst and wait until nothing of it is owed; return posts per second."""
        started = perf_counter()
        await self._seen(await self._write())
        await self.drained()
        return BURST / (perf_counter() - started)

    async def written_per_s(self) -> float:
        """Write a burst; return posts per second."""
        started = perf_counter()
        await self._write()
        return BURST / (perf_counter() - started)

    async def lags_s(self) -> list[float]:
        """Write at a steady pace; return the lag of each post."""
        written: dict[int, float] = {}
        lags: dict[int, float] = {}

        async def look(until: asyncio.Event) -> None:
            while not until.is_set() or len(lags) < len(written):
                left = [id for id in written if id not in lags]
                there = await self._there(left)
                now = perf_counter()
                lags.update((id, now - written[id]) for id in there)
                await asyncio.sleep(LOOK_EVERY_S)

        done = asyncio.Event()
        async with asyncio.timeout(PACED_S + WITHIN_S), asyncio.TaskGroup() as tasks:
            tasks.create_task(look(done))
            await self._write_steadily(written)
            done.set()
        return list(lags.values())

    async def drained(self) -> None:
        """Wait until no delivery is owed."""
        async with asyncio.timeout(WITHIN_S):
            while (await backlog(self._postgres)).pending:  # noqa: ASYNC110  processes do it
                await asyncio.sleep(LOOK_EVERY_S)

    async def _write(self) -> list[int]:
        """Write a burst over a few connections; return the ids."""
        places, ids = iter(range(BURST)), []

        async def write() -> None:
            client = await Client.connect(self._port)
            for place in places:
                ids.append(await _post(client, self._authors[place % AUTHORS], place))
            await client.close()

        await asyncio.gather(*(write() for _ in range(CONNECTIONS)))
        return ids

    async def _write_steadily(self, written: dict[int, float]) -> None:
        """Begin one post every 1/pace seconds, whether or not the ones before are answered."""
        idle = [await Client.connect(self._port) for _ in range(CONNECTIONS)]
        started = perf_counter()

        async def write(place: int, client: Client) -> None:
            id = await _post(client, self._authors[place % AUTHORS], place)
            written[id] = perf_counter()
            idle.append(client)

        async with asyncio.TaskGroup() as tasks:
            for place in range(PACE_PER_S * PACED_S):
                await asyncio.sleep(started + place / PACE_PER_S - perf_counter())
                # In turn: the server closes what rests for five seconds.
                client = idle.pop(0) if idle else await Client.connect(self._port)
                tasks.create_task(write(place, client))
        for client in idle:
            await client.close()

    async def _seen(self, ids: Sequence[int]) -> None:
        """Wait until the watcher's feed holds all of these."""
        left = set(ids)
        async with asyncio.timeout(WITHIN_S):
            while left := left - await self._there(sorted(left)):  # noqa: ASYNC110  processes do it
                await asyncio.sleep(LOOK_EVERY_S)

    async def _there(self, ids: Sequence[int]) -> set[int]:
        if not ids:
            return set()
        scores = await self._redis.zmscore(keys.feed(WATCHER), [str(id) for id in ids])
        return {id for id, score in zip(ids, scores, strict=True) if score is not None}


@contextmanager
def stopped(pids: Mapping[str, int]) -> Iterator[None]:
    """Stop processes for a while, as Ctrl-Z does."""
    for pid in pids.values():
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids.values():
            os.kill(pid, signal.SIGCONT)


def _followers(seed: int) -> dict[int, list[int]]:
    chosen = chosen_followers(
        seed, readers=READERS - 1, authors=AUTHORS, followers_per_author=FOLLOWERS - 1
    )
    # Users READERS .. are the authors there; here the watcher has that number.
    return {author + 1: [*theirs, WATCHER] for author, theirs in chosen.items()}


async def _post(client: Client, author: int, number: int) -> int:
    body = json.dumps({"body": f"Post number {number}, of an ordinary length, about nothing."})
    answer = await client.get(
        (
            f"POST /api/v1/posts HTTP/1.1\r\nHost: bench\r\nX-User-Id: {author}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()
    )
    if answer.status != 201:
        raise ForYouError(f"A post was answered with {answer.status}: {answer.body[:300].decode()}")
    return int(json.loads(answer.body)["id"])
