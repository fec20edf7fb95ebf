"""An admin sees what the stores hold for a user against the truth, and puts it right."""

from typing import Any

import pytest

from feed.settings import Settings
from storage import keys
from storage.connections import Postgres, RedisClient
from tests.integration.api_client import Client, running
from tests.integration.fanout_world import AUTHOR, World

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    world = World(postgres, redis, settings)
    await world.people(AUTHOR, 1)
    await world.follow(1)
    await world.drain()
    await world.open(1)
    await world.posts([3, 4])
    await world.drain()
    return world


async def asked(api: Client, method: str = "GET", path: str = "/admin/users/1/feed") -> Any:
    answer = await api.call(method, path, 9, scope="admin")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_feed_in_order(world: World) -> None:
    async with running(world.settings) as api:
        assert await asked(api) == {
            "user_id": "1",
            "lists": [
                {"kind": "feed", "owner_id": "1", "state": "ready", "size": 2, "floor": None}
            ],
            "counts": {"missing": 0, "late": 0, "extra": 0, "out_of_order": 0},
            "missing": [],
            "late": [],
            "extra": [],
            "out_of_order": [],
        }


async def test_what_is_wrong_is_named_repaired_and_audited(
    world: World, redis: RedisClient
) -> None:
    await redis.zrem(keys.feed(1), 3)
    await redis.zadd(keys.feed(1), {"77": 9})
    async with running(world.settings) as api:
        before = await asked(api)
        assert (before["missing"], before["extra"]) == (["3"], ["77"])
        after = await asked(api, "POST", "/admin/users/1/feed/repair")
        assert after["repaired"] == [{"kind": "feed", "owner_id": "1"}]
        assert not any(after["counts"].values())
        assert (await asked(api, "POST", "/admin/users/1/feed/repair"))["repaired"] == []
    assert await world.feed(1) == [4, 3]
    assert await world.rows("SELECT actor, action, detail FROM audit") == [
        ("9", "feed.repaired", {"user_id": "1", "lists": [{"kind": "feed", "owner_id": "1"}]})
    ]


async def test_lists_of_every_state_are_shown(world: World, redis: RedisClient) -> None:
    await world.rows("INSERT INTO author_delivery VALUES (%s, true, true) RETURNING 1", [AUTHOR])
    await redis.zadd(keys.feed(1), {"floor": 2})
    async with running(world.settings) as api:
        feed, outbox = (await asked(api))["lists"]
        assert (feed["floor"], outbox["state"]) == ("1970-01-01T00:00:00.002Z", "missing")
        await world.feeds.begin(keys.outbox(AUTHOR), "t", ttl_s=30)
        assert (await asked(api))["lists"][1] == {
            "kind": "outbox",
            "owner_id": str(AUTHOR),
            "state": "building",
            "size": 0,
            "floor": None,
        }


async def test_only_an_admin_and_only_of_users(api: Client) -> None:
    await api.people(1)
    for method, path in (("GET", "/admin/users/1/feed"), ("POST", "/admin/users/1/feed/repair")):
        assert (await api.call(method, path, 1)).status_code == 403
        unknown = path.replace("1", "2")
        assert (await api.call(method, unknown, 1, scope="admin")).status_code == 404
