"""An author crosses both thresholds again and again while everything else goes on."""

import asyncio
from dataclasses import replace
from itertools import count, cycle
from typing import Any

import pytest

from feed.settings import Settings
from storage import keys
from storage.connections import Postgres, RedisClient
from tests.integration.fanout_world import AUTHOR, World
from tests.properties.service import Service

pytestmark = pytest.mark.anyio

MANY, BETWEEN, FEW = 6, 5, 3


@pytest.fixture
async def world(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    world = World(postgres, redis, replace(settings, switch_grace_s=0.2))
    await world.people(AUTHOR, *range(1, 4))
    return world


async def state(world: World) -> Any:
    rows = await world.rows("SELECT readers_pull, writers_pull FROM author_delivery")
    return rows[0] if rows else None


class Crowd:
    """Readers who page, feeds that get lost, and a worker, while an author crosses to and fro."""

    def __init__(self, world: World, redis: RedisClient) -> None:
        self.world = world
        self.service = Service(world.settings, world.postgres, redis)
        self.at_work = True
        self.n_scrolls = 0

    async def work(self) -> None:
        """Deliver what is owed, as it comes."""
        while self.at_work:
            await self.world.fanout.deliver(await self.world.owed())
            await asyncio.sleep(0.01)

    async def read(self, viewer_id: int) -> None:
        """Scroll to the end again and again: in order, and nothing delivered before is missing."""
        while self.at_work:
            delivered = {id for (id,) in await self.world.rows(DELIVERED)}
            got = await self.service.scroll(viewer_id, "chronological", 3)
            assert got == sorted(set(got), reverse=True)
            assert delivered <= set(got), f"{viewer_id} misses {sorted(delivered - set(got))}"
            self.n_scrolls += 1

    async def lose(self) -> None:
        """Lose a feed, or the outbox; a visit has it rebuilt."""
        for key in cycle([keys.feed(1), keys.feed(2), keys.outbox(AUTHOR)]):
            if not self.at_work:
                return
            await self.world.feeds.drop(key)
            await asyncio.sleep(0.15)


DELIVERED = """
SELECT id FROM posts WHERE NOT EXISTS (
    SELECT FROM deliveries d JOIN outbox_events e ON e.id = d.event_id
    WHERE e.payload ->> 'post_id' = posts.id::text)
"""

CROSSINGS_OWED = """
SELECT FROM deliveries d JOIN outbox_events e ON e.id = d.event_id WHERE e.type = 'author.crossed'
"""


async def test_an_author_crosses_to_and_fro_while_readers_page_and_feeds_are_rebuilt(
    world: World, redis: RedisClient
) -> None:
    """No reader ever misses a delivered post; between the thresholds nothing switches."""
    followers = [1, 2, 3]
    await world.follow(*followers)
    await world.drain()
    crowd = Crowd(world, redis)
    numbers = count(1)
    async with asyncio.TaskGroup() as tasks:
        for busy in (crowd.work(), crowd.lose(), *map(crowd.read, followers)):
            tasks.create_task(busy)
        for _ in range(3):
            for followed_by, wanted in ((MANY, (True, True)), (FEW, (False, False))):
                await world.cross(followed_by)
                while await state(world) != wanted:
                    await world.post(next(numbers))
                await world.cross(BETWEEN)
                for _ in range(5):
                    await world.post(next(numbers))
                    assert await state(world) == wanted
                # Two crossings looked at together would ask twice for the same way back.
                while await world.rows(CROSSINGS_OWED):  # noqa: ASYNC110  Postgres knows
                    await asyncio.sleep(0.01)
        crowd.at_work = False
    assert crowd.n_scrolls > len(followers)
    await world.drain()
    everything = list(range(next(numbers) - 1, 0, -1))
    for viewer in followers:
        assert await crowd.service.scroll(viewer, "chronological", 10) == everything
    await crowd.service.effects.drain()
    switches = await world.rows("SELECT FROM outbox_events WHERE type = 'author.backfill'")
    assert len(switches) == 3
