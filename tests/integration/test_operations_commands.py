"""`foryou check`, `rebuild` and `outbox` on real stores: what they say, do, and end with."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from feed.settings import Settings
from storage import keys, outbox_events
from storage.connections import Postgres, RedisClient
from storage.delivery_state import stop_delivering
from tests.integration.fanout_world import AUTHOR, OTHER, World

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def world(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    """Two viewers whose feeds hold the posts 3 and 4, and a third without a feed."""
    world = World(postgres, redis, settings)
    await world.people(AUTHOR, 1, 2, 5)
    await world.follow(1, 2, 5)
    await world.drain()
    await world.open(1, 2)
    await world.posts([3, 4])
    await world.drain()
    return world


def environ(world: World) -> dict[str, str]:
    settings = world.settings
    return {
        "FORYOU_POSTGRES_URL": settings.postgres_url,
        "FORYOU_REDIS_URL": settings.redis_url,
        "FORYOU_FEED_CAP": str(settings.feed_cap),
        "FORYOU_OUTBOX_CAP": str(settings.outbox_cap),
    }


def foryou(world: World, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments],
        cwd=ROOT,
        env={**os.environ, **environ(world), **more},
        capture_output=True,
        text=True,
        check=False,
    )


def answer(world: World, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = foryou(world, *arguments, "--json")
    assert done.returncode == code, done
    document: dict[str, Any] = json.loads(done.stdout)
    return document


async def damage(world: World, redis: RedisClient) -> None:
    await redis.zrem(keys.feed(1), 3)
    await redis.zadd(keys.feed(2), {"4": 7, "77": 9})


async def test_check_ends_well_when_all_is_in_order(world: World) -> None:
    done = foryou(world, "check")
    assert done.returncode == 0
    first, *kinds = done.stdout.splitlines()
    assert first.startswith("checked 4 viewers, 2 of them with a cached feed, 4 entries, in ")
    assert [line.split() for line in kinds] == [
        ["missing", "0"],
        ["late", "0"],
        ["extra", "0"],
        ["out", "of", "order", "0"],
    ]


async def test_check_counts_names_and_fails_until_it_has_repaired(
    world: World, redis: RedisClient
) -> None:
    await damage(world, redis)
    found = answer(world, "check", code=1)
    kinds = {kind: found[kind] for kind in ("missing", "late", "extra", "out_of_order")}
    assert kinds == {"missing": 1, "late": 0, "extra": 1, "out_of_order": 1}
    assert found["remaining"] == kinds and found["repaired"] == 0
    assert found["examples"][0] == {
        "kind": "missing",
        "viewer_id": "1",
        "post_id": "3",
        "list": "feed",
        "owner_id": "1",
    }
    assert [each["kind"] for each in found["examples"]] == ["missing", "out_of_order", "extra"]
    told = foryou(world, "check", "--user", "1")
    assert told.returncode == 1 and "post 3, viewer 1, feed" in told.stdout
    assert "--repair" in told.stdout
    repaired = answer(world, "check", "--repair")
    assert repaired["repaired"] == 2 and not any(repaired["remaining"].values())
    assert [await world.feed(viewer) for viewer in (1, 2)] == [[4, 3], [4, 3]]
    assert answer(world, "check")["missing"] == 0


async def test_check_of_one_viewer_says_nothing_of_others(world: World, redis: RedisClient) -> None:
    await damage(world, redis)
    assert answer(world, "check", "--user", "5")["viewers"] == 1
    assert answer(world, "check", "--user", "4242")["feeds"] == 0


async def test_what_is_late_is_no_failure_and_is_not_repaired(world: World) -> None:
    await world.posts([5])
    found = answer(world, "check", "--repair")
    assert (found["late"], found["missing"], found["repaired"]) == (2, 0, 0)


async def test_a_parked_delivery_is_found_retried_and_arrives(world: World) -> None:
    """Poison: it stops nobody, its error is told, and `outbox retry` brings it back."""
    async with world.postgres.transaction() as connection:
        event = {"viewer_id": "one", "author_id": AUTHOR}
        await outbox_events.append(connection, "relation", "x", "relation.changed", event)
    (poison,) = await world.owed()
    await world.posts([5])
    for _ in range(world.settings.failures_until_parked):
        await world.fanout.deliver(await world.owed())
    assert await world.feed(1) == [5, 4, 3], "the posts in the same batches have arrived"
    assert await world.owed() == [poison]

    assert "relation.changed" in foryou(world, "outbox", "list").stdout
    (told,) = answer(world, "outbox", "list", "--parked")["deliveries"]
    assert told["id"] == str(poison) and told["failures"] == world.settings.failures_until_parked
    assert told["error"] == "ValueError: relation.changed without viewer_id"

    await world.rows(
        'UPDATE outbox_events SET payload = \'{"viewer_id": 5, "author_id": 100}\''
        " WHERE type = 'relation.changed' AND aggregateid = 'x' RETURNING 1"
    )
    await world.rows("UPDATE deliveries SET created_at = now() - interval '1 day' RETURNING 1")
    await world.fanout.deliver([poison])
    assert await world.owed() == [poison], "parked is parked"
    assert answer(world, "outbox", "retry", str(poison)) == {
        "retried": [str(poison)],
        "not_found": [],
    }
    lag = "SELECT failures, leases, now() - created_at < interval '1 minute' FROM deliveries"
    assert await world.rows(lag) == [(0, 0, True)]
    await world.fanout.deliver([poison])
    assert await world.owed() == []
    assert "nothing is parked" in foryou(world, "outbox", "list", "--parked").stdout


async def parked(world: World, n: int) -> list[int]:
    async with world.postgres.transaction() as connection:
        for _ in range(n):
            await outbox_events.append(connection, "post", 1, "unheard.of", {"post_id": 1})
    ids = await world.owed()
    await world.rows("UPDATE deliveries SET state = 'parked', error = 'why' RETURNING 1")
    return ids


async def test_outbox_lists_in_pages(world: World) -> None:
    ids = await parked(world, 3)
    first = answer(world, "outbox", "list", "--limit", "2")
    assert first["more"] and [each["id"] for each in first["deliveries"]] == [
        str(id) for id in ids[:2]
    ]
    told = foryou(world, "outbox", "list", "--parked", "--limit", "2").stderr
    assert told == f"more: foryou outbox list --parked --after {ids[1]}\n"
    rest = answer(world, "outbox", "list", "--after", str(ids[1]))
    assert not rest["more"] and [each["id"] for each in rest["deliveries"]] == [str(ids[2])]


async def test_outbox_retries_all_or_says_what_is_not_parked(world: World) -> None:
    ids = await parked(world, 2)
    assert len(answer(world, "outbox", "retry", "--all")["retried"]) == 2
    done = foryou(world, "outbox", "retry", str(ids[0]))
    assert (done.returncode, done.stderr) == (1, f"{ids[0]}: not parked\n")
    for wrong in ((), ("--all", "7")):
        assert foryou(world, "outbox", "retry", *wrong).returncode == 2


async def test_a_dropped_delivery_leaves_an_audit_row(world: World) -> None:
    first, second = await parked(world, 2)
    assert foryou(world, "outbox", "drop", str(first)).returncode == 2, "without a reason"
    dropped = answer(world, "outbox", "drop", str(first), "4242", "--why", "a test", code=1)
    assert dropped == {"dropped": [str(first)], "not_found": ["4242"]}
    assert await world.owed() == [second]
    ((actor, action, detail),) = await world.rows("SELECT actor, action, detail FROM audit")
    assert actor.startswith("cli:") and action == "delivery.dropped"
    assert (detail["delivery_id"], detail["why"], detail["error"]) == (first, "a test", "why")
    assert detail["payload"] == {"post_id": 1}


async def test_rebuild_puts_one_viewers_lists_right(world: World, redis: RedisClient) -> None:
    await damage(world, redis)
    await world.rows("INSERT INTO author_delivery VALUES (%s, true, true) RETURNING 1", [AUTHOR])
    done = answer(world, "rebuild", "--user", "1")
    assert (done["feeds"], done["outboxes"], done["finished"]) == (1, 1, True)
    assert await world.feed(1) == await world.outbox() == [4, 3]
    assert await redis.zscore(keys.feed(2), "77") == 9, "the other feed is as it was"


async def test_rebuild_all_makes_a_feed_for_everybody_who_was_here(
    world: World, redis: RedisClient
) -> None:
    await damage(world, redis)
    await redis.zadd(keys.outbox(OTHER), {"floor": "-inf", "9": 9})
    await world.rows("INSERT INTO author_delivery VALUES (%s, true, true) RETURNING 1", [AUTHOR])
    await world.rows(
        "UPDATE user_activity SET last_seen_at = now() - interval '15 days'"
        " WHERE user_id = 2 RETURNING 1"
    )
    done = foryou(world, "rebuild", "--all")
    assert done.returncode == 0
    assert done.stdout.startswith("4 users: 3 feeds rebuilt") and "rebuilding" in done.stderr
    assert [await world.feed(viewer) for viewer in (1, 2, 5)] == [[4, 3], None, [4, 3]]
    assert await world.outbox() == [4, 3]
    assert await world.outbox(OTHER) is None


async def test_rebuild_says_that_there_are_no_lists_while_all_are_pulled(world: World) -> None:
    async with world.postgres.transaction() as connection:
        await stop_delivering(connection)
    done = foryou(world, "rebuild", "--all")
    assert (done.returncode, done.stdout.startswith("Nothing to rebuild")) == (0, True)


async def test_a_stopped_rebuild_goes_on_where_it_was_stopped(
    world: World, redis: RedisClient
) -> None:
    everybody = range(1_000, 1_800)
    await world.people(*everybody)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli.main", "rebuild", "--all", "--json"),
        cwd=ROOT,
        env={**os.environ, **environ(world)},
        stdout=PIPE,
        stderr=PIPE,
    )
    while not await redis.exists(keys.feed(1_100)):
        assert process.returncode is None
        await asyncio.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    out, said = await process.communicate()
    stopped = json.loads(out)
    assert (process.returncode, stopped["finished"]) == (130, False)
    after = int(stopped["after"])
    assert f"foryou rebuild --all --after {after}" in said.decode()
    assert await world.feed(after) == [] and await world.feed(1_799) is None
    rest = answer(world, "rebuild", "--all", "--after", str(after))
    assert rest["finished"] and rest["users"] + stopped["users"] == len(everybody) + 4
    assert await world.feed(1_799) == []


async def test_a_rebuild_without_redis_fails_and_says_how_to_go_on(world: World) -> None:
    gone = {"FORYOU_REDIS_URL": "redis://127.0.0.1:1/0"}
    done = foryou(world, "rebuild", "--all", **gone)
    assert done.returncode == 1 and "foryou rebuild --all --after 0" in done.stderr
    checked = foryou(world, "check", **gone)
    assert checked.returncode == 1 and checked.stdout == "" and "Traceback" not in checked.stderr
    for wrong in ((), ("--all", "--user", "1"), ("--user", "1", "--after", "3")):
        assert foryou(world, "rebuild", *wrong).returncode == 2
