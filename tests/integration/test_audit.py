"""The background auditor: it finds what is wrong, says so once, and exports counts."""

import asyncio
import logging
from dataclasses import replace

import pytest

from fanout.audit import Auditor
from feed.settings import Settings
from storage import audits, keys
from storage.connections import Postgres, RedisClient
from tests.integration.api_client import running
from tests.integration.fanout_world import AUTHOR, World

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    world = World(postgres, redis, settings)
    await world.people(AUTHOR, 1, 2)
    await world.follow(1, 2)
    await world.drain()
    await world.open(1, 2)
    await world.posts([3, 4])
    await world.drain()
    return world


def auditor(world: World) -> Auditor:
    return Auditor(world.postgres, world.feeds, world.settings, seed=lambda: 1)


async def test_a_round_counts_what_is_wrong_and_names_an_example_in_the_log(
    world: World, redis: RedisClient, caplog: pytest.LogCaptureFixture
) -> None:
    await redis.zrem(keys.feed(2), 3)
    await redis.zadd(keys.feed(1), {"77": 9})
    with caplog.at_level(logging.WARNING, logger="fanout.audit"):
        assert await auditor(world).step() == world.settings.audit_every_s
    (record,) = caplog.records
    assert (vars(record)["viewer_id"], vars(record)["post_id"]) == ("2", "3")
    async with world.postgres.connection() as connection:
        audit = await audits.newest(connection)
    assert audit is not None and audit.n_viewers == 3
    assert audit.faults == {"missing": 1, "late": 0, "extra": 1, "out_of_order": 0}


async def test_one_round_at_a_time_however_many_relays_run(world: World) -> None:
    await asyncio.gather(*(auditor(world).step() for _ in range(4)))
    assert await world.rows("SELECT count(*) FROM feed_audits") == [(1,)]
    await world.rows("UPDATE feed_audits SET at = at - interval '2 minutes' RETURNING 1")
    await auditor(world).step()
    assert await world.rows("SELECT count(*) FROM feed_audits") == [(2,)]


async def test_an_unfinished_round_is_not_shown(world: World) -> None:
    async with world.postgres.transaction() as connection:
        assert await audits.begin(connection, 60) is not None
        assert await audits.begin(connection, 60) is None
        assert await audits.newest(connection) is None


async def test_the_divergence_is_a_metric(world: World, redis: RedisClient) -> None:
    async with running(world.settings) as api:
        assert "foryou_feed_divergence" not in (await api.http.get("/metrics")).text
        await redis.zrem(keys.feed(2), 3)
        await auditor(world).step()
        text = (await api.http.get("/metrics")).text
    assert 'foryou_feed_divergence{kind="missing"} 1.0' in text
    assert 'foryou_feed_divergence{kind="late"} 0.0' in text
    assert "foryou_feed_audit_viewers 3.0" in text and "foryou_feed_audit_age_seconds" in text


async def test_late_delivery_is_degraded_and_stays_ready(world: World) -> None:
    """Readiness keeps 200: taking the api out would deliver nothing sooner."""
    async with running(replace(world.settings, lag_bound_s=3_000)) as api:
        await world.posts([5])
        assert (await api.http.get("/readyz")).json() == {"status": "ok", "degraded": []}
        await world.rows("UPDATE deliveries SET created_at = now() - interval '1 hour' RETURNING 1")
        for _ in range(100):
            ready = await api.http.get("/readyz")
            if ready.json()["degraded"]:
                break
            await asyncio.sleep(0.1)
        assert (ready.status_code, ready.json()) == (
            200,
            {"status": "degraded", "degraded": ["lag"]},
        )
