"""The ladder of a feed, each rung reached by breaking the one above, with servers that really go.

Heavy ranker (its place is marked in `mixer.home_feed`), light ranker, order of time, Postgres
instead of cached lists; below that there is only 503.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from benchmarks.load import Target
from benchmarks.recorded import record
from benchmarks.trips import Statement
from benchmarks.world import Shape, load_world
from feed.settings import Settings
from rankers.light import AffinityDecay
from storage.migrate import migrate
from tests.conftest import cloned
from tests.integration import servers
from tests.integration.api_client import Client, running
from tests.integration.servers import Server

pytestmark = pytest.mark.anyio

VIEWER, ADA, BOB = 1, 2, 3
N_POSTS = 12
NO_REDIS = "redis://127.0.0.1:1/0"


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Server]:
    server = servers.valkey(tmp_path / "cache")
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def truth(servers_folder: Path) -> Iterator[Server]:
    server = servers.postgres(servers_folder / "truth")
    server.start()
    yield server
    server.kill()


async def written(api: Client) -> list[str]:
    """Let two whom the viewer follows write in turn; return the ids, newest first."""
    await api.people(VIEWER, ADA, BOB)
    for author in (ADA, BOB):
        await api.call("PUT", f"/follows/{author}", VIEWER)
    posts = [await api.post((ADA, BOB)[n % 2], f"post {n}") for n in range(N_POSTS)]
    return posts[::-1]


async def get(api: Client, query: str = "mode=ranked&limit=50") -> httpx.Response:
    async with asyncio.timeout(60):
        return await api.http.get(f"/api/v1/feed?{query}", headers={"X-User-Id": str(VIEWER)})


async def page(api: Client, query: str = "mode=ranked&limit=50") -> dict[str, Any]:
    answer = await get(api, query)
    assert answer.status_code == 200, answer.text
    await api.app.state.services.effects.drain()
    document: dict[str, Any] = answer.json()
    return document


def ids(*pages: dict[str, Any]) -> list[str]:
    return [item["id"] for each in pages for item in each["items"]]


def sources(document: dict[str, Any]) -> set[str]:
    return {item["source"] for item in document["items"]}


async def eventually(api: Client, holds: Callable[[httpx.Response], bool]) -> httpx.Response:
    """Ask until an answer is as it should be; the test's own time limit ends it."""
    while True:
        answer = await get(api)
        if holds(answer):
            return answer
        await asyncio.sleep(0.05)


def is_refused(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable"), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) > 0


async def test_each_rung_is_reached_by_breaking_the_one_above(
    settings: Settings, cache: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is missing on any of them."""
    async with running(replace(settings, redis_url=cache.url)) as api:
        posts = await written(api)
        await liked(settings, posts[-1])
        await page(api)

        light = await page(api)
        assert (light["snapshot"]["ranker"], light["degraded"]) == ("affinity_decay", [])
        assert ids(light)[0] == posts[-1], "the oldest is liked best"
        assert sources(light) == {"pushed_feed"}

        monkeypatch.setattr(AffinityDecay, "score", lambda *_: None)
        by_time = await page(api)
        assert (by_time["snapshot"]["ranker"], ids(by_time)) == ("chronological", posts)
        assert by_time["degraded"] == ["affinity_decay"]
        assert sources(by_time) == {"pushed_feed"}

        cache.kill()
        pulled = await page(api)
        assert (pulled["snapshot"]["ranker"], ids(pulled)) == ("chronological", posts)
        assert {"affinity_decay", "pushed_feed", "snapshot"} <= set(pulled["degraded"])
        assert sources(pulled) == {"below_floor"}

        monkeypatch.undo()
        pulled = await page(api)
        assert (pulled["snapshot"]["ranker"], ids(pulled)[0]) == ("affinity_decay", posts[-1])

        services = api.app.state.services
        await services.postgres.close()
        is_refused(await get(api))


async def liked(settings: Settings, post: str) -> None:
    """Count enough likes for the ranker to see."""
    async with await psycopg.AsyncConnection.connect(settings.postgres_url) as connection:
        await connection.execute(
            "INSERT INTO post_stats (post_id, likes) VALUES (%s, 1000)"
            " ON CONFLICT (post_id) DO UPDATE SET likes = 1000",
            [post],
        )


@pytest.mark.parametrize("mode", ["ranked", "chronological"])
async def test_redis_may_go_and_come_back_in_the_middle_of_a_scroll(
    settings: Settings, cache: Server, mode: str
) -> None:
    """Nothing is lost or repeated, and cached lists are read again without a restart."""
    few = replace(settings, redis_url=cache.url, candidates=8, redis_pause_s=0.01)
    async with running(few) as api:
        posts = await written(api)
        pages = [await page(api, f"mode={mode}&limit=2")]
        for step in (cache.kill, lambda: None, cache.start, lambda: None):
            step()
            cursor = pages[-1]["next_cursor"]
            pages.append(await page(api, f"mode={mode}&limit=2&cursor={cursor}"))
        while cursor := pages[-1]["next_cursor"]:
            pages.append(await page(api, f"mode={mode}&limit=2&cursor={cursor}"))
        assert sorted(ids(*pages)) == sorted(posts)
        assert "degraded" in {each["state"] for each in pages}
        back = await eventually(api, lambda answer: answer.json()["state"] == "ready")
        assert sources(back.json()) == {"pushed_feed"}


async def test_without_redis_few_read_from_postgres_at_once_and_the_rest_is_told_to_wait(
    settings: Settings, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody who has to wait gets an empty feed; afterwards everybody is served."""
    few = replace(settings, redis_url=NO_REDIS, fallbacks_at_once=2, budget_ms=2_000)
    async with running(few) as api:
        await written(api)
        reading = Reading(api.app.state.services.home_feed, monkeypatch)
        asked = [asyncio.create_task(get(api)) for _ in range(8)]
        waited = await asyncio.gather(*asked)
        assert reading.most == 2
        for answer in waited:
            is_refused(answer)
        reading.go_on.set()
        answers = await asyncio.gather(*(get(api) for _ in range(8)))
        assert [len(ids(answer.json())) for answer in answers] == [N_POSTS] * 8
        assert reading.most == 2


class Reading:
    """Readings of Postgres where cached lists are silent: they wait until they may go on."""

    def __init__(self, home: Any, patch: pytest.MonkeyPatch) -> None:
        self.most = self._now = 0
        self.go_on = asyncio.Event()
        filler = home._ranked._pipeline.gap_filler
        self._fill = filler.fill
        patch.setattr(filler, "fill", self)

    async def __call__(self, *args: Any) -> Any:
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            await self.go_on.wait()
            return await self._fill(*args)
        finally:
            self._now -= 1


@pytest.mark.parametrize("authors", [10, 200])
async def test_without_redis_an_open_asks_postgres_at_most_eight_times_whoever_asks(
    settings: Settings, database_url: str, authors: int
) -> None:
    """Bounded work: however many are followed, and however much they wrote."""
    shape = Shape(
        readers=1,
        authors=authors,
        posts_per_author=5,
        follows_per_reader=authors,
        pulled_authors=authors // 10,
        engaged_per_reader=5,
    )
    await load_world(database_url, shape, seed=7, now_ms=int(time.time() * 1000))
    target = Target("/api/v1/feed?mode=ranked", VIEWER)
    answers = await record(replace(settings, redis_url=NO_REDIS), [target])
    (answer,) = answers.values()
    trips = [trip for group in answer.recording.groups for trip in group]
    assert sum(isinstance(trip, Statement) for trip in trips) <= 8


@pytest.fixture
async def api(settings: Settings, truth: Server, redis: Any) -> AsyncIterator[Client]:
    """Serve on a Postgres that may go; the budget bounds what waits for it."""
    with cloned(truth.url, "template1") as url:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await migrate(connection)
        async with running(replace(settings, postgres_url=url, budget_ms=4_000)) as client:
            yield client


@pytest.mark.parametrize("mode", ["ranked", "chronological"])
async def test_postgres_that_hangs_is_503_and_then_the_feed_again(
    api: Client, truth: Server, mode: str
) -> None:
    """Opens and pages, many at once; the same process serves afterwards."""
    posts = await written(api)
    first = await page(api, f"mode={mode}&limit=2")
    following = f"mode={mode}&limit=50&cursor={first['next_cursor']}"
    truth.signal(signal.SIGSTOP)
    try:
        asked = [get(api, query) for query in (following, f"mode={mode}") for _ in range(10)]
        for answer in await asyncio.gather(*asked):
            is_refused(answer)
        assert (await api.http.get("/healthz")).status_code == 200
    finally:
        truth.signal(signal.SIGCONT)
    await eventually(api, lambda answer: answer.status_code == 200)
    assert sorted(ids(first, await page(api, following))) == sorted(posts)


async def test_postgres_that_is_killed_is_503_and_then_the_feed_again(
    api: Client, truth: Server
) -> None:
    """What was acknowledged is there, and so is the cursor's place."""
    posts = await written(api)
    first = await page(api, "mode=ranked&limit=2")
    truth.kill()
    for query in ("mode=ranked", f"mode=ranked&cursor={first['next_cursor']}"):
        is_refused(await get(api, query))
    truth.start()
    await eventually(api, lambda answer: answer.status_code == 200)
    rest = await page(api, f"mode=ranked&limit=50&cursor={first['next_cursor']}")
    assert sorted(ids(first, rest)) == sorted(posts)
