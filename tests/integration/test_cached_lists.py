"""The cached lists of `storage.feeds` on a real server: sentinel, floor, building marker."""

import numpy as np
import pytest
from redis.asyncio import Redis

from feed.settings import Settings
from storage import keys
from storage.connections import RedisClient
from storage.feeds import Feeds

FOREIGN = "feed:{9}"
KEY = keys.feed(1)


@pytest.fixture
def feeds(redis: "Redis[bytes]") -> Feeds:
    return Feeds(redis, cap=4)


async def built(feeds: Feeds, entries: list[tuple[int, int]], floor_ms: int | None = None) -> None:
    """Build the list from (id, ms) pairs."""
    assert await feeds.begin(KEY, "t", ttl_s=30)
    await finished(feeds, "t", entries, floor_ms)


async def finished(
    feeds: Feeds, token: str, entries: list[tuple[int, int]], floor_ms: int | None = None
) -> bool:
    ids = np.array([post for post, _ in entries], dtype=np.int64)
    ms = np.array([at for _, at in entries], dtype=np.int64)
    return await feeds.finish(KEY, token, ids, ms, floor_ms, ttl_s=100)


async def stored(feeds: Feeds) -> tuple[list[int], int | None] | None:
    """Return the ids, newest first, and the floor; None: missing or being built."""
    [cached] = await feeds.read([KEY])
    return None if cached is None else (cached.ids.tolist(), cached.floor_ms)


async def test_an_empty_list_is_not_a_missing_one(feeds: Feeds) -> None:
    assert await stored(feeds) is None
    await built(feeds, [])
    assert await stored(feeds) == ([], None)


async def test_a_push_leaves_a_missing_list_missing(feeds: Feeds) -> None:
    assert await feeds.push([KEY], 1, 10) == 0
    assert await stored(feeds) is None


async def test_a_list_being_built_is_not_served_but_takes_pushes(feeds: Feeds) -> None:
    await feeds.begin(KEY, "t", ttl_s=30)
    assert await feeds.push([KEY], 7, 70) == 1
    assert await stored(feeds) is None
    assert await finished(feeds, "t", [(6, 60)])
    assert await stored(feeds) == ([7, 6], None)


async def test_only_one_builder_at_a_time(feeds: Feeds) -> None:
    assert await feeds.begin(KEY, "t", ttl_s=30)
    assert not await feeds.begin(KEY, "other", ttl_s=30)


async def test_a_builder_whose_list_was_lost_changes_nothing(
    feeds: Feeds, redis: "Redis[bytes]"
) -> None:
    await feeds.begin(KEY, "t", ttl_s=30)
    await redis.flushall()
    assert not await finished(feeds, "t", [(6, 60)])
    assert await stored(feeds) is None


async def test_a_late_builder_cannot_finish_what_another_began(
    feeds: Feeds, redis: "Redis[bytes]"
) -> None:
    await feeds.begin(KEY, "late", ttl_s=30)
    await redis.delete(KEY)
    await feeds.begin(KEY, "t", ttl_s=30)
    assert not await finished(feeds, "late", [(5, 50)])
    assert await finished(feeds, "t", [(6, 60)])
    assert await stored(feeds) == ([6], None)


async def test_trimming_never_splits_a_millisecond(feeds: Feeds) -> None:
    await built(feeds, [(1, 20), (2, 20), (3, 30), (4, 40), (5, 50)])
    assert await stored(feeds) == ([5, 4, 3], 20)


async def test_the_floor_refuses_older_posts_and_its_own_millisecond(feeds: Feeds) -> None:
    await built(feeds, [(9, 90)], floor_ms=50)
    assert await feeds.push([KEY], 5, 50) == 0
    assert await feeds.push([KEY], 6, 51) == 1
    assert await stored(feeds) == ([9, 6], 50)


async def test_a_push_beyond_the_cap_raises_the_floor_to_what_it_drops(
    feeds: Feeds, redis: "Redis[bytes]"
) -> None:
    """Whether the server has trimmed the list by then or not."""
    await built(feeds, [(1, 10), (2, 20), (3, 30), (4, 40)])
    sizes = []
    for id in (5, 6, 7):
        await feeds.push([KEY], id, id * 10)
        assert await stored(feeds) == ([id, id - 1, id - 2, id - 3], (id - 4) * 10)
        sizes.append(await redis.zcard(KEY) - 1)
    assert sizes == [5, 4, 5]


async def test_a_list_trimmed_to_nothing_is_missing_not_empty(feeds: Feeds) -> None:
    await built(feeds, [(1, 10), (2, 10), (3, 10), (4, 10)])
    await feeds.push([KEY], 5, 10)
    assert await stored(feeds) == ([], 10)
    await feeds.push([KEY], 6, 10)
    assert await stored(feeds) is None


async def test_a_push_twice_is_a_push_once(feeds: Feeds) -> None:
    await built(feeds, [])
    for _ in range(2):
        await feeds.push([KEY], 1, 10)
    assert await stored(feeds) == ([1], None)


async def test_ties_are_ordered_as_numbers_not_as_text(feeds: Feeds) -> None:
    await built(feeds, [(9, 5), (10, 5), (100, 5)])
    assert await stored(feeds) == ([100, 10, 9], None)


async def test_merging_a_shorter_list_raises_the_floor_to_its_own(feeds: Feeds) -> None:
    await built(feeds, [(1, 10), (3, 30)])
    assert await feeds.merge(KEY, np.array([4]), np.array([40]), 20)
    assert await stored(feeds) == ([4, 3], 20)


async def test_merging_into_a_missing_list_does_nothing(feeds: Feeds) -> None:
    assert not await feeds.merge(KEY, np.array([4]), np.array([40]), None)
    assert await stored(feeds) is None


@pytest.mark.parametrize("being_built", [False, True])
async def test_a_key_of_another_type_is_no_list_and_costs_the_others_nothing(
    feeds: Feeds, redis: "Redis[bytes]", being_built: bool
) -> None:
    await redis.set(FOREIGN, "of somebody else")
    await built(feeds, [])
    one = np.array([5], dtype=np.int64)
    foreign, list_ = await feeds.read([FOREIGN, KEY])
    assert foreign is None and list_ is not None
    assert not await feeds.merge(FOREIGN, one, one, None)
    assert await feeds.remove(FOREIGN, one) == 0
    await feeds.touch({FOREIGN: 10})
    if being_built:
        assert await feeds.begin(FOREIGN, "t", ttl_s=30)
    assert await feeds.push([FOREIGN, KEY], 7, 70) == 1 + being_built
    assert await stored(feeds) == ([7], None)
    assert await redis.type(FOREIGN) == (b"zset" if being_built else b"none")


async def test_removing_every_entry_leaves_an_empty_list(feeds: Feeds) -> None:
    await built(feeds, [(1, 10)])
    assert await feeds.remove(KEY, np.array([1])) == 1
    assert await stored(feeds) == ([], None)


async def test_a_visit_extends_a_ready_list_but_not_one_being_built(
    feeds: Feeds, redis: "Redis[bytes]"
) -> None:
    await feeds.begin(KEY, "t", ttl_s=30)
    await feeds.touch({KEY: 1000})
    assert await redis.ttl(KEY) <= 30
    await finished(feeds, "t", [])
    await feeds.touch({KEY: 1000})
    assert await redis.ttl(KEY) > 100


async def test_no_list_is_kept_without_a_ttl(feeds: Feeds, redis: "Redis[bytes]") -> None:
    await built(feeds, [(1, 10), (2, 20), (3, 30), (4, 40)])
    for post in range(5, 12):
        await feeds.push([KEY], post, post * 10)
        await feeds.merge(KEY, np.array([post]), np.array([post * 10]), None)
        assert await redis.ttl(KEY) > 0


async def test_a_full_feed_stays_packed_whatever_it_goes_through(redis: RedisClient) -> None:
    """As the embedded server is set: a set that is unpacked once takes four times the memory."""
    cap = Settings().feed_cap
    feeds = Feeds(redis, cap=cap)
    ids = np.arange(1, cap + 1, dtype=np.int64)
    await feeds.begin("feed:{1}", "t", ttl_s=60)
    await feeds.finish("feed:{1}", "t", ids, ids, None, ttl_s=60)
    for post in range(10_000, 10_000 + feeds.most - cap):  # as long as it gets
        await feeds.push(["feed:{1}"], post, post)
    assert await redis.zcard("feed:{1}") == feeds.most + 1
    await feeds.merge("feed:{1}", ids + 20_000, ids + 20_000, None)
    assert await redis.object("encoding", "feed:{1}") == b"listpack"
