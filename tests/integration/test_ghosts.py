"""Deleted posts leave the cached lists they are found in, and a restore brings them back."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from feed.query import Mode
from feed.settings import Settings
from storage import graph, keys, posts
from storage.connections import Postgres, RedisClient
from storage.feeds import Feeds
from storage.ghosts import Ghosts
from tests.integration.fanout_world import AUTHOR, CAP, World
from tests.integration.reading import Reader

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    """Two viewers have three posts in their feeds, and so has the outbox."""
    world = World(postgres, redis, settings)
    await world.people(AUTHOR, 1, 2)
    await world.follow(1, 2)
    await world.drain()
    await world.open(1, 2)
    await world.open_outbox()
    await world.posts([1, 2, 3])
    await world.drain()
    return world


async def delete(world: World, post_id: int) -> None:
    async with world.postgres.transaction() as connection:
        await posts.delete_post(connection, AUTHOR, post_id)


async def restore(world: World, post_id: int) -> None:
    async with world.postgres.transaction() as connection:
        await posts.restore_post(connection, AUTHOR, post_id)


@pytest.mark.parametrize("mode", ["ranked", "chronological"])
async def test_a_read_takes_the_deleted_posts_that_it_finds_out_of_the_feed(
    world: World, redis: RedisClient, mode: Mode
) -> None:
    """Out of the reader's, nobody else's."""
    await delete(world, 2)
    await world.drain()
    assert await world.feed(1) == [3, 2, 1]
    await Reader(world.settings, world.postgres, redis).read(1, mode)
    assert [await world.feed(1), await world.feed(2)] == [[3, 1], [3, 2, 1]]
    await restore(world, 2)
    await world.drain()
    assert await world.feed(1) == [3, 2, 1]


@pytest.mark.parametrize("mode", ["ranked", "chronological"])
async def test_what_is_refused_for_another_reason_stays(
    world: World, redis: RedisClient, mode: Mode
) -> None:
    """A mute or a hidden post may be undone, and no event would push it again."""
    async with world.postgres.transaction() as connection:
        await graph.hide(connection, 1, 3)
        await graph.mute(connection, 1, AUTHOR)
    await Reader(world.settings, world.postgres, redis).read(1, mode)
    assert await world.feed(1) == [3, 2, 1]


async def test_a_delete_takes_the_post_out_of_its_authors_outbox(world: World) -> None:
    await delete(world, 2)
    await world.drain()
    assert await world.outbox() == [3, 1]
    await restore(world, 2)
    await world.drain()
    assert await world.outbox() == [3, 2, 1]


class Slow(Feeds):
    """Lists from which nothing is removed before a test says so."""

    async def remove_each(self, removed: Mapping[str, Sequence[int]]) -> int:
        self.reached.set()
        await self.goes_on.wait()
        return await super().remove_each(removed)

    @classmethod
    def on(cls, redis: RedisClient) -> "Slow":
        lists = cls(redis, cap=CAP)
        lists.reached, lists.goes_on = asyncio.Event(), asyncio.Event()
        return lists

    reached: asyncio.Event
    goes_on: asyncio.Event


async def test_a_restore_waits_for_a_sweep_under_way(world: World, redis: RedisClient) -> None:
    """Else the post would be pushed first and removed then."""
    await delete(world, 2)
    lists = Slow.on(redis)
    sweeping = asyncio.create_task(Ghosts(world.postgres, lists).sweep({keys.feed(1): [2]}))
    await lists.reached.wait()
    restoring = asyncio.create_task(restore(world, 2))
    await asyncio.sleep(0.2)
    assert not restoring.done()
    lists.goes_on.set()
    await asyncio.gather(sweeping, restoring)
    await world.drain()
    assert await world.feed(1) == [3, 2, 1]


async def test_a_sweep_leaves_what_is_being_restored(world: World) -> None:
    await delete(world, 2)
    ghosts = Ghosts(world.postgres, world.feeds)
    async with world.postgres.transaction() as connection:
        await posts.restore_post(connection, AUTHOR, 2)
        sweeping = asyncio.create_task(ghosts.sweep({keys.feed(1): [1, 2], keys.feed(2): [2]}))
        await asyncio.sleep(0.2)
        assert not sweeping.done()
    assert await sweeping == 0
    assert await world.feed(1) == [3, 2, 1]
