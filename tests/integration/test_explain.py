"""Why this post, and why not that one; nobody learns from it who has blocked them."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from redis.asyncio import Redis

from feed.settings import Settings
from snapshots.traces import TraceStore
from storage import keys
from storage.connections import Postgres
from tests.integration.api_client import Client

pytestmark = pytest.mark.anyio

VIEWER, ADA, BOB, STRANGER, ADMIN = 1, 2, 3, 4, 9
NOBODYS = 4_242_424_242


@pytest.fixture
def delivery() -> str:
    """Read everything from Postgres: no worker runs here."""
    return "pull"


@pytest.fixture
async def world(api: Client) -> Client:
    """A viewer who follows two; each has written."""
    await api.people(VIEWER, ADA, BOB, STRANGER)
    for author in (ADA, BOB):
        await api.call("PUT", f"/follows/{author}", VIEWER)
    return api


async def opened(api: Client, path: str = "/feed?mode=ranked") -> dict[str, Any]:
    """Open a feed, and let its trace be written."""
    answer = await api.call("GET", path, VIEWER)
    assert answer.status_code == 200, answer.text
    await api.app.state.services.effects.drain()
    page: dict[str, Any] = answer.json()
    return page


async def explained(
    api: Client, page: dict[str, Any], post: str | int, *, full: bool = False
) -> dict[str, Any]:
    path = f"/feed/explain/{post}?snapshot={page['snapshot']['id']}"
    if full:
        answer = await api.call("GET", f"{path}&user_id={VIEWER}", ADMIN, scope="admin")
    else:
        answer = await api.call("GET", path, VIEWER)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def test_every_item_is_explained_where_it_stands(world: Client) -> None:
    for n in range(6):
        await world.post(ADA, f"ada {n}")
    await world.post(BOB, "bob")
    page = await opened(world)
    for item in page["items"]:
        told = await explained(world, page, item["id"])
        assert (told["status"], told["position"]) == ("in_slate", item["position"])
        assert told["source"] == item["source"]
        assert told["moves"] == [] or told["moves"][-1]["to"] == item["position"]
        known = {name: page["snapshot"][name] for name in told["snapshot"]}
        assert told["snapshot"] == known and known["weights_version"].startswith("default-")
        features = {each["name"]: each["value"] for each in told["features"]}
        assert features["likes"] == item["counts"]["likes"] and features["age"] >= 0
        score, factors = told["score"], [each["factor"] for each in told["multipliers"]]
        expected = score["light"]
        for factor in factors:
            expected *= factor
        assert score["heavy"] is None and score["final"] == pytest.approx(expected)
    bob = next(item for item in page["items"] if item["body"] == "bob")
    told = await explained(world, page, bob["id"])
    assert any(move["to"] < move["from"] for move in told["moves"]) or bob["position"] == 0


async def test_a_post_that_another_stands_for_is_named_with_it(world: Client) -> None:
    original = await world.post(STRANGER, "the original")
    reposts = [await world.post(each, "", repost_of=original) for each in (ADA, BOB)]
    page = await opened(world)
    (item,) = page["items"]
    (other,) = set(reposts) - {item["id"]}
    for post in (other, original):
        told = await explained(world, page, post)
        assert (told["status"], told["position"]) == ("not_in_slate", None)
        assert told["because"] == f"Post {item['id']} at place 1 shows the same original."
    await world.call("PUT", f"/mutes/{item['author']['id']}", VIEWER)
    told = await explained(world, page, other)
    assert (told["status"], told["position"]) == ("in_slate", 0), "it is shown in its place now"
    assert (await explained(world, page, item["id"]))["status"] == "not_available"


async def test_why_not_is_told_of_what_was_no_candidate(world: Client) -> None:
    strangers = await world.post(STRANGER, "unheard of")
    await world.post(ADA, "heard of")
    page = await opened(world)
    later = await world.post(ADA, "later")
    because = {
        strangers: "Its author is not followed, and it was not among the posts found elsewhere.",
        later: "It was written after this feed was opened.",
    }
    for post, sentence in because.items():
        told = await explained(world, page, post)
        assert (told["status"], told["because"]) == ("not_in_slate", sentence)
        assert told["score"] == {"light": None, "heavy": None, "final": None}


async def test_what_an_earlier_page_has_shown_is_named(
    world: Client, redis: "Redis[bytes]"
) -> None:
    for n in range(3):
        await world.post(ADA, f"ada {n}")
    first = await opened(world, "/feed?mode=ranked&limit=1")
    await redis.delete(keys.snapshot(VIEWER, first["snapshot"]["id"]))
    path = f"/feed?mode=ranked&limit=1&cursor={first['next_cursor']}"
    second = await opened(world, path)
    assert second["snapshot"]["renewed"]
    told = await explained(world, second, first["items"][0]["id"])
    assert told["because"] == "It was not ranked: an earlier page of this scroll had shown it."


@pytest.mark.parametrize(
    ("how", "truth"),
    [
        (("PUT", f"/blocks/{VIEWER}", ADA), "its author has blocked the viewer"),
        (("PUT", f"/blocks/{ADA}", VIEWER), "the viewer has blocked its author"),
        (("PUT", f"/mutes/{ADA}", VIEWER), "the viewer has muted its author"),
        (("PUT", "/hidden/{post}", VIEWER), "the viewer has hidden it"),
        (("DELETE", f"/follows/{ADA}", VIEWER), "the viewer does not follow its author"),
        (("DELETE", "/posts/{post}", ADA), "it was deleted"),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_what_may_not_be_seen_reads_like_what_does_not_exist(
    world: Client, how: tuple[str, str, int], truth: str, when: str
) -> None:
    """Whatever the reason, and whether it came before the open or after; an admin learns it."""
    post = await world.post(ADA, "a secret")
    await world.post(BOB, "for all")
    method, path, by = how
    if when == "before":
        await world.call(method, path.format(post=post), by)
    page = await opened(world)
    if when == "after":
        await world.call(method, path.format(post=post), by)
    nothing = await explained(world, page, NOBODYS)
    assert nothing["status"] == "not_available"
    assert {**await explained(world, page, post), "post_id": "x"} == {**nothing, "post_id": "x"}
    full = await explained(world, page, post, full=True)
    assert truth in full["because"]
    is_row = when == "after" or "hidden" in path  # a page refuses what was hidden, ranking does not
    assert full["status"] == ("in_slate" if is_row else "not_in_slate")
    assert (await explained(world, page, NOBODYS, full=True))["because"] == "There is no such post."


async def test_a_block_that_was_lifted_is_not_told_of(world: Client) -> None:
    """The open rested on it; that it was there is a secret for ever."""
    post = await world.post(ADA, "a secret")
    await world.call("PUT", f"/blocks/{VIEWER}", ADA)
    page = await opened(world)
    await world.call("DELETE", f"/blocks/{VIEWER}", ADA)
    await world.call("PUT", f"/follows/{ADA}", VIEWER)
    told = await explained(world, page, post)
    assert "block" not in told["because"]


async def test_a_hidden_reposter_is_not_named(world: Client) -> None:
    """Who asks for the original learns nothing of the repost that would have shown it."""
    original = await world.post(STRANGER, "the original")
    repost = await world.post(ADA, "", repost_of=original)
    page = await opened(world)
    await world.call("PUT", f"/blocks/{VIEWER}", ADA)
    told = await explained(world, page, original)
    assert told["status"] == "not_available"
    assert repost in (await explained(world, page, original, full=True))["because"]


async def test_only_ones_own_feed_unless_one_is_admin(world: Client) -> None:
    post = await world.post(ADA, "hello")
    page = await opened(world)
    path = f"/feed/explain/{post}?snapshot={page['snapshot']['id']}"
    assert (await world.call("GET", path, BOB)).status_code == 404
    for other in (VIEWER, BOB):
        answer = await world.call("GET", f"{path}&user_id={VIEWER}", other)
        assert answer.status_code == 403
    assert (await world.call("GET", f"{path}&snapshots=2", VIEWER)).status_code == 422
    assert (await world.call("GET", f"/feed/explain/{post}", VIEWER)).status_code == 422


@pytest.mark.parametrize("lost", ["snap", "trace"])
async def test_without_its_trace_a_slate_is_not_explained(
    world: Client, redis: "Redis[bytes]", lost: str
) -> None:
    post = await world.post(ADA, "hello")
    page = await opened(world)
    snapshot = page["snapshot"]["id"]
    await redis.delete(f"{lost}:{{{VIEWER}}}:{snapshot}")
    answer = await world.call("GET", f"/feed/explain/{post}?snapshot={snapshot}", VIEWER)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_a_trace_lives_as_long_as_its_snapshot(world: Client, redis: "Redis[bytes]") -> None:
    for n in range(3):
        await world.post(ADA, f"ada {n}")
    page = await opened(world, "/feed?mode=ranked&limit=1")
    both = [name(VIEWER, page["snapshot"]["id"]) for name in (keys.snapshot, keys.trace)]
    for key in both:
        assert await redis.expire(key, 60)
    await opened(world, f"/feed?mode=ranked&limit=1&cursor={page['next_cursor']}")
    lives = [await redis.ttl(key) for key in both]
    assert lives[0] == lives[1] > 60
    for _ in range(world.app.state.services.settings.snapshots_per_viewer):
        await opened(world)
    assert [await redis.exists(key) for key in both] == [0, 0], "and goes with it"


async def test_a_slate_without_scores_is_explained_as_one(
    world: Client, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the formula fails the feed is newest first, and the explanation says so."""
    posts = [await world.post(ADA, f"ada {n}") for n in range(2)]
    monkeypatch.setattr("rankers.light.AffinityDecay.score", lambda *_: [1.0])
    page = await opened(world)
    monkeypatch.undo()
    assert page["snapshot"]["ranker"] == "chronological"
    told = await explained(world, page, posts[1])
    assert told["because"].startswith("By time alone it stands at place 1 of 2")
    assert (told["score"]["light"], told["score"]["final"]) == (None, None)


def foryou(settings: Settings, *arguments: str) -> "subprocess.CompletedProcess[str]":
    urls = {
        "FORYOU_POSTGRES_URL": settings.postgres_url,
        "FORYOU_REDIS_URL": settings.redis_url,
    }
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **urls},
        capture_output=True,
        text=True,
        check=False,
    )


async def test_the_command_explains_in_full(world: Client, settings: Settings) -> None:
    post = await world.post(ADA, "a secret")
    page = await opened(world)
    await world.call("PUT", f"/blocks/{VIEWER}", ADA)
    named = ("explain", post, "--user", str(VIEWER), "--snapshot", page["snapshot"]["id"])
    told = foryou(settings, *named)
    assert told.returncode == 0, told.stderr
    assert "its author has blocked the viewer" in told.stdout and "light score" in told.stdout
    document = json.loads(foryou(settings, *named, "--json").stdout)
    assert document == await explained(world, page, post, full=True)
    gone = foryou(settings, *named[:-1], "gone")
    assert (gone.returncode, gone.stdout) == (1, "")
    assert gone.stderr == "foryou: How this feed was ordered is not known any more.\n"


async def test_the_command_replays_and_compares(
    world: Client, settings: Settings, redis: "Redis[bytes]", tmp_path: Path
) -> None:
    posts = [await world.post(author, "hello") for author in (BOB, ADA, ADA, ADA)]
    page = await opened(world)
    snapshot = page["snapshot"]["id"]
    named = ("replay", snapshot, "--user", str(VIEWER))
    same = foryou(settings, *named)
    assert (same.returncode, same.stderr) == (0, "")
    assert same.stdout.startswith(f"snapshot {snapshot}, 4 rows under default-")
    assert same.stdout.endswith(": the same slate again\n")

    weights = tmp_path / "weights.toml"
    weights.write_text("[alone.author]\nrun = 4\ndecay = 1\n")
    other = (*named, "--profiles", str(weights), "--profile", "alone", "--json")
    document = json.loads(foryou(settings, *other).stdout)
    assert document["same"] and document["compared_with"].startswith("alone-")
    was = [item["id"] for item in page["items"]]
    assert sorted(was, reverse=True) == list(reversed(posts)), "by time, newest first"
    bob = was.index(posts[0])
    assert bob < 3, "Bob's post passes Ada's further ones"
    assert {"post_id": posts[0], "from": bob, "to": 3} in document["moves"]
    assert document["distance"] == pytest.approx((3 - bob) / 6)
    assert "rows move" in foryou(settings, *other[:-1]).stdout

    found = await TraceStore(redis, ttl_s=60).read(VIEWER, snapshot)
    assert found is not None
    older = replace(found[1], weighed=found[1].weighed.take(np.array([0, 1])))
    await TraceStore(redis, ttl_s=60).keep(older)
    changed = foryou(settings, *named)
    assert changed.returncode == 1 and "ANOTHER slate" in changed.stdout
    answer = await world.call("GET", f"/feed/explain/{posts[0]}?snapshot={snapshot}", VIEWER)
    assert answer.status_code == 404, "an explanation of another slate is none"
