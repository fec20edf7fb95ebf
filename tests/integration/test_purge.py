"""A deleted account leaves nothing behind, in no table and under no key, but for what is said."""

import asyncio
import re
from datetime import UTC, datetime

import pytest
from psycopg import sql

from fanout.housekeeping import Housekeeping
from fanout.tasks import Fanout
from fanout.worker import TIMEOUT_OF_LEASE
from feed.settings import Settings
from storage import receipts
from storage.connections import Postgres, RedisClient
from storage.delivery_state import stop_delivering
from storage.feeds import Feeds
from storage.pressure import pull_meanwhile
from storage.purge import delete_user, purge_again
from storage.receipts import Receipt
from storage.restarts import Restarts
from tests.integration.api_client import Client
from tests.integration.fanout_world import AUTHOR, World
from tests.integration.test_api_posts import rows

pytestmark = pytest.mark.anyio

GONE, OTHER = 777_000_777, 2
SECRET = "xylophone"  # in everything that the user wrote
MAY_NAME = {"users", "posts", "audit"}
"""Tables that may name the user afterwards: empty rows, and the receipt."""


async def live(api: Client) -> None:
    """Do all that leaves a trace, with and to others."""
    await api.people(GONE, OTHER)
    theirs = await api.post(OTHER)
    posts = [await api.post(GONE, f"{SECRET} {n}") for n in range(3)]
    await api.post(GONE, "", repost_of=theirs)
    await api.post(GONE, SECRET, reply_to=theirs, lang="en")
    await api.post(OTHER, "", repost_of=posts[0])
    key = {"Idempotency_Key": SECRET}
    await api.call("POST", "/posts", GONE, {"body": SECRET}, **key)
    await api.call("PUT", f"/users/{GONE}", GONE, {"name": SECRET})
    for kind in ("follows", "mutes", "follows"):
        for a, b in ((GONE, OTHER), (OTHER, GONE)):
            assert (await api.call("PUT", f"/{kind}/{b}", a)).status_code == 204
    await api.call("DELETE", f"/follows/{GONE}", OTHER)
    await api.call("DELETE", f"/mutes/{OTHER}", GONE)
    await api.call("PUT", f"/hidden/{theirs}", GONE)
    await api.call("DELETE", f"/hidden/{theirs}", GONE)
    await api.call("PUT", f"/follows/{GONE}", OTHER)
    await api.call("PUT", "/preferences", GONE, {"feed_mode": "ranked"})
    for viewer, post in ((GONE, theirs), (OTHER, posts[1])):
        events = [
            {"event_id": f"{n:032}", "type": kind, "post_id": post, "at": "2030-01-01T00:00:00Z"}
            for n, kind in enumerate(("impression", "like", "click"))
        ]
        await api.call("POST", "/events", viewer, {"events": events})
    await scroll(api)
    await api.call("PUT", f"/blocks/{OTHER}", GONE)


async def scroll(api: Client) -> None:
    """Let both read in both modes, two pages each."""
    for viewer in (GONE, OTHER):
        for mode in ("ranked", "chronological"):
            page = (await api.call("GET", f"/feed?mode={mode}&limit=1", viewer)).json()
            if page["next_cursor"]:
                cursor = page["next_cursor"]
                await api.call("GET", f"/feed?mode={mode}&limit=1&cursor={cursor}", viewer)
    await api.app.state.services.effects.drain()


async def naming(postgres: Postgres, what: str) -> set[str]:
    """Return the tables with a row that names this, in whatever column."""
    tables = await rows(
        postgres,
        "SELECT table_name FROM information_schema.tables"
        " WHERE table_schema = 'public' AND table_type = 'BASE TABLE'",
    )
    named = set()
    for (table,) in tables:
        query = sql.SQL("SELECT count(*) FROM {} AS t WHERE t::text ~ %s")
        if await rows(postgres, query.format(sql.Identifier(table)), rf"\m{what}\M") != [(0,)]:
            named.add(table)
    return named


async def keys_naming(redis: RedisClient, user_id: int) -> list[str]:
    return sorted(
        key.decode() for key in await redis.keys("*") if re.search(rf"\b{user_id}\b", key.decode())
    )


@pytest.fixture
def house(postgres: Postgres, redis: RedisClient, settings: Settings) -> Housekeeping:
    feeds = Feeds(redis, cap=settings.feed_cap)
    return Housekeeping(postgres, feeds, Restarts(redis), settings)


async def drain(postgres: Postgres, redis: RedisClient, settings: Settings) -> None:
    fanout = Fanout(postgres, Feeds(redis, cap=settings.feed_cap), settings, jitter=lambda: 0.0)
    for _ in range(20):
        owed = [id for (id,) in await rows(postgres, "SELECT id FROM deliveries")]
        if not owed:
            return
        await fanout.deliver(owed)
    raise AssertionError("deliveries never end")


async def test_nothing_is_left_of_a_deleted_account(
    api: Client, postgres: Postgres, redis: RedisClient, settings: Settings, house: Housekeeping
) -> None:
    """Every table and every column, every key; the receipt is kept."""
    await live(api)
    await house.fold()
    await drain(postgres, redis, settings)
    await scroll(api)
    await rows(postgres, "INSERT INTO author_costs VALUES (%s, true) RETURNING 1", GONE)
    await rows(postgres, "INSERT INTO author_delivery VALUES (%s, true, true) RETURNING 1", GONE)
    assert len(await naming(postgres, str(GONE))) > 10
    assert {"served", "affinity"} <= {
        name.split("_2")[0].removesuffix("_default") for name in await naming(postgres, str(GONE))
    }
    kinds = {key.split(":")[0] for key in await keys_naming(redis, GONE)}
    assert kinds >= {"feed", "snap", "snaps", "chain"}
    receipt = (await api.call("DELETE", f"/users/{GONE}", OTHER, scope="admin")).json()
    await api.app.state.services.effects.drain()
    assert await keys_naming(redis, GONE) == []
    await house.fold()
    await drain(postgres, redis, settings)
    await rows(postgres, "UPDATE outbox_events SET created_at = now() - interval '3 h' RETURNING 1")
    await house.tidy()
    assert await naming(postgres, str(GONE)) <= MAY_NAME
    assert await naming(postgres, SECRET) == set()
    [(kept,)] = await rows(postgres, "SELECT detail FROM audit WHERE action = 'user.deleted'")
    assert kept == {"user_id": GONE, "removed": receipt["removed"]}
    left = "SELECT DISTINCT body, repost_of, reply_to, lang FROM posts WHERE author_id = %s"
    assert await rows(postgres, left, GONE) == [("", None, None, None)]


async def test_the_event_purges_the_cache_where_the_api_could_not(
    api: Client, postgres: Postgres, redis: RedisClient, settings: Settings
) -> None:
    """As when Redis was away, or the process was killed after its answer."""
    await live(api)
    async with postgres.transaction() as connection:
        await delete_user(connection, GONE, actor_id=GONE, now=datetime.now(UTC))
    assert await keys_naming(redis, GONE) != []
    await drain(postgres, redis, settings)
    assert await keys_naming(redis, GONE) == []


async def test_what_a_request_under_way_leaves_is_purged_with_the_event(
    api: Client, postgres: Postgres, redis: RedisClient, settings: Settings
) -> None:
    """A post and a visit that were committed just after the account was deleted."""
    await live(api)
    assert (await api.call("DELETE", f"/users/{GONE}", GONE)).status_code == 202
    await under_way(postgres)
    await drain(postgres, redis, settings)
    await check_purged_again(postgres)


async def test_what_a_job_under_way_leaves_is_purged_with_the_event(
    api: Client, postgres: Postgres, redis: RedisClient, settings: Settings
) -> None:
    """One that had read a post when its account was deleted, and settles when its time is over."""
    await live(api)
    assert (await api.call("DELETE", f"/users/{GONE}", GONE)).status_code == 202
    fanout = Fanout(postgres, Feeds(redis, cap=settings.feed_cap), settings, jitter=lambda: 0.0)
    await fanout.deliver([id for (id,) in await rows(postgres, "SELECT id FROM deliveries")])
    time_of_a_job = f"{settings.lease_s * TIMEOUT_OF_LEASE} s"
    pass_time = "UPDATE deliveries SET due_at = due_at - %s::interval RETURNING 1"
    await rows(postgres, pass_time, time_of_a_job)
    due = await rows(postgres, "SELECT id FROM deliveries WHERE due_at <= now()")
    await fanout.deliver([id for (id,) in due])
    theirs = "SELECT min(id) FROM posts WHERE author_id = %s"
    [(post_id,)] = await rows(postgres, theirs, GONE)
    async with postgres.transaction() as connection:
        await pull_meanwhile(connection, [GONE])
        await receipts.write(connection, [Receipt(post_id, 1, n_feeds=1, n_inactive=0)])
    await drain(postgres, redis, settings)
    assert "author_delivery" not in await naming(postgres, str(GONE))
    assert await rows(postgres, "SELECT FROM delivery_receipts WHERE post_id = %s", post_id) == []


async def test_where_no_worker_is_needed_the_api_purges_what_a_request_under_way_leaves(
    api: Client, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While everybody is pulled nothing is owed, so no event sees to it."""
    await live(api)
    async with postgres.transaction() as connection:
        await stop_delivering(connection)
    ended = asyncio.Event()
    monkeypatch.setattr("api.users.asyncio.sleep", lambda _: ended.wait())
    assert (await api.call("DELETE", f"/users/{GONE}", GONE)).status_code == 202
    await under_way(postgres)
    ended.set()
    await api.app.state.services.effects.drain()
    await check_purged_again(postgres)


async def under_way(postgres: Postgres) -> None:
    """Commit a post and a visit of the deleted account, as a request that began before does."""
    await rows(
        postgres,
        "INSERT INTO posts (id, author_id, body, format, created_at, received_at, effective_ms,"
        " delivery) VALUES (9, %s, %s, 'text', now(), now(), 9, 'push') RETURNING 1",
        GONE,
        SECRET,
    )
    await rows(postgres, "INSERT INTO user_activity VALUES (%s, now()) RETURNING 1", GONE)


async def check_purged_again(postgres: Postgres) -> None:
    assert "user_activity" not in await naming(postgres, str(GONE))
    assert await naming(postgres, SECRET) == set()
    assert await rows(postgres, "SELECT deleted_at IS NULL FROM posts WHERE id = 9") == [(False,)]


async def test_who_reads_with_a_deleted_account_leaves_no_visit(
    api: Client, postgres: Postgres
) -> None:
    await live(api)
    await api.call("DELETE", f"/users/{GONE}", GONE)
    await scroll(api)
    assert "user_activity" not in await naming(postgres, str(GONE))


async def test_an_account_that_begins_again_is_not_purged(api: Client, postgres: Postgres) -> None:
    """The event may come late, or twice."""
    await live(api)
    await api.call("DELETE", f"/users/{GONE}", GONE)
    await api.people(GONE)
    await api.post(GONE, "again")
    async with postgres.transaction() as connection:
        await purge_again(connection, GONE)
    assert await naming(postgres, "again") == {"posts"}


WAITING = (
    "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


async def test_an_account_may_be_deleted_while_a_worker_settles_what_it_wrote(
    postgres: Postgres, redis: RedisClient, settings: Settings
) -> None:
    """Both take the same rows, in the same order: one waits for the other, and no more."""
    world = World(postgres, redis, settings)
    await world.people(AUTHOR)
    await world.post(1)
    receipt = Receipt(post_id=1, chunk=0, n_feeds=0, n_inactive=0)
    async with postgres.transaction() as connection:
        await receipts.write(connection, [receipt])
        await pull_meanwhile(connection, [AUTHOR])
    async with postgres.transaction() as settling:
        await pull_meanwhile(settling, [AUTHOR])
        deleting = asyncio.create_task(deleted(postgres, AUTHOR))
        while not await rows(postgres, WAITING):  # noqa: ASYNC110  Postgres knows
            await asyncio.sleep(0.01)
        await receipts.write(settling, [receipt])
    assert await deleting
    assert await rows(postgres, "SELECT FROM delivery_receipts") == []


async def deleted(postgres: Postgres, user_id: int) -> bool:
    async with postgres.transaction() as connection:
        now = datetime.now(UTC)
        receipt = await delete_user(connection, user_id, actor_id=user_id, now=now)
        return receipt.user_id == user_id
