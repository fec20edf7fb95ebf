"""The feed over HTTP: open, scroll, expire, renew, degrade; the truth is written directly."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from api.app import create_app
from feed.settings import Settings
from storage.connections import Postgres, RedisClient
from tests.conftest import PATIENT

pytestmark = pytest.mark.anyio

VIEWER, FRIEND, OTHER, STRANGER = 1, 2, 3, 4
MINUTE_MS = 60_000
NOW_MS = 1_790_000_000_000

Get = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
async def client(settings: Settings, delivery: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the app in this process; candidates are few, so that a feed has a tail."""
    app = create_app(replace(settings, delivery=delivery))
    transport = httpx.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://test/api/v1") as client,
    ):
        yield client
        await app.state.services.effects.drain()


@pytest.fixture
def settings(database_url: str, redis_url: str) -> Settings:
    """Rank 8 candidates, so that a feed of 20 posts has a slate and a tail."""
    return Settings(
        postgres_url=database_url,
        redis_url=redis_url,
        auth="dev",
        cursor_keys="a secret of the tests, long enough to sign with",
        candidates=8,
        **PATIENT,
    )


@pytest.fixture
async def people(postgres: Postgres) -> None:
    """The viewer follows two of three people."""
    async with postgres.connection() as connection:
        await connection.execute(
            "INSERT INTO users (id, name) VALUES"
            " (1, 'Viewer'), (2, 'Friend'), (3, 'Other'), (4, 'Stranger')"
        )
        await connection.execute(
            "INSERT INTO follows (follower_id, followee_id) VALUES (1, 2), (1, 3)"
        )


async def write(postgres: Postgres, author: int, ids: list[int], **more: Any) -> None:
    """Write posts whose ids say how many minutes old they are: 100 is newer than 99."""
    rows = [
        (i, author, more.get("body", f"post {i}"), more.get("repost_of"), more.get("reply_to"),
         (NOW_MS + i * MINUTE_MS) / 1000, NOW_MS + i * MINUTE_MS)
        for i in ids
    ]  # fmt: skip
    async with postgres.connection() as connection, connection.cursor() as cursor:
        await cursor.executemany(
            "INSERT INTO posts (id, author_id, body, format, repost_of, reply_to, created_at,"
            " received_at, effective_ms, delivery)"
            " VALUES (%s, %s, %s, 'text', %s, %s, to_timestamp(%s), now(), %s, 'push')",
            rows,
        )


async def scroll(client: httpx.AsyncClient, mode: str, **options: Any) -> list[dict[str, Any]]:
    """Return the pages of one session to its end."""
    pages = [await get(client, mode=mode, limit=3, **options)]
    while pages[-1]["next_cursor"]:
        between = options.get("between")
        if between:
            await between(len(pages))
        pages.append(await get(client, mode=mode, limit=3, cursor=pages[-1]["next_cursor"]))
        assert len(pages) < 100
    return pages


async def get(client: httpx.AsyncClient, **params: Any) -> dict[str, Any]:
    """Return one page."""
    params.pop("between", None)
    answer = await client.get("/feed", params=params, headers={"X-User-Id": str(VIEWER)})
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


def ids(*pages: dict[str, Any]) -> list[int]:
    """Return the ids of the items of these pages."""
    return [int(item["id"]) for page in pages for item in page["items"]]


@pytest.mark.parametrize("mode", ["ranked", "chronological"])
async def test_pages_to_the_end_give_every_followed_post_once(
    client: httpx.AsyncClient, postgres: Postgres, people: None, mode: str
) -> None:
    """The slate, then the tail; the strangers' posts never."""
    await write(postgres, FRIEND, list(range(1, 21, 2)))
    await write(postgres, OTHER, list(range(2, 21, 2)))
    await write(postgres, STRANGER, [50])
    await write(postgres, VIEWER, [30])
    pages = await scroll(client, mode)
    assert sorted(ids(*pages)) == [*range(1, 21), 30]
    if mode == "chronological":
        assert ids(*pages) == [30, *range(20, 0, -1)]


async def test_the_second_open_reads_the_rebuilt_feed(
    client: httpx.AsyncClient, postgres: Postgres, people: None
) -> None:
    """The first open builds it beside the answer."""
    await write(postgres, FRIEND, [1, 2, 3])
    first = await get(client, mode="chronological")
    assert (first["state"], ids(first)) == ("building", [3, 2, 1])
    await client._transport.app.state.services.effects.drain()  # type: ignore[attr-defined]
    second = await get(client, mode="chronological")
    assert (second["state"], ids(second)) == ("ready", [3, 2, 1])
    assert {item["source"] for item in second["items"]} == {"pushed_feed"}


@pytest.mark.parametrize("mode", ["ranked", "chronological"])
async def test_a_flush_between_pages_loses_and_repeats_nothing(
    client: httpx.AsyncClient,
    postgres: Postgres,
    redis: RedisClient,
    people: None,
    mode: str,
) -> None:
    """The scroll goes on from the truth and from the served log."""
    await write(postgres, FRIEND, list(range(1, 21)))

    async def flush(_: int) -> None:
        await redis.flushall()

    pages = await scroll(client, mode, between=flush)
    assert sorted(ids(*pages)) == list(range(1, 21))


async def test_a_block_takes_effect_inside_an_open_snapshot(
    client: httpx.AsyncClient, postgres: Postgres, people: None
) -> None:
    """A snapshot freezes order, not permission; the page is refilled from deeper."""
    await write(postgres, FRIEND, [1, 3, 5, 7])
    await write(postgres, OTHER, [2, 4, 6, 8])
    first = await get(client, mode="ranked", limit=2)
    async with postgres.connection() as connection:
        await connection.execute("INSERT INTO blocks (blocker_id, blocked_id) VALUES (3, 1)")
    second = await get(client, mode="ranked", limit=3, cursor=first["next_cursor"])
    assert {item["author"]["id"] for item in second["items"]} == {str(FRIEND)}
    assert len(second["items"]) == 3


async def test_a_repost_stands_in_when_the_other_reposter_goes(
    client: httpx.AsyncClient, postgres: Postgres, people: None
) -> None:
    """Unfollowing one reposter after the open leaves the post reachable through the other."""
    await write(postgres, FRIEND, list(range(10, 14)))
    await write(postgres, STRANGER, [1])
    await write(postgres, FRIEND, [2], repost_of=1, body="")
    await write(postgres, OTHER, [3], repost_of=1, body="")
    first = await get(client, mode="ranked", limit=1)
    async with postgres.connection() as connection:
        await connection.execute("DELETE FROM follows WHERE followee_id = 3")
    rest = await get(client, mode="ranked", limit=10, cursor=first["next_cursor"])
    assert ids(first) == [13]
    assert 2 in ids(rest)
    assert 3 not in ids(rest)


async def test_the_tail_shows_an_original_once_too(
    client: httpx.AsyncClient, postgres: Postgres, people: None
) -> None:
    """At the first post met going down, whoever posted or reposted it."""
    await write(postgres, STRANGER, [1])
    await write(postgres, FRIEND, [2, *range(20, 30)])
    await write(postgres, FRIEND, [3, 4], repost_of=1, body="")
    await write(postgres, OTHER, [5], repost_of=1, body="")
    await write(postgres, OTHER, [6], repost_of=2, body="")
    pages = await scroll(client, "ranked")
    assert sorted(ids(*pages)) == [5, 6, *range(20, 30)]


async def test_an_original_in_the_tail_is_not_lost_with_one_of_its_reposters(
    client: httpx.AsyncClient, postgres: Postgres, people: None
) -> None:
    """What was passed over is decided by what was shown, never by what is there now."""
    await write(postgres, STRANGER, [1])
    await write(postgres, FRIEND, list(range(20, 30)))
    await write(postgres, OTHER, [6], repost_of=1, body="")
    await write(postgres, FRIEND, [5], repost_of=1, body="")
    pages = [await get(client, mode="ranked", limit=9)]
    async with postgres.connection() as connection:
        await connection.execute("DELETE FROM follows WHERE followee_id = 3")
    while pages[-1]["next_cursor"]:
        pages.append(await get(client, mode="ranked", limit=9, cursor=pages[-1]["next_cursor"]))
    assert sorted(ids(*pages)) == [5, *range(20, 30)]


async def test_a_reposted_quote_is_the_quote(
    client: httpx.AsyncClient, postgres: Postgres, people: None
) -> None:
    """Its words stay, and whoever it quotes is checked as well."""
    await write(postgres, STRANGER, [1])
    await write(postgres, OTHER, [2], repost_of=1, body="well said")
    headers = {"X-User-Id": str(FRIEND)}
    answer = await client.post("/posts", json={"repost_of": "2"}, headers=headers)
    assert (answer.status_code, answer.json()["repost_of"]) == (201, "2")
    assert len((await get(client, mode="chronological"))["items"]) == 2
    async with postgres.connection() as connection:
        await connection.execute("INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 4)")
    assert (await get(client, mode="chronological"))["empty_because"] == "all_filtered"


@pytest.mark.parametrize("mode", ["ranked", "chronological"])
async def test_there_is_no_next_page_when_only_hidden_posts_are_left(
    client: httpx.AsyncClient, postgres: Postgres, people: None, mode: str
) -> None:
    """The cursor is null exactly when nothing more can be shown."""
    await write(postgres, FRIEND, [1, 2, 3, 4])
    async with postgres.connection() as connection:
        await connection.execute("INSERT INTO hidden_posts (viewer_id, post_id) VALUES (1, 1)")
    page = await get(client, mode=mode, limit=3)
    assert (sorted(ids(page)), page["next_cursor"]) == ([2, 3, 4], None)


async def test_a_snapshot_that_cannot_be_read_counts_as_expired(
    client: httpx.AsyncClient, postgres: Postgres, redis: RedisClient, people: None
) -> None:
    """As after an upgrade that packs otherwise."""
    await write(postgres, FRIEND, list(range(1, 7)))
    first = await get(client, mode="ranked", limit=3)
    for key in await redis.keys("snap:*"):
        await redis.set(key, b"from another time")
    second = await get(client, mode="ranked", limit=3, cursor=first["next_cursor"])
    assert second["snapshot"]["renewed"]
    assert sorted(ids(first, second)) == list(range(1, 7))


async def test_updates_count_what_others_wrote_since_the_open(
    client: httpx.AsyncClient, postgres: Postgres, people: None
) -> None:
    """Own posts and strangers do not count."""
    await write(postgres, FRIEND, list(range(1, 7)))
    first = await get(client, mode="ranked", limit=3)
    cursor = first["next_cursor"]
    headers = {"X-User-Id": str(VIEWER)}
    answer = await client.get("/feed/updates", params={"cursor": cursor}, headers=headers)
    assert answer.json()["new_count"] == 0
    future = 10_000_000
    await write(postgres, FRIEND, [future])
    await write(postgres, STRANGER, [future + 1])
    await write(postgres, VIEWER, [future + 2])
    new = (await client.get("/feed/updates", params={"cursor": cursor}, headers=headers)).json()
    assert (new["new_count"], new["authors"]) == (1, [{"id": "2", "name": "Friend"}])


LOUD = range(100, 330)  # more than `scan_bound` rows, all newer than what is to be read


@pytest.mark.parametrize("mode", ["ranked", "chronological"])
@pytest.mark.parametrize(
    "shut_out",
    [
        "INSERT INTO mutes (muter_id, muted_id) VALUES (1, 3)",
        "INSERT INTO blocks (blocker_id, blocked_id) VALUES (3, 1)",
    ],
    ids=["muted", "blocks_the_viewer"],
)
async def test_who_is_shut_out_may_have_written_any_number(
    client: httpx.AsyncClient, postgres: Postgres, people: None, mode: str, shut_out: str
) -> None:
    """Nothing of theirs is read, so that it costs no page, and no pill tells of it."""
    await write(postgres, FRIEND, [1, 2, 3])
    await write(postgres, OTHER, list(LOUD))
    async with postgres.connection() as connection:
        await connection.execute(shut_out)
    pages = [await get(client, mode=mode, limit=1)]
    while pages[-1]["next_cursor"]:
        pages.append(await get(client, mode=mode, limit=1, cursor=pages[-1]["next_cursor"]))
    assert [len(page["items"]) for page in pages] == [1, 1, 1]
    assert sorted(ids(*pages)) == [1, 2, 3]
    await write(postgres, OTHER, [each + 10_000_000 for each in LOUD])
    cursor = pages[0]["updates_cursor"]
    headers = {"X-User-Id": str(VIEWER)}
    new = (await client.get("/feed/updates", params={"cursor": cursor}, headers=headers)).json()
    assert (new["new_count"], new["capped"]) == (0, False)


@asynccontextmanager
async def a_redis_that_never_answers() -> AsyncIterator[str]:
    """Listen where a cache should be, and say nothing."""

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1_000):
            pass
        writer.close()

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    yield f"redis://{host}:{port}/0"
    server.close()


@asynccontextmanager
async def no_redis() -> AsyncIterator[str]:
    """Name a port where nobody listens."""
    yield "redis://127.0.0.1:1/0"


@pytest.mark.parametrize("cache", [no_redis, a_redis_that_never_answers])
async def test_without_redis_a_feed_comes_from_postgres(
    settings: Settings,
    postgres: Postgres,
    people: None,
    cache: Callable[[], AbstractAsyncContextManager[str]],
) -> None:
    """Every page renews its slate then, and still nothing is lost or repeated."""
    await write(postgres, FRIEND, list(range(1, 21)))
    async with cache() as url:
        app = create_app(replace(settings, redis_url=url, redis_timeout_s=0.15))
        transport = httpx.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://test/api/v1") as client,
        ):
            pages = await scroll(client, "ranked")
    assert sorted(ids(*pages)) == list(range(1, 21))
    assert "pushed_feed" in pages[0]["degraded"]
    assert pages[0]["state"] == "degraded"
