"""What was on a screen: noted after the commit, rebuilt from the log, read beside the viewer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from fanout.recovery import Recovery
from feed.candidates import Candidates
from feed.errors import Unavailable
from feed.order import NEWEST
from feed.query import Query, Viewer
from feed.seen import Seen
from feed.settings import Settings
from mixer.rules import SeenLater
from mixer.seen import Impressions, Screens, SeenMemory, ViewersWithSeen
from mixer.side_effects import SideEffects
from storage import keys
from storage.connections import Postgres, RedisClient
from storage.engagements import Event
from storage.facts import PostgresViewers
from storage.feeds import Feeds
from storage.outbox_events import append
from storage.restarts import Restarts
from storage.seen import HEADER_BYTES, SeenRebuild, SeenStore, latest_impressions, unpack
from tests.integration.api_client import Client, running
from tests.integration.fanout_world import World

pytestmark = pytest.mark.anyio

AUTHOR, OTHER, READER, SECOND = 7, 6, 8, 9
KEPT, WEEK_S = 5, 7 * 86_400


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Remember so few impressions that the bound is met."""
    return replace(settings, seen_kept=KEPT)


class Memory:
    """The parts that a ranked feed reads through, on this test's stores."""

    def __init__(self, settings: Settings, postgres: Postgres, redis: RedisClient) -> None:
        self.effects = SideEffects(bound=64, deadline_s=10)
        self.redis = redis
        self.store = SeenStore(redis, kept=settings.seen_kept, memory_s=settings.seen_memory_s)
        self.rebuild = SeenRebuild(postgres, self.store, at_once=4, building_ttl_s=30)
        self.screens = Screens(self.effects, self.store, self.rebuild, token=lambda: str(uuid4()))
        viewers = PostgresViewers(postgres, half_life_s=WEEK_S)
        self.viewers = ViewersWithSeen(viewers, self.screens, deadline_s=5)

    async def posts(self, viewer_id: int = READER) -> list[int] | None:
        """Return the posts in a memory as it is, being built or not; None: there is none."""
        packed = await self.redis.get(keys.seen(viewer_id))
        return unpack(packed[HEADER_BYTES:]).posts.tolist() if packed else None

    async def open(self, *posts: tuple[int, int]) -> list[int]:
        """Order posts, given with their authors, as the next open does: at first as given."""
        viewer = await self.viewers.load(READER)
        await self.effects.drain()
        ids, authors = (np.array(column, dtype=np.int64) for column in zip(*posts, strict=True))
        rows = Candidates(
            ids, -np.arange(len(ids)), {"author": authors, "original": ids, "score": ids * 0 + 1.0}
        )
        now_ms = int(datetime.now(UTC).timestamp() * 1000)
        memory = SeenMemory(half_life_h=48, author_half_life_h=24, memory_s=WEEK_S)
        columns = await memory.hydrate(Query(viewer, 10, NEWEST, now_ms), rows)
        return SeenLater(factor=0.5).apply(rows.with_columns(columns)).ids.tolist()


@pytest.fixture
async def memory(
    settings: Settings, postgres: Postgres, redis: RedisClient
) -> AsyncIterator[Memory]:
    memory = Memory(settings, postgres, redis)
    yield memory
    await memory.effects.drain()


def event(post_id: int | str, type: str = "impression", **ago: float) -> dict[str, Any]:
    at = (datetime.now(UTC) - timedelta(**ago)).isoformat()
    return {"event_id": str(uuid4()), "type": type, "post_id": str(post_id), "at": at}


async def send(api: Client, *events: dict[str, Any], user: int = READER) -> dict[str, Any]:
    answer = await api.call("POST", "/events", user, {"events": list(events)})
    await api.app.state.services.effects.drain()
    document: dict[str, Any] = answer.json()
    return document


async def posts_of(api: Client, author: int, n: int) -> list[int]:
    return [int(await api.post(author)) for _ in range(n)]


# ---------------------------------------------------------------------- the memory


async def test_an_impression_goes_down_at_the_next_open(api: Client, memory: Memory) -> None:
    """Also when the memory was missing; then it is rebuilt, and the open after that knows."""
    first, second = await posts_of(api, AUTHOR, 2)
    both = ((first, AUTHOR), (second, AUTHOR))
    await send(api, event(first))
    assert await memory.posts() is None
    assert await memory.open(*both) == [first, second], "nothing is known yet"
    assert await memory.open(*both) == [second, first]
    await send(api, event(second), event(second, minutes=5))
    assert await memory.open(*both) == [first, second]


async def test_only_an_impression_is_one(api: Client, memory: Memory) -> None:
    """What was clicked, liked or dwelt on is no second one; what was refused is none."""
    (post,) = await posts_of(api, AUTHOR, 1)
    await memory.rebuild.rebuild(READER, "t", jitter=0)
    others = ("click", "like", "unlike", "dwell", "comment", "share", "not_interested", "report")
    assert (await send(api, *(event(post, type) for type in others)))["accepted"] == len(others)
    await send(api, event(12345))
    assert await memory.posts() == []


async def test_polling_and_opening_are_no_impressions(api: Client, memory: Memory) -> None:
    """Seen is not served (social-app#7145)."""
    await api.people(READER)
    await posts_of(api, AUTHOR, 3)
    await api.call("PUT", f"/follows/{AUTHOR}", READER)
    await memory.rebuild.rebuild(READER, "t", jitter=0)
    page = (await api.call("GET", "/feed?mode=ranked&limit=2", READER)).json()
    assert len(page["items"]) == 2
    for path in (
        f"/feed?mode=ranked&cursor={page['next_cursor']}",
        f"/feed/updates?cursor={page['updates_cursor']}",
        "/feed?mode=chronological",
    ):
        assert (await api.call("GET", path, READER)).status_code == 200
    await api.app.state.services.effects.drain()
    assert await memory.posts() == []


async def test_a_duplicate_does_not_count_twice(api: Client, memory: Memory) -> None:
    """In one batch, in another, and by ingest."""
    (post,) = await posts_of(api, AUTHOR, 1)
    await api.people(READER)
    await memory.rebuild.rebuild(READER, "t", jitter=0)
    shown = event(post)
    await send(api, shown, shown)
    await send(api, shown)
    line = {"kind": "event", "viewer_id": READER, **shown}
    assert (await api.ingest(line))["unchanged"] == 1
    await api.app.state.services.effects.drain()
    assert await memory.posts() == [post]


async def test_ingested_impressions_of_many_viewers_are_noted(api: Client, memory: Memory) -> None:
    """Each in the memory of its viewer; who has none yet gets it from the log."""
    first, second = await posts_of(api, AUTHOR, 2)
    await api.people(READER, SECOND)
    await memory.rebuild.rebuild(READER, "t", jitter=0)
    lines = [
        {"kind": "event", "viewer_id": READER, **event(first)},
        {"kind": "event", "viewer_id": SECOND, **event(first)},
        {"kind": "event", "viewer_id": 404, **event(first)},
        {"kind": "event", "viewer_id": READER, **event(second)},
    ]
    assert (await api.ingest(*lines))["accepted"] == 3
    await api.app.state.services.effects.drain()
    assert sorted(await memory.posts() or []) == [first, second]
    assert await memory.posts(SECOND) is None
    await memory.screens.read(SECOND)
    await memory.effects.drain()
    assert await memory.posts(SECOND) == [first]


async def test_a_flush_heals_from_the_log(api: Client, memory: Memory, redis: RedisClient) -> None:
    """To the same impressions, with their times and authors."""
    posts = [*await posts_of(api, AUTHOR, 2), *await posts_of(api, OTHER, 1)]
    await memory.rebuild.rebuild(READER, "t", jitter=0)
    await send(api, *(event(post, hours=n) for n, post in enumerate(posts)))
    before = await memory.screens.read(READER)
    await redis.flushall()
    assert not len(await memory.screens.read(READER))
    await memory.effects.drain()
    after = await memory.screens.read(READER)
    for name in ("posts", "authors", "at_s"):
        assert getattr(after, name).tolist() == getattr(before, name).tolist()
    assert sorted(after.authors.tolist()) == [OTHER, AUTHOR, AUTHOR]


async def test_a_memory_is_bounded(api: Client, memory: Memory, redis: RedisClient) -> None:
    """By number and by time; appended to or rebuilt, the latest stay."""
    posts = await posts_of(api, AUTHOR, KEPT + 3)
    await memory.rebuild.rebuild(READER, "t", jitter=0)
    for n, post in enumerate(posts):
        await send(api, event(post, minutes=len(posts) - n))
    assert await memory.posts() == posts[3:]
    assert WEEK_S - 60 < await redis.ttl(keys.seen(READER)) <= WEEK_S
    await redis.flushall()
    await memory.rebuild.rebuild(READER, "t", jitter=0)
    assert await memory.posts() == posts[3:]
    assert WEEK_S - 60 < await redis.ttl(keys.seen(READER)) <= WEEK_S
    await memory.rebuild.rebuild(SECOND, "t", jitter=0)
    await send(api, *(event(p, minutes=n) for n, p in enumerate(reversed(posts))), user=SECOND)
    assert await memory.posts(SECOND) == posts[3:]


async def test_the_log_of_another_day_or_viewer_is_not_read(
    api: Client, memory: Memory, postgres: Postgres
) -> None:
    """Seven days, by the partition and to the second."""
    posts = await posts_of(api, AUTHOR, 4)
    await send(api, *(event(post) for post in posts))
    await send(api, event(posts[0]), user=SECOND)
    async with postgres.connection() as connection:
        for post, days in zip(posts, (0, 6.9, 7 + 1 / 86_400, 8.5), strict=True):
            await connection.execute(
                "UPDATE engagements SET at = at - %(days)s * interval '1 day',"
                " day = ((at - %(days)s * interval '1 day') AT TIME ZONE 'UTC')::date"
                " WHERE viewer_id = %(viewer)s AND post_id = %(post)s",
                {"days": days, "viewer": READER, "post": post},
            )
        found = await latest_impressions(connection, READER, kept=100, memory_s=WEEK_S)
    assert found.posts.tolist() == [posts[1], posts[0]]


async def test_what_is_seen_during_a_rebuild_is_not_lost(memory: Memory) -> None:
    """It is appended behind the marker, and stays when the log is put before it."""
    one, two = (Seen(*(np.array([n], dtype=np.int64),) * 3) for n in (1, 2))
    await memory.store.append({READER: one})
    assert await memory.posts() is None, "missing stays missing"
    assert await memory.store.begin(READER, "token", ttl_s=30)
    assert not await memory.store.begin(READER, "other", ttl_s=30)
    await memory.store.append({READER: two})
    assert await memory.store.read(READER) is None, "not known yet"
    assert 0 < await memory.redis.ttl(keys.seen(READER)) <= 30, "a builder that died is forgotten"
    assert not await memory.store.finish(READER, "other", one)
    assert await memory.store.finish(READER, "token", one)
    assert await memory.posts() == [1, 2]
    assert not await memory.store.finish(READER, "token", one), "once only"
    await memory.redis.delete(keys.seen(READER))
    assert not await memory.store.finish(READER, "token", one), "deleted meanwhile"


async def test_many_opens_rebuild_a_missing_memory_once(memory: Memory) -> None:
    """In one process and in several; an empty memory is there, and not rebuilt again."""
    answers = await asyncio.gather(*(memory.screens.read(READER) for _ in range(20)))
    assert all(len(each) == 0 for each in answers)
    await memory.effects.drain()
    assert (memory.effects.failed, memory.effects.dropped) == (0, 0)
    assert await memory.posts() == []
    assert not await memory.rebuild.rebuild(READER, "t", jitter=0)


async def test_a_store_that_fails_costs_the_memory_not_the_feed(
    memory: Memory, postgres: Postgres
) -> None:
    """Raising or hanging: the viewer is loaded, and what was seen is not known."""

    async def fails() -> Seen:
        raise Unavailable("Redis cannot be reached")

    async def hangs() -> Seen:
        await asyncio.sleep(60)
        return Seen()

    for read in (fails, hangs):
        viewers = ViewersWithSeen(
            PostgresViewers(postgres, half_life_s=WEEK_S), Memorised(read), deadline_s=0.05
        )
        viewer = await viewers.load(READER)
        assert (viewer.id, viewer.seen) == (READER, None)


async def test_the_memory_is_read_while_the_viewer_is_loaded() -> None:
    """Each waits here until the other has begun: one after the other would never end."""
    both = asyncio.Barrier(2)

    class Facts:
        async def load(self, viewer_id: int) -> Viewer:
            await both.wait()
            return Viewer(id=viewer_id)

    async def read() -> Seen:
        await both.wait()
        return Seen()

    async with asyncio.timeout(5):
        viewer = await ViewersWithSeen(Facts(), Memorised(read), deadline_s=5).load(READER)
    assert viewer.seen is not None


class Memorised:
    """A memory that does as it is told."""

    def __init__(self, read: Callable[[], Awaitable[Seen]]) -> None:
        self._read = read

    async def read(self, viewer_id: int) -> Seen:
        return await self._read()


async def test_impressions_beyond_the_bound_are_dropped_and_counted(
    memory: Memory, postgres: Postgres
) -> None:
    """They are in the log all the same."""
    effects = SideEffects(bound=1, deadline_s=10)
    impressions = Impressions(effects, postgres, memory.store)
    now = datetime.now(UTC)
    shown = Event(viewer_id=READER, event_id=uuid4(), type="impression", post_id=1, at=now)
    for _ in range(3):
        impressions.note([shown], now)
    assert effects.dropped == 2
    await effects.drain()
    assert effects.failed == 0


async def test_a_deleted_account_and_an_import_forget_memories(
    settings: Settings, postgres: Postgres, redis: RedisClient, memory: Memory
) -> None:
    """The account's own, by its event; all of them when the log was written behind our back."""
    world = World(postgres, redis, settings)
    await memory.rebuild.rebuild(READER, "t", jitter=0)
    await memory.rebuild.rebuild(SECOND, "t", jitter=0)
    async with running(settings) as api:
        await api.people(READER)
        assert (await api.call("DELETE", f"/users/{READER}", 1, scope="admin")).status_code == 202
    await world.drain()
    assert (await memory.posts(READER), await memory.posts(SECOND)) == (None, [])
    async with postgres.transaction() as connection:
        await append(connection, "import", "x", "import.finished", {})
    await world.drain()
    assert await memory.posts(SECOND) is None


async def test_a_restarted_cache_forgets_memories(
    settings: Settings, postgres: Postgres, redis: RedisClient, memory: Memory
) -> None:
    """One that came back from an old dump looks whole, and is not."""
    await memory.rebuild.rebuild(READER, "t", jitter=0)
    await redis.set(keys.RUN_ID, f"another {datetime.now(UTC).isoformat()}")
    feeds = Feeds(redis, cap=settings.feed_cap)
    assert await Recovery(postgres, feeds, Restarts(redis), settings).check()
    assert await memory.posts() is None


# ---------------------------------------------------------------------- over HTTP


async def test_a_missing_memory_degrades_nothing_and_one_that_cannot_be_read_is_named(
    api: Client, redis: RedisClient
) -> None:
    """The feed is whole both times."""
    await api.people(READER)
    await posts_of(api, AUTHOR, 8)
    await api.call("PUT", f"/follows/{AUTHOR}", READER)
    await redis.delete(keys.seen(READER))
    assert (await opened(api))["degraded"] == []
    await redis.delete(keys.seen(READER))
    await redis.lpush(keys.seen(READER), "no memory")
    broken = await opened(api)
    assert "seen_memory" in broken["degraded"]
    assert len(broken["items"]) == 8


async def opened(api: Client) -> dict[str, Any]:
    answer = await api.call("GET", "/feed?mode=ranked", READER)
    assert answer.status_code == 200, answer.text
    await api.app.state.services.effects.drain()
    document: dict[str, Any] = answer.json()
    return document
