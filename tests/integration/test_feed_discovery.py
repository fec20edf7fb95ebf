"""Out-of-network posts in the feed: labelled, bounded, and never of those one left or shut out."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from feed.settings import Settings
from storage.connections import Postgres
from storage.engagements import fold
from tests.integration.api_client import Client, running

pytestmark = pytest.mark.anyio

VIEWER, FRIEND, LIKED_BY_FRIENDS, POPULAR = 1, 2, 40, 50
FRIENDS = (2, 3, 4)
CROWD = range(60, 70)


@pytest.fixture
def delivery() -> str:
    """Read everything from Postgres: no worker runs here."""
    return "pull"


@pytest.fixture
async def world(api: Client, postgres: Postgres) -> Client:
    """Three friends, and two strangers: one liked by two friends, the other by a crowd."""
    await api.people(VIEWER, *FRIENDS, LIKED_BY_FRIENDS, POPULAR, *CROWD)
    for friend in FRIENDS:
        await api.call("PUT", f"/follows/{friend}", VIEWER)
    await api.post(FRIEND, "of a friend")
    await like(api, await api.post(LIKED_BY_FRIENDS, "liked by friends"), FRIENDS[:2])
    await like(api, await api.post(POPULAR, "popular"), CROWD)
    await counted(postgres)
    return api


async def like(api: Client, post: str, users: Any) -> None:
    now = datetime.now(UTC).isoformat()
    lines = [
        {"kind": "event", "viewer_id": user, "event_id": event(user, post), "type": "like",
         "post_id": post, "at": now}
        for user in users
    ]  # fmt: skip
    assert (await api.ingest(*lines))["rejected"] == []


def event(user: int, post: str) -> str:
    return f"00000000-0000-4000-8000-{(int(post) * 1000 + user) % 10**12:012d}"


async def counted(postgres: Postgres) -> None:
    async with postgres.transaction() as connection:
        await fold(connection, 86_400)


async def feed(api: Client, mode: str = "ranked", user: int = VIEWER) -> dict[str, dict[str, Any]]:
    answer = await api.call("GET", f"/feed?mode={mode}", user)
    assert answer.status_code == 200, answer.text
    return {item["body"]: item for item in answer.json()["items"]}


async def test_one_setting_turns_them_off(world: Client, settings: Settings) -> None:
    async with running(replace(settings, profile="in_network", delivery="pull")) as api:
        assert set(await feed(api)) == {"of a friend"}


async def test_an_author_may_opt_out(world: Client) -> None:
    """And back in."""
    for discoverable, others in ((False, set()), (True, {"liked by friends"})):
        choice = {"discoverable": discoverable}
        answer = await world.call("PUT", "/preferences/discovery", LIKED_BY_FRIENDS, choice)
        assert answer.json() == choice
        assert (
            await world.call("GET", "/preferences/discovery", LIKED_BY_FRIENDS)
        ).json() == choice
        assert set(await feed(world)) == {"of a friend", "popular", *others}


async def test_never_ones_own(world: Client) -> None:
    assert set(await feed(world, user=POPULAR)) == {"popular"}
    assert (await feed(world, user=POPULAR))["popular"]["source"] == "own_posts"


async def test_whom_one_unfollowed_is_no_discovery(world: Client) -> None:
    """Nor when the change comes while the snapshot is open; following again brings them back."""
    await world.call("PUT", f"/follows/{POPULAR}", VIEWER)
    first = await world.call("GET", "/feed?mode=ranked&limit=1", VIEWER)
    await world.call("DELETE", f"/follows/{POPULAR}", VIEWER)
    cursor = first.json()["next_cursor"]
    rest = await world.call("GET", f"/feed?mode=ranked&cursor={cursor}", VIEWER)
    assert "popular" not in {item["body"] for item in rest.json()["items"]}
    assert "popular" not in await feed(world)
    await world.call("PUT", f"/follows/{POPULAR}", VIEWER)
    assert (await feed(world))["popular"]["in_network"]


@pytest.mark.parametrize("relation", ["blocks", "mutes"])
async def test_whom_one_shuts_out_goes_at_once(world: Client, relation: str) -> None:
    first = await world.call("GET", "/feed?mode=ranked&limit=1", VIEWER)
    await world.call("PUT", f"/{relation}/{POPULAR}", VIEWER)
    cursor = first.json()["next_cursor"]
    rest = await world.call("GET", f"/feed?mode=ranked&cursor={cursor}", VIEWER)
    seen = {item["body"] for item in (*first.json()["items"], *rest.json()["items"])}
    assert "popular" not in seen - {first.json()["items"][0]["body"]}
    assert "popular" not in await feed(world)


async def test_a_discovery_that_a_friend_reposts_is_in_network(world: Client) -> None:
    """One original, one row, and it is the friend's."""
    popular = (await feed(world))["popular"]
    await world.post(FRIEND, "", repost_of=popular["id"])
    rows = (await world.call("GET", "/feed?mode=ranked", VIEWER)).json()["items"]
    (row,) = (item for item in rows if popular["id"] in (item["id"], item["repost_of"]))
    assert row["in_network"]
    assert row["author"]["id"] == str(FRIEND)


async def test_who_follows_many_gets_a_share_at_most(world: Client) -> None:
    """Three of ten: beside one post of friends none of strangers, beside seven two or three."""
    for n in range(100, 110):
        await world.people(n)
        await world.call("PUT", f"/follows/{n}", VIEWER)
    assert set(await feed(world)) == {"of a friend"}
    for n in range(6):
        await world.post(FRIEND, f"more {n}")
    outside = [item for item in (await feed(world)).values() if not item["in_network"]]
    assert len(outside) == 2  # there are no more of them
