"""Only an opening is a visit; polling, paging and what was on a screen are something else."""

from typing import Any

import pytest

from storage import keys
from storage.connections import Postgres, RedisClient
from tests.integration.api_client import Client
from tests.integration.test_api_posts import rows

pytestmark = pytest.mark.anyio

READER, AUTHOR = 1, 2
LONG_AGO = "UPDATE user_activity SET last_seen_at = now() - interval '2 days' RETURNING user_id"


@pytest.mark.parametrize("mode", ["ranked", "chronological"])
async def test_polling_and_paging_are_no_visit(
    api: Client, postgres: Postgres, redis: RedisClient, mode: str
) -> None:
    """They neither count a reader as active nor keep a feed alive; the next opening does both."""

    async def read(path: str) -> dict[str, Any]:
        answer = await api.call("GET", path, READER)
        assert answer.status_code == 200, answer.text
        await api.app.state.services.effects.drain()
        document: dict[str, Any] = answer.json()
        return document

    async def visited() -> tuple[bool, bool]:
        here = "SELECT last_seen_at > now() - interval '1 day' FROM user_activity"
        ((active,),) = await rows(postgres, here)
        return active, await redis.ttl(keys.feed(READER)) > 60

    await api.people(READER, AUTHOR)
    await api.call("PUT", f"/follows/{AUTHOR}", READER)
    for n in range(4):
        await api.post(AUTHOR, f"post {n}")
    first = await read(f"/feed?mode={mode}&limit=1")
    assert await visited() == (True, True)
    assert await rows(postgres, LONG_AGO) == [(READER,)]
    await redis.expire(keys.feed(READER), 60)
    page = first
    while page["next_cursor"]:
        page = await read(f"/feed?mode={mode}&limit=1&cursor={page['next_cursor']}")
    for key in await redis.keys("snap:*"):
        await redis.delete(key)
    await read(f"/feed?mode={mode}&limit=1&cursor={first['next_cursor']}")  # renews a slate
    await read(f"/feed/updates?cursor={first['updates_cursor']}")
    event = {"event_id": "0" * 31 + "1", "type": "impression", "post_id": first["items"][0]["id"]}
    event["at"] = "2030-01-01T00:00:00Z"
    await api.call("POST", "/events", READER, {"events": [event]})
    assert await visited() == (False, False)
    await read(f"/feed?mode={mode}&limit=1")
    assert await visited() == (True, True)


async def test_served_seen_and_liked_are_three_things(api: Client, postgres: Postgres) -> None:
    """Each is recorded where it happens, and none stands for another."""
    await api.people(READER, AUTHOR)
    await api.call("PUT", f"/follows/{AUTHOR}", READER)
    posts = [int(await api.post(AUTHOR, f"post {n}")) for n in range(3)]
    page = (await api.call("GET", "/feed?mode=ranked", READER)).json()
    served = "SELECT count(*) FROM served, unnest(ids) AS id"
    logged = "SELECT type, post_id FROM engagements ORDER BY post_id"
    assert (await rows(postgres, served), await rows(postgres, logged)) == ([(3,)], [])
    now = {"at": "2030-01-01T00:00:00Z"}  # clamped
    events = [
        {"event_id": "0" * 31 + "1", "type": "impression", "post_id": str(posts[0]), **now},
        {"event_id": "0" * 31 + "2", "type": "like", "post_id": str(posts[1]), **now},
    ]
    await api.call("POST", "/events", READER, {"events": events})
    page = (await api.call("GET", "/feed?mode=chronological", READER)).json()
    viewer = {int(item["id"]): item["viewer"] for item in page["items"]}
    assert viewer == {
        posts[0]: {"liked": False, "seen": True},
        posts[1]: {"liked": True, "seen": False},
        posts[2]: {"liked": False, "seen": False},
    }
    assert await rows(postgres, logged) == [("impression", posts[0]), ("like", posts[1])]
    assert await rows(postgres, served) == [(3,)], "an impression is not served once more"
