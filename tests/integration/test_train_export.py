"""From a product that is used to a data set: labels, what is counted, and parity of features."""

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from feed.settings import Settings
from rankers.features import NAMES
from storage.connections import Connection, Postgres, configure
from storage.engagements import fold
from storage.followers import fold_counts
from storage.learning import Slate, Span, slates
from tests.integration.api_client import Client, running
from tests.integration.test_api_events import event, send
from tests.integration.test_api_posts import rows
from training.dataset import About, Dataset, read
from training.export import Terms, export
from training.parity import compare
from training.validate import Check, validate

pytestmark = pytest.mark.anyio

HALF_LIFE_S = Settings().affinity_half_life_s
VIEWERS, AUTHORS = (1, 2, 3), (1, 11, 12, 13)
FORMATS = ("text", "image", "video", "link")


@pytest.fixture
async def api(settings: Settings, redis: Any) -> AsyncIterator[Client]:
    everything = replace(settings, slates_with_features=1.0, slate_rows_logged=4)
    async with running(everything) as client:
        yield client


@pytest.fixture
async def reading(database_url: str) -> AsyncIterator[Connection]:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await configure(connection)
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        yield connection


async def folded(postgres: Postgres) -> None:
    async with postgres.transaction() as connection:
        await fold(connection, HALF_LIFE_S)
        await fold_counts(connection)


async def settled(api: Client, postgres: Postgres) -> list[str]:
    """Make a small world an hour old; return its posts."""
    await api.people(*VIEWERS, *AUTHORS)
    for viewer in VIEWERS:
        for author in AUTHORS[1:]:
            await api.call("PUT", f"/follows/{author}", viewer)
    posts = [
        await api.post(author, f"post {n}", lang=("de", "en")[n % 2], format=FORMATS[n % 4])
        for author in AUTHORS
        for n in range(3)
    ]
    await folded(postgres)
    for age in (
        "UPDATE posts SET effective_ms = effective_ms - 3600000 RETURNING 1",
        "UPDATE follows SET created_at = created_at - interval '1 hour' RETURNING 1",
        "UPDATE author_stats SET first_ms = first_ms - 3600000 RETURNING 1",
    ):
        await rows(postgres, age)
    return posts


async def opened(api: Client, viewer: int, limit: int = 3) -> tuple[str, list[dict[str, Any]]]:
    """Open a feed; return the id of its snapshot and the items of its first page."""
    answer = await api.call("GET", f"/feed?mode=ranked&limit={limit}", viewer)
    await api.app.state.services.effects.drain()
    page = answer.json()
    return page["snapshot"]["id"], page["items"]


def about(snapshot: str, item: dict[str, Any], kind: str, **fields: Any) -> dict[str, Any]:
    place = {"snapshot_id": snapshot, "position": item["position"]}
    return event(item["id"], kind, **{**place, **fields})


def terms(hours: float = 24) -> Terms:
    now = datetime.now(UTC) + timedelta(seconds=1)
    return Terms(Span(now - timedelta(days=1), now), hours)


async def exported(reading: Connection, folder: Path, hours: float = 24) -> tuple[About, Dataset]:
    async with reading.transaction():
        said = await export(reading, folder, terms(hours))
    return said, read(folder)


async def test_labels_are_what_was_done_about_a_row_that_was_served(
    api: Client, postgres: Postgres, reading: Connection, tmp_path: Path
) -> None:
    """The best of what was done; undone likes, complaints and other snapshots' events are none."""
    await settled(api, postgres)
    snapshot, items = await opened(api, 1)
    await send(api, *(about(snapshot, item, "impression") for item in items), user=1)
    await send(
        api,
        about(snapshot, items[0], "click"),
        about(snapshot, items[0], "dwell", dwell_ms=9_000),
        about(snapshot, items[1], "like"),
        about(snapshot, items[1], "unlike"),
        about(snapshot, items[2], "share"),
        about(snapshot, items[2], "report"),
        user=1,
    )
    other, again = await opened(api, 2)
    await send(api, about(other, again[0], "impression"), user=2)
    await send(api, about("elsewhere", again[0], "click"), user=2)
    await api.post(2, "an answer", reply_to=again[0]["id"])
    said, dataset = await exported(reading, tmp_path / "data")
    served = dataset["position"] >= 0
    assert len(dataset.queries) == 2 and served.sum() == 6
    mine = np.flatnonzero(served & (dataset["viewer_id"] == 1))
    assert dataset["position"][mine].tolist() == [0, 1, 2]
    assert dataset["post_id"][mine].tolist() == [int(item["id"]) for item in items]
    assert dataset["label"][mine].tolist() == [2, 0, 0]
    assert dataset["clicked"][mine].tolist() == [True, False, False]
    assert dataset["shared"][mine].tolist() == [False, False, True]
    assert not dataset["liked"].any() and dataset["shown"][mine].all()
    theirs = np.flatnonzero(served & (dataset["viewer_id"] == 2))
    assert dataset["label"][theirs].tolist() == [3, 0, 0], "a reply is a comment"
    assert dataset["shown"][theirs].tolist() == [True, False, False]
    assert not dataset["shown"][~served].any() and (~served).sum() > 0
    assert dataset["censored"].all() and said.counts["rows_censored"] == len(dataset)
    assert said.counts["queries"] == 2 and said.counts["rows_shown"] == 4


async def test_only_what_was_known_then_and_happened_in_the_window_counts(
    api: Client, postgres: Postgres, reading: Connection, tmp_path: Path
) -> None:
    await settled(api, postgres)
    snapshot, items = await opened(api, 1)
    await send(api, *(about(snapshot, item, "impression") for item in items), user=1)
    await send(api, about(snapshot, items[0], "click"), about(snapshot, items[1], "share"), user=1)
    later = "UPDATE engagements SET {} WHERE type = '{}' RETURNING 1"
    await rows(postgres, later.format("received_at = now() + interval '3 h'", "click"))
    await rows(postgres, later.format("at = at + interval '2 h'", "share"))
    said, dataset = await exported(reading, tmp_path / "data", hours=1)
    assert not dataset["label"].any() and dataset["shown"].sum() == 3
    assert said.counts["events_out_of_the_window"] == 1
    aged = "UPDATE slates SET now_ms = now_ms - 7200000 RETURNING 1"
    await rows(postgres, aged)
    said, dataset = await exported(reading, tmp_path / "aged", hours=1)
    assert not dataset["censored"].any() and not dataset["shown"].any()
    assert said.counts["impressions_that_came_late"] == 3


async def test_features_worked_out_again_are_those_that_were_logged(
    api: Client, postgres: Postgres, reading: Connection, tmp_path: Path
) -> None:
    """After all that changes a count: later engagements, undone ones, posts, follows, deletions."""
    draw = random.Random(4)
    posts = await settled(api, postgres)
    for turn in range(16):
        viewer = draw.choice(VIEWERS)
        snapshot, items = await opened(api, viewer)
        kinds = [draw.choice(("like", "click", "share", "comment", "unlike")) for _ in items]
        seen = [about(snapshot, item, "impression") for item in items]
        done = [about(snapshot, item, kind) for item, kind in zip(items, kinds, strict=True)]
        await send(api, *seen, *done[: draw.randrange(4)], user=viewer)
        if turn % 3 == 0:
            await api.post(draw.choice(AUTHORS), "more", reply_to=draw.choice(posts[:4]))
            await api.post(draw.choice(AUTHORS), "", repost_of=draw.choice(posts[:4]))
        if turn == 7:
            await api.call("DELETE", f"/follows/{AUTHORS[1]}", VIEWERS[2])
            await api.call("PATCH", f"/posts/{posts[4]}", AUTHORS[1], {"body": "edited"})
            await api.call("DELETE", f"/posts/{posts[5]}", AUTHORS[1])
        if draw.random() < 0.7:
            await folded(postgres)
    logged = await read_slates(reading)
    assert len(logged) == 16 and len({slate.fold for slate in logged}) > 8
    async with reading.transaction():
        found = await compare(reading, logged, half_life_s=HALF_LIFE_S)
    assert {each.name: each for each in found if each.n_off} == {}
    async with reading.transaction():
        alone = await compare(reading, logged[3:4], half_life_s=HALF_LIFE_S)
    assert not any(each.n_off for each in alone), "whatever else is asked for"
    values = np.concatenate([slate.features for slate in logged])
    varied = {
        name for d, name in enumerate(NAMES) if len(np.unique(values[:, d])) > 1
    }  # a feature that never varied shows nothing
    assert set(NAMES) - varied <= {"in_network", "source", "weekday", "viewer_follows"}
    await check_broken(reading, logged)
    await exported(reading, tmp_path / "data")
    async with reading.transaction():
        checks = await validate(reading, tmp_path / "data", n_slates=1_000, half_life_s=HALF_LIFE_S)
    assert [each for each in checks if not each.passed] == []


async def check_broken(reading: Connection, logged: list[Slate]) -> None:
    """See a difference where one is: a fold earlier, other counters were known."""
    earlier = [replace(slate, fold=slate.fold - 1) for slate in logged]
    async with reading.transaction():
        found = await compare(reading, earlier, half_life_s=HALF_LIFE_S)
    off = {each.name for each in found if each.n_off}
    assert {"likes", "like_rate", "affinity", "viewer_engaged", "seen"} <= off


async def read_slates(reading: Connection) -> list[Slate]:
    async with reading.transaction():
        return [each async for batch in slates(reading, terms().span, batch=5) for each in batch]


async def test_logs_with_wrong_events_fail_by_name_with_examples(
    api: Client, postgres: Postgres, reading: Connection, tmp_path: Path
) -> None:
    await settled(api, postgres)
    snapshot, items = await opened(api, 1)
    await send(api, *(about(snapshot, item, "impression") for item in items), user=1)
    await exported(reading, tmp_path / "data")
    assert await failed(reading, tmp_path) == {}
    await send(api, about("elsewhere", items[0], "click"), user=1)
    await send(api, about("elsewhere", items[0], "impression"), user=1)
    await send(api, about(snapshot, items[0], "impression", position=2), user=1)
    past = (datetime.now(UTC) - timedelta(hours=2)).isoformat()
    await send(api, about(snapshot, items[1], "click", at=past), user=1)
    twice = """
INSERT INTO engagements (day, viewer_id, event_id, type, post_id, at, snapshot_id, position)
SELECT day, viewer_id, gen_random_uuid(), type, post_id, at, snapshot_id, position
  FROM engagements WHERE type = 'impression' AND snapshot_id = %s AND post_id = %s RETURNING 1"""
    await rows(postgres, twice, snapshot, items[2]["id"])
    wrong = await failed(reading, tmp_path)
    assert wrong.keys() == {
        "orphan_engagements",
        "never_served_ids",
        "clock_skew",
        "misplaced_impressions",
        "duplicate_impressions",
    }
    assert wrong["orphan_engagements"].examples[0][:4] == (
        1,
        int(items[0]["id"]),
        "click",
        "elsewhere",
    )


async def failed(reading: Connection, tmp_path: Path) -> dict[str, Check]:
    async with reading.transaction():
        checks = await validate(reading, tmp_path / "data", n_slates=9, half_life_s=HALF_LIFE_S)
    return {each.name: each for each in checks if not each.passed}
