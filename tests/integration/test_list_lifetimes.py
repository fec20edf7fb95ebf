"""How long a cached list lives: never longer than fan-out counts its reader as active."""

from dataclasses import replace
from typing import Any

import pytest

from feed.settings import Settings
from storage import keys
from storage.connections import Postgres, RedisClient
from tests.integration.api_client import Client, running
from tests.integration.test_api_posts import rows

pytestmark = pytest.mark.anyio

READER, FRIEND = 1, 2
AWAY = "UPDATE user_activity SET last_seen_at = now() - interval '{} days' RETURNING user_id"


async def read(api: Client, path: str) -> dict[str, Any]:
    """Read a page, and what it leaves to do."""
    answer = await api.call("GET", path, READER)
    assert answer.status_code == 200, answer.text
    await api.app.state.services.effects.drain()
    document: dict[str, Any] = answer.json()
    return document


@pytest.mark.parametrize("mode", ["ranked", "chronological"])
async def test_a_page_makes_no_list_that_outlives_the_last_visit(
    api: Client, postgres: Postgres, redis: RedisClient, mode: str
) -> None:
    """An old cursor is no visit: fan-out stops, and a list made now would look complete."""
    await api.people(READER, FRIEND)
    await api.call("PUT", f"/follows/{FRIEND}", READER)
    for n in range(3):
        await api.post(FRIEND, f"post {n}")
    first = await read(api, f"/feed?mode={mode}&limit=1")
    for days, lives in ((13, True), (20, False)):
        assert await rows(postgres, AWAY.format(days)) == [(READER,)]
        await redis.delete(keys.feed(READER), *await redis.keys("snap:*"))
        page = await read(api, f"/feed?mode={mode}&limit=1&cursor={first['next_cursor']}")
        assert len(page["items"]) == 1
        left_s = await redis.ttl(keys.feed(READER))
        assert (0 < left_s <= 86_400 + 3_600) if lives else left_s == -2


async def test_a_deleted_account_gets_no_list(api: Client, redis: RedisClient) -> None:
    """Nothing would be pushed into it, and an account that begins again would rely on it."""
    await api.people(READER, FRIEND)
    await api.call("PUT", f"/follows/{FRIEND}", READER)
    await api.post(FRIEND, "a post")
    await api.call("DELETE", f"/users/{READER}", READER)
    await read(api, "/feed?mode=chronological")
    assert await redis.exists(keys.feed(READER)) == 0


async def test_an_outbox_lives_as_long_as_its_own_setting_says(
    settings: Settings, postgres: Postgres, redis: RedisClient
) -> None:
    """From the read that makes it, and anew from each opening."""
    async with running(replace(settings, outbox_ttl_s=1_000)) as api:
        await api.people(READER, FRIEND)
        await api.call("PUT", f"/follows/{FRIEND}", READER)
        pull = "INSERT INTO author_delivery VALUES (2, true, true) RETURNING author_id"
        assert await rows(postgres, pull) == [(FRIEND,)]
        for _ in range(2):
            await read(api, "/feed?mode=chronological")
            assert 900 < await redis.ttl(keys.outbox(FRIEND)) <= 1_000
            assert await redis.ttl(keys.feed(READER)) > 1_000
            await redis.expire(keys.outbox(FRIEND), 60)
