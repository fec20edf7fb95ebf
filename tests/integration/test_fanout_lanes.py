"""Two lanes: what is large never stands in the way of what is small."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from arq.connections import ArqRedis

from fanout.queue import Queue, open_queue
from fanout.relay import Relay
from fanout.worker import arq_worker
from feed.settings import Settings
from storage import deliveries
from storage.connections import Postgres, RedisClient
from storage.deliveries import LANES, Lane
from tests.integration.fanout_world import AUTHOR, OTHER, World

pytestmark = pytest.mark.anyio

FOLLOWERS = [1, 2, 3, 4, 5]


@pytest.fixture
async def world(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    """A world in which AUTHOR has more followers than one page holds, and OTHER has one."""
    world = World(postgres, redis, replace(settings, switch_grace_s=1e-6))
    await world.people(AUTHOR, OTHER, *FOLLOWERS)
    await world.follow(*FOLLOWERS)
    await world.follow(1, author_id=OTHER)
    await world.drain()
    await world.open(*FOLLOWERS)
    return world


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[ArqRedis]:
    client = open_queue(redis_url)
    yield client
    await client.aclose()


async def run_lane(world: World, client: ArqRedis, lane: Lane) -> None:
    """Relay and perform what one lane owes now, and nothing of the other."""
    await Relay(world.postgres, Queue(client, lane), world.settings).step()
    await arq_worker(lane, world.fanout, client, world.settings, burst=True).run_check()


async def owed(world: World) -> list[Any]:
    query = "SELECT lane, chunk, author_id FROM deliveries ORDER BY id"
    return await world.rows(query)


async def test_a_small_post_arrives_while_every_chunk_of_a_large_one_waits(
    world: World, client: ArqRedis
) -> None:
    await world.post(7)
    await run_lane(world, client, "fast")
    chunks = [("slow", n, AUTHOR) for n in (1, 2, 3)]
    assert await owed(world) == chunks
    await world.post(8, OTHER)
    await run_lane(world, client, "fast")
    assert await owed(world) == chunks
    assert [await world.feed(viewer) for viewer in FOLLOWERS] == [[8], [], [], [], []]
    await run_lane(world, client, "slow")
    assert await owed(world) == []
    assert [await world.feed(viewer) for viewer in FOLLOWERS] == [[8, 7], [7], [7], [7], [7]]


async def test_a_full_slow_queue_stops_the_slow_lane_only(world: World, client: ArqRedis) -> None:
    settings = replace(world.settings, queue_bound_slow=1, relay_batch_slow=2)
    await world.post(7)
    await run_lane(world, client, "fast")
    slow = Relay(world.postgres, Queue(client, "slow"), settings)
    assert await slow.step() == 0
    await slow.step()
    await world.post(8, OTHER)
    await Relay(world.postgres, Queue(client, "fast"), settings).step()
    leases = await world.rows("SELECT lane, leases FROM deliveries ORDER BY id")
    assert leases == [("slow", 1), ("slow", 1), ("slow", 0), ("fast", 1)]
    assert [await Queue(client, lane).n_jobs() for lane in LANES] == [1, 1]


async def test_a_backfill_is_slow_work_of_its_author(world: World) -> None:
    await world.rows("INSERT INTO author_delivery VALUES (%s, true, true) RETURNING 1", [AUTHOR])
    await world.cross(3)
    await world.fanout.deliver(await world.owed())
    assert await owed(world) == [("slow", 0, AUTHOR)]


async def test_a_lease_reads_its_own_lane_in_order_from_an_index(world: World) -> None:
    """However much the other lane owes: no row of it is looked at, nothing is sorted."""
    await world.rows(
        "INSERT INTO deliveries (event_id, lane, author_id)"
        " SELECT gen_random_uuid(), 'slow', 1 FROM generate_series(1, 5000) RETURNING 1"
    )
    await world.post(8, OTHER)
    async with world.postgres.connection() as connection:
        await connection.execute("ANALYZE deliveries")
    for lane, n in (("fast", 1), ("slow", 10)):
        values = {"lane": lane, "limit": 10, "lease_s": 10, "max_s": 60}
        rows = await world.rows(f"EXPLAIN (ANALYZE, FORMAT JSON) {deliveries._LEASE}", values)
        nodes = list(plan_nodes(rows[0][0][0]["Plan"]))
        assert "Sort" not in [node["Node Type"] for node in nodes]
        [due] = [node for node in nodes if node.get("Index Name") == "deliveries_due"]
        assert (due["Actual Rows"], due.get("Rows Removed by Filter", 0)) == (n, 0)


def plan_nodes(plan: dict[str, Any]) -> Any:
    yield plan
    for below in plan.get("Plans", []):
        yield from plan_nodes(below)
