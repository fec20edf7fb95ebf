"""Under lag: large authors wait in the slow lane and are pulled meanwhile; recovery is slow."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from fanout.pressure import UnderLag
from feed.settings import Settings
from storage import deliveries, pressure
from storage.connections import Postgres, RedisClient
from tests.integration.fanout_world import AUTHOR, OTHER, World
from tests.properties.service import Service

pytestmark = pytest.mark.anyio

FOLLOWERS = [1, 2, 3]


@pytest.fixture
async def world(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    """A world in which AUTHOR has three followers, who fit into one page, and OTHER has one."""
    world = World(postgres, redis, replace(settings, switch_grace_s=1e-6))
    world.reconfigure(fanout_page=10, lag_lowest_followers=2)
    await world.people(AUTHOR, OTHER, *FOLLOWERS)
    await world.follow(*FOLLOWERS)
    await world.follow(1, author_id=OTHER)
    await counted(world, AUTHOR, len(FOLLOWERS))
    await counted(world, OTHER, 1)
    await world.drain()
    await world.open(*FOLLOWERS)
    return world


async def counted(world: World, author_id: int, followers: int) -> None:
    await world.rows(
        "UPDATE users SET follower_count = %s WHERE id = %s RETURNING 1", [followers, author_id]
    )


def under_lag(world: World) -> UnderLag:
    return UnderLag(world.postgres, world.settings)


async def late(world: World, seconds: float = 60) -> None:
    """Let everything that is owed be late."""
    await world.rows(
        "UPDATE deliveries SET created_at = now() - make_interval(secs => %s) RETURNING 1",
        [seconds],
    )


async def time_passes(world: World, seconds: float = 1_000) -> None:
    """Let the threshold have stood, and it have been as calm as it was, for so long."""
    await world.rows(
        "UPDATE delivery_pressure SET changed_at = changed_at - make_interval(secs => %(s)s),"
        " busy_at = busy_at - make_interval(secs => %(s)s) RETURNING 1",
        {"s": seconds},
    )


async def step(world: World) -> int | None:
    """Take one step; return the threshold then."""
    await under_lag(world).step()
    [(threshold,)] = await world.rows("SELECT threshold FROM delivery_pressure")
    return threshold if threshold is None else int(threshold)


async def press(world: World, threshold: int) -> None:
    async with world.postgres.connection() as connection:
        await pressure.press(connection, threshold)


async def state(world: World) -> Any:
    rows = await world.rows(
        "SELECT author_id, readers_pull, writers_pull, because FROM author_delivery"
    )
    return rows[0] if rows else None


async def lanes(world: World) -> list[str]:
    return [lane for (lane,) in await world.rows("SELECT lane FROM deliveries ORDER BY id")]


PULLED = (AUTHOR, True, False, "lag")
RELEASED = (AUTHOR, False, False, "lag")


# ---------------------------------------------------------------------- the threshold


async def test_under_lag_the_threshold_falls_step_by_step_and_no_faster(world: World) -> None:
    await world.post(1, OTHER)
    assert await step(world) is None
    await time_passes(world)
    assert await step(world) is None
    await late(world)
    assert [await step(world), await step(world)] == [3, 3]
    await time_passes(world, world.settings.lag_step_s)
    assert await step(world) == 2
    await time_passes(world)
    assert await step(world) == 2


async def test_it_rises_slowly_and_only_after_a_long_calm(world: World) -> None:
    await press(world, 2)
    await world.post(1, OTHER)
    await time_passes(world)
    await late(world, world.settings.lag_bound_s * 0.6)
    assert await step(world) == 2  # neither late nor calm
    await world.drain()
    await time_passes(world, world.settings.lag_recover_s - 1)
    assert await step(world) == 2
    await time_passes(world, 1)
    assert [await step(world), await step(world)] == [4, 4]
    await time_passes(world, world.settings.lag_recover_s)
    assert await step(world) is None


async def test_several_relays_take_one_step(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await time_passes(world)
    await world.post(1, OTHER)
    await late(world)
    await asyncio.gather(*(under_lag(world).step() for _ in range(4)))
    changes = [each for each in caplog.records if each.message == "delivery pressure changed"]
    assert len(changes) == 1
    assert await step(world) == 3


async def test_what_fails_again_and_again_is_no_load(world: World) -> None:
    await time_passes(world)
    await world.post(1, OTHER)
    await late(world)
    await world.rows("UPDATE deliveries SET failures = 1 RETURNING 1")
    assert await step(world) is None
    async with world.postgres.connection() as connection:
        assert await pressure.lag_s(connection, failing=True) > 50


async def test_slow_deliveries_are_late_unless_their_author_is_pulled(world: World) -> None:
    world.reconfigure(fanout_page=2)
    await world.post(1)
    await world.fanout.deliver(await world.owed())
    assert await lanes(world) == ["slow", "slow"]
    await late(world)
    async with world.postgres.connection() as connection:
        assert await pressure.lag_s(connection, failing=False) > 50
        assert await pressure.pull_meanwhile(connection, [AUTHOR]) == [AUTHOR]
        assert await pressure.lag_s(connection, failing=False) == 0


# ---------------------------------------------------------------------- who is pulled


async def test_a_large_authors_post_is_seen_at_once_and_pushed_later(
    world: World, redis: RedisClient
) -> None:
    """In the slow lane, while a small author's goes straight on; nothing is lost at the end."""
    service = Service(world.settings, world.postgres, redis)
    await press(world, 3)
    await world.posts([1, 2])
    await world.post(3, OTHER)
    await world.fanout.deliver(await world.owed())
    assert await lanes(world) == ["slow", "slow"]
    assert await state(world) == PULLED
    assert await world.feed(1) == [3]
    assert await service.scroll(1, "chronological", 10) == [3, 2, 1]
    await world.fanout.deliver((await world.owed())[:1])
    await under_lag(world).step()
    assert await state(world) == PULLED
    assert await service.scroll(2, "chronological", 10) == [2, 1]
    await world.drain()
    await under_lag(world).step()
    assert await state(world) == RELEASED
    assert [await world.feed(viewer) for viewer in FOLLOWERS] == [[3, 2, 1], [2, 1], [2, 1]]
    assert await service.scroll(1, "chronological", 10) == [3, 2, 1]
    await service.effects.drain()


async def test_when_the_threshold_falls_those_who_wait_are_pulled_too(world: World) -> None:
    world.reconfigure(fanout_page=2)
    await world.post(1)
    await world.post(2, OTHER)
    await world.fanout.deliver(await world.owed())
    assert await state(world) is None
    await time_passes(world)
    await late(world)
    assert await step(world) == 3
    assert await state(world) == PULLED


async def test_what_is_parked_keeps_its_author_pulled(world: World) -> None:
    await press(world, 3)
    await world.post(1)
    await world.fanout.deliver(await world.owed())
    await world.rows("UPDATE deliveries SET state = 'parked' RETURNING 1")
    await under_lag(world).step()
    assert await state(world) == PULLED


async def test_a_crash_between_marking_and_settling_changes_nothing(world: World) -> None:
    """The author is pulled if and only if the slow work is there; then all goes on."""
    await press(world, 3)
    await world.post(1)
    owed = await world.owed()
    async with world.postgres.connection() as connection:
        await connection.execute(
            "ALTER TABLE deliveries ADD CONSTRAINT crash CHECK (lane = 'fast') NOT VALID"
        )
    with pytest.raises(Exception, match="crash"):
        await world.fanout.deliver(owed)
    assert (await world.owed(), await state(world)) == (owed, None)
    async with world.postgres.connection() as connection:
        await connection.execute("ALTER TABLE deliveries DROP CONSTRAINT crash")
    await world.fanout.deliver(owed)
    assert (await lanes(world), await state(world)) == (["slow"], PULLED)
    await world.drain()
    await under_lag(world).step()
    assert (await state(world), await world.feed(1)) == (RELEASED, [1])


async def test_a_release_waits_for_slow_work_that_is_being_written(world: World) -> None:
    """And leaves its author pulled: no reader may miss a post that a moment ago was seen."""
    async with world.postgres.connection() as connection:
        await pressure.pull_meanwhile(connection, [AUTHOR])
    await world.post(1)
    [(event,)] = await world.rows("SELECT event_id FROM deliveries")
    async with world.postgres.transaction() as connection:
        assert await pressure.pull_meanwhile(connection, [AUTHOR]) == []
        await deliveries.split(connection, [deliveries.Chunk(AUTHOR, event, 1, 0, 2**62)])
        releasing = asyncio.create_task(under_lag(world).step())
        await asyncio.sleep(0.2)
        assert not releasing.done()
    await releasing
    assert await state(world) == PULLED


async def test_a_post_that_was_to_be_pulled_is_pushed_while_lag_is_why(world: World) -> None:
    """Whoever is released is not backfilled: each post must be in the feeds by then."""
    async with world.postgres.connection() as connection:
        await pressure.pull_meanwhile(connection, [AUTHOR])
    await world.post(1)
    await world.rows("UPDATE posts SET delivery = 'pull' RETURNING 1")
    await world.drain()
    assert await world.feed(1) == [1]


async def test_the_count_overrules_lag_and_otherwise_leaves_it_alone(world: World) -> None:
    async with world.postgres.connection() as connection:
        await pressure.pull_meanwhile(connection, [AUTHOR])
    await world.cross(5)
    await world.drain()
    assert await state(world) == PULLED
    await world.cross(6)
    await world.drain()
    assert await state(world) == (AUTHOR, True, True, "size")
    await under_lag(world).step()
    assert await state(world) == (AUTHOR, True, True, "size")
