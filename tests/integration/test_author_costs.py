"""Authors measured in the truth and in the log, reported by a command, switched by cost."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from cli.main import foryou
from fanout.costs import ByCost, author_costs
from feed.settings import Settings
from storage import pressure
from storage.connections import Postgres, RedisClient
from tests.integration.fanout_world import AUTHOR, OTHER, World

FOLLOWERS = [1, 2, 3]
PAGE = """
INSERT INTO served (day, at, viewer_id, session_id, snapshot_id, nonce, part, chain_start,
                    position, ids, shows)
VALUES (%(at)s::date, %(at)s, %(viewer)s, %(session)s, 's', 'n', %(part)s, 0, %(position)s,
        '{}', '{}') RETURNING 1
"""


@pytest.fixture
async def world(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    """Three follow AUTHOR, one of them inactive; one follows OTHER, too."""
    world = World(postgres, redis, replace(settings, switch_grace_s=1e-6))
    world.reconfigure(
        switch_policy="cost",
        cost_push_below_followers=2,
        cost_pull_from_followers=100,
        cost_insert_us=100,
        cost_lookup_us=100,
        cost_opens_per_day=2,
        cost_dwell_s=1e-6,
    )
    await world.people(AUTHOR, OTHER, *FOLLOWERS)
    await world.follow(*FOLLOWERS)
    await world.follow(1, author_id=OTHER)
    await world.rows(
        "UPDATE users SET follower_count = CASE id WHEN 100 THEN 3 ELSE 1 END"
        " WHERE id IN (100, 200) RETURNING 1"
    )
    await world.rows(
        "UPDATE user_activity SET last_seen_at = now() - interval '31 days' WHERE user_id = 3"
        " RETURNING 1"
    )
    await world.drain()
    return world


async def served(
    world: World,
    viewer_id: int,
    session: str,
    *,
    days_ago: float = 0,
    part: str = "slate",
    position: int = 0,
) -> None:
    at = datetime.now(UTC) - timedelta(days=days_ago)
    values = {"at": at, "viewer": viewer_id, "session": session, "part": part}
    await world.rows(PAGE, {**values, "position": position})


async def posts(world: World, *ids: int) -> None:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    await world.posts(ids, ms=now_ms)
    await world.drain()


async def measured(world: World) -> dict[int, Any]:
    async with world.postgres.connection() as connection:
        costs = await author_costs(connection, world.settings, least_followers=1)
    return {cost.author_id: cost for cost in costs}


async def step(world: World) -> None:
    """Let it be time to measure, and what that calls for take place."""
    await world.rows("UPDATE author_costs SET measured_at = '-infinity' RETURNING 1")
    await ByCost(world.postgres, world.settings).step()
    await world.drain()


async def state(world: World) -> Any:
    rows = await world.rows("SELECT readers_pull, writers_pull, because FROM author_delivery")
    return rows[0] if rows else None


async def test_posts_of_the_window_active_followers_and_first_pages_are_counted(
    world: World,
) -> None:
    await posts(world, 1, 2, 3, 4, 5, 6, 7)
    await world.post(8, ms=1)  # years old
    await served(world, 1, "a", days_ago=3)
    await served(world, 1, "a", days_ago=3)  # the same first page again
    await served(world, 1, "a", days_ago=3, position=20)
    await served(world, 1, "b", part="chronological")
    await served(world, 2, "c", days_ago=2)
    await served(world, 2, "d", part="tail", position=40)
    await served(world, 3, "e")  # inactive by now
    await served(world, 1, "f", days_ago=30)
    found = (await measured(world))[AUTHOR]
    assert (found.followers, found.active_followers, found.pulled) == (3, 2, False)
    assert found.posts_per_day == 1
    assert found.opens_per_day == pytest.approx(3 / 3, abs=0.01)  # the log covers three days
    assert (await measured(world))[OTHER].opens_per_day == pytest.approx(2 / 3, abs=0.01)


async def test_an_empty_log_says_nothing_of_opens(world: World) -> None:
    assert (await measured(world))[AUTHOR].opens_per_day is None


async def test_how_an_author_stands_is_told_half_way_and_lag_apart(world: World) -> None:
    async with world.postgres.connection() as connection:
        await pressure.pull_meanwhile(connection, [AUTHOR])
    assert (await measured(world))[AUTHOR].pulled is False
    await world.rows("UPDATE author_delivery SET because = 'cost' RETURNING 1")
    assert (await measured(world))[AUTHOR].pulled is None
    await world.rows("UPDATE author_delivery SET writers_pull = true RETURNING 1")
    assert (await measured(world))[AUTHOR].pulled is True


async def test_an_author_switches_by_cost_to_and_fro(world: World) -> None:
    """Pushed at first: 2 opens a day each cost more than a seventh of a post a day."""
    await posts(world, 1)
    await step(world)
    assert await state(world) is None
    await posts(world, *range(2, 31))
    await step(world)
    assert await state(world) == (True, True, "cost")
    await world.rows("DELETE FROM posts WHERE id > 1 RETURNING 1")
    await step(world)
    assert await state(world) == (False, False, "size")


async def test_an_author_dwells(world: World) -> None:
    await posts(world, *range(1, 31))
    await step(world)
    assert await state(world) == (True, True, "cost")
    world.reconfigure(cost_dwell_s=60)
    await world.rows("DELETE FROM posts WHERE id > 1 RETURNING 1")
    await step(world)
    assert await state(world) == (True, True, "cost")
    await world.rows("UPDATE author_delivery SET changed_at = now() - interval '61 s' RETURNING 1")
    await step(world)
    assert await state(world) == (False, False, "size")


async def test_beyond_the_bounds_the_count_decides(world: World) -> None:
    world.reconfigure(cost_push_below_followers=4)
    await posts(world, *range(1, 31))
    await step(world)
    assert await state(world) is None
    await world.cross(100)
    await world.drain()
    assert await state(world) == (True, True, "size")


async def test_by_followers_nothing_is_measured_and_by_cost_once_in_a_while(world: World) -> None:
    await posts(world, *range(1, 31))
    by_followers = replace(world.settings, switch_policy="followers")
    await ByCost(world.postgres, by_followers).step()
    assert await world.rows("SELECT FROM author_costs") == []
    await asyncio.gather(*(ByCost(world.postgres, world.settings).step() for _ in range(3)))
    owed = "SELECT FROM outbox_events WHERE type = 'author.crossed'"
    assert len(await world.rows(owed)) == 1


async def test_the_command_says_what_switching_would_save(world: World) -> None:
    await posts(world, *range(1, 31))
    environ = {
        f"FORYOU_{name.upper()}": str(getattr(world.settings, name))
        for name in (
            "postgres_url",
            "cost_push_below_followers",
            "cost_insert_us",
            "cost_lookup_us",
            "cost_opens_per_day",
        )
    }

    def told(*options: str) -> str:
        done = CliRunner().invoke(foryou, ["plan", "--authors", *options], env=environ)
        assert done.exit_code == 0, done.output
        return done.stdout

    found = json.loads(await asyncio.to_thread(told, "--json", "--limit", "1"))
    push_ms, pull_ms = 30 / 7 * 2 * 0.1, 2 * 2 * 0.1
    [shown] = found.pop("shown")
    assert (shown["author_id"], shown["best"], shown["pulled"]) == (str(AUTHOR), "pull", False)
    assert shown["push_ms"] == pytest.approx(push_ms)
    assert shown["pull_ms"] == pytest.approx(pull_ms)
    assert (found["n_to_pull"], found["n_to_push"], found["authors"]) == (1, 0, 2)
    assert found["saves_ms"] == pytest.approx(push_ms - pull_ms)
    assert found["opens_per_follower_assumed"] == 2
    table = await asyncio.to_thread(told)
    assert "no served page is logged: 2 opens a day are assumed" in table
    await served(world, 1, "a")
    assert "assumed" not in await asyncio.to_thread(told)
    assert await state(world) is None  # it only reports
