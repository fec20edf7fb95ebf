"""Complaints about empty feeds and feeds with holes, one test each, from public issue trackers."""

import time
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.load import Target
from benchmarks.recorded import record
from benchmarks.trips import Statement
from benchmarks.world import Shape, load_world
from fanout.housekeeping import Housekeeping
from feed.settings import Settings
from storage import keys
from storage.connections import Postgres, RedisClient
from storage.feeds import Feeds
from storage.rebuild import Rebuild
from storage.restarts import Restarts
from storage.users import stamp_visit
from tests.cases.reader import FRIEND, MODES, OTHER, READER, Reader, ids, write
from tests.integration.api_client import Client, running
from tests.integration.fanout_world import CAP, World
from tests.integration.test_plans import rows_read

pytestmark = pytest.mark.anyio
both_modes = pytest.mark.parametrize("mode", MODES)


@both_modes
async def test_a_cleared_redis_empties_no_feed_and_heals_by_itself(
    api: Client, reader: Reader, redis: RedisClient, mode: str
) -> None:
    """mastodon/mastodon#4241, mastodon/mastodon#4056: empty until an admin did something."""
    await write(api, FRIEND, (1, 2, 3))
    await reader.page(mode)
    await redis.flushall()
    for state in ("building", "ready"):
        page = await reader.page(mode)
        assert (page["state"], sorted(ids(page))) == (state, [1, 2, 3])


class Dying(Feeds):
    """Lists whose builder dies when it has begun."""

    async def finish(self, *_: Any, **__: Any) -> bool:
        raise ConnectionAbortedError


@both_modes
async def test_building_ends_though_the_builder_died(
    api: Client,
    reader: Reader,
    workers: World,
    settings: Settings,
    redis: RedisClient,
    mode: str,
) -> None:
    """mastodon/mastodon#4851, mastodon/mastodon#16771: "is being built", for a week."""
    await write(api, FRIEND, (1, 2, 3))
    async with workers.postgres.connection() as connection:
        await stamp_visit(connection, READER)
    dying = Dying(redis, cap=CAP)
    with pytest.raises(ConnectionAbortedError):
        await Rebuild(workers.postgres, dying, dying, settings, patience_s=1).feed(READER, "t")
    page = await reader.page(mode)
    assert (page["state"], sorted(ids(page))) == ("building", [1, 2, 3])
    left_s = await redis.ttl(keys.feed(READER))
    assert 0 < left_s <= settings.building_ttl_s, "nobody need clear it"
    await redis.delete(keys.feed(READER))  # that time is over
    await reader.page(mode)
    assert (await reader.page(mode))["state"] == "ready"


@both_modes
async def test_a_feed_filled_by_one_author_goes_deeper_for_the_others(
    api: Client, reader: Reader, mode: str
) -> None:
    """mastodon/mastodon#5398: the newest were all one author's, and filters left none of them."""
    await write(api, FRIEND, (1, 2, 3))
    await write(api, OTHER, range(4, 24))
    await reader.call("PUT", f"/mutes/{OTHER}")
    for _ in range(2):  # from the truth, and from the list that the first open has made
        page = await reader.page(mode, limit=20)
        assert (ids(page), page["next_cursor"]) == ([3, 2, 1], None)


SHAPE = Shape(
    readers=1,
    authors=2_000,
    posts_per_author=5,
    follows_per_reader=2_000,
    pulled_authors=0,
    engaged_per_reader=0,
)


@both_modes
async def test_without_a_list_two_thousand_followees_cost_a_bounded_number_of_rows(
    settings: Settings, postgres: Postgres, redis: RedisClient, database_url: str, mode: str
) -> None:
    """mastodon/mastodon#2619, mastodon/mastodon PR 12084: one heavy query over all followees."""
    await load_world(database_url, SHAPE, seed=7, now_ms=int(time.time() * 1000))
    await Feeds(redis, cap=CAP).begin(keys.feed(1), "somebody else", ttl_s=600)
    target = Target(f"/api/v1/feed?mode={mode}", 1)
    (recorded,) = (await record(replace(settings, candidates=500), [target])).values()
    sent = [each for group in recorded.recording.groups for each in group]
    timelines = [
        each for each in sent if isinstance(each, Statement) and "effective_ms DESC" in each.query
    ]
    assert len(timelines) == 2, "own posts, and those of everybody in the missing list"
    async with postgres.connection() as connection:
        read = [await rows_read(connection, each.query, each.parameters) for each in timelines]
    wanted = 500 if mode == "ranked" else 26
    assert max(read) <= 2_000 + 3 * wanted, "one of each, and little more than is asked for"


@both_modes
@pytest.mark.parametrize("busy", [FRIEND, OTHER])
async def test_lists_of_unequal_depth_are_merged_without_a_hole(
    api: Client, reader: Reader, postgres: Postgres, busy: int, mode: str
) -> None:
    """misskey-dev/misskey#13495, misskey-dev/misskey#12842. One author is pushed, one pulled."""
    async with postgres.connection() as connection:
        await connection.execute("INSERT INTO author_delivery VALUES (%s, true, true)", [OTHER])
    quiet = FRIEND + OTHER - busy
    await write(api, quiet, (1, 2, 3))
    await write(api, busy, range(4, 24))
    await reader.page(mode)
    newest = await reader.page(mode, limit=8)
    assert {item["source"] for item in newest["items"]} > {"below_floor"}, "and from a list"
    assert (newest["state"], sorted(ids(newest))) == ("ready", list(range(16, 24)))
    assert sorted(ids(*await reader.scroll(mode))) == list(range(1, 24))


async def test_a_cache_that_was_off_and_is_on_again_has_no_hole(
    settings: Settings, workers: World, redis: RedisClient
) -> None:
    """misskey-dev/misskey#17547: what was written while it was off."""
    async with running(settings) as api:
        await api.people(READER, FRIEND)
        await Reader(api).follow(FRIEND)
        await write(api, FRIEND, (1, 2))
        await Reader(api).page("ranked")
        assert await workers.feed(READER) == [2, 1]
    async with running(replace(settings, delivery="pull")) as api:
        await write(api, FRIEND, (3, 4))
    await workers.drain()
    relay = Housekeeping(workers.postgres, workers.feeds, Restarts(redis), workers.settings)
    while await relay.begin() > 0:
        pass
    async with running(settings) as api:
        for state in ("building", "ready"):
            page = await Reader(api).page("chronological")
            assert (page["state"], ids(page)) == (state, [4, 3, 2])


@both_modes
async def test_an_own_new_post_is_in_the_own_feed_before_any_worker_runs(
    api: Client, reader: Reader, mode: str
) -> None:
    """pixelfed/pixelfed#5744."""
    await write(api, FRIEND, (1, 2))
    await reader.page(mode)
    own = int(await api.post(READER, "mine"))
    page = await reader.page(mode)
    assert (page["state"], sorted(ids(page))) == ("ready", [1, 2, own])


@both_modes
async def test_a_feed_with_nothing_to_show_says_why(
    api: Client, reader: Reader, workers: World, mode: str
) -> None:
    """pixelfed/pixelfed#5924: "no posts", and no reason."""

    async def why(reader: Reader) -> tuple[str, str]:
        page = await reader.page(mode)
        assert (page["items"], page["next_cursor"]) == ([], None)
        return page["state"], page["empty_because"]

    assert await why(Reader(api, user=99)) == ("empty", "no_follows")
    assert await why(reader) == ("empty", "no_posts")
    await write(api, FRIEND, (1,))
    await workers.drain()
    assert "empty_because" not in await reader.page(mode)
    await reader.call("PUT", f"/mutes/{FRIEND}")
    assert await why(reader) == ("empty", "all_filtered")
