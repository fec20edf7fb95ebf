"""What operators see of delivery: by lane, under lag, with and without the queue."""

from dataclasses import replace
from typing import Any

from feed.settings import Settings
from storage import keys, pressure
from storage.connections import Postgres, RedisClient
from tests.integration.api_client import Client, running

LATE = """
INSERT INTO deliveries (event_id, lane, author_id, state, created_at)
VALUES (gen_random_uuid(), 'fast', null, 'pending', now() - interval '20 s'),
       (gen_random_uuid(), 'fast', null, 'parked', now() - interval '9 h'),
       (gen_random_uuid(), 'slow', 7, 'pending', now() - interval '1 h'),
       (gen_random_uuid(), 'slow', 7, 'pending', now())
"""


async def lagging(postgres: Postgres) -> None:
    """Owe something in each lane; the author of what is slow is pulled."""
    async with postgres.transaction() as connection:
        await connection.execute(LATE)
        await pressure.press(connection, 5_000)
        await pressure.pull_meanwhile(connection, [7])


async def test_an_admin_sees_depth_age_jobs_and_who_is_pulled(
    api: Client, postgres: Postgres, redis: RedisClient
) -> None:
    await lagging(postgres)
    await redis.zadd(keys.queue("slow"), {"a job": 1})
    answer = await api.call("GET", "/admin/queue", 1, scope="admin")
    found: dict[str, Any] = answer.json()
    ages = [found["lanes"][lane].pop("age_s") for lane in ("fast", "slow")]
    assert [round(age / 10) for age in ages] == [2, 360]
    assert found["lanes"] == {
        "fast": {"pending": 1, "parked": 1, "jobs": 0},
        "slow": {"pending": 2, "parked": 0, "jobs": 1},
    }
    assert 20 <= found["lag_s"] < 30  # the oldest of all is seen from its author's outbox
    assert (found["threshold"], found["threshold_since"][-1]) == (5_000, "Z")
    assert found["pulled"] == {"size": 0, "lag": 1, "cost": 0}
    assert found["pulled_because_of_lag"] == ["7"]


async def test_nobody_else_sees_it(api: Client) -> None:
    assert (await api.call("GET", "/admin/queue", 1)).status_code == 403
    assert (await api.call("GET", "/admin/queue", 1, scope="ingest")).status_code == 403


async def test_a_queue_that_is_away_has_an_unknown_number_of_jobs(settings: Settings) -> None:
    async with running(replace(settings, queue_url="redis://127.0.0.1:1/0")) as api:
        found = (await api.call("GET", "/admin/queue", 1, scope="admin")).json()
    assert [found["lanes"][lane]["jobs"] for lane in ("fast", "slow")] == [None, None]
    assert (found["threshold"], found["lag_s"]) == (None, 0)


async def test_gauges_say_the_same(api: Client, postgres: Postgres) -> None:
    await lagging(postgres)
    text = (await api.http.get("/metrics")).text
    for line in (
        'foryou_deliveries_pending{lane="slow"} 2.0',
        'foryou_deliveries_parked{lane="fast"} 1.0',
        "foryou_pull_threshold_followers 5000.0",
        'foryou_authors_pulled{because="lag"} 1.0',
        'foryou_authors_pulled{because="size"} 0.0',
    ):
        assert line in text.splitlines()
    values = dict(line.split() for line in text.splitlines() if line.startswith("foryou_"))
    assert 3_600 <= float(values['foryou_delivery_age_seconds{lane="slow"}']) < 3_700
    assert 20 <= float(values["foryou_lag_seconds"]) < 30
