"""The ceiling of a benchmark does what the service did: the same round trips, the same bytes."""

import json
import time
from typing import Any

import pytest

from api.app import create_app
from benchmarks.ceiling import ceiling_app
from benchmarks.load import Target
from benchmarks.recorded import get, record
from benchmarks.trips import Commands, Statement
from benchmarks.world import Shape, load_world
from feed.settings import Settings
from storage.connections import Postgres

SMALL = Shape(
    readers=2, authors=12, posts_per_author=4, follows_per_reader=10, pulled_authors=3,
    engaged_per_reader=5,
)  # fmt: skip


async def counted(postgres: Postgres, redis: Any) -> tuple[int, int]:
    async with postgres.connection() as connection:
        row: Any = await (await connection.execute("SELECT count(*) FROM served")).fetchone()
    return row[0], sum([1 async for _ in redis.scan_iter("snap:*")])


@pytest.fixture
async def warm(settings: Settings, redis: Any, database_url: str) -> None:
    """Load a small world and build its feeds."""
    await load_world(database_url, SMALL, seed=7, now_ms=int(time.time() * 1000))
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        for reader in SMALL.reader_ids:
            await get(app, Target("/api/v1/feed?mode=ranked", reader))
            await app.state.services.effects.drain()


async def test_a_replayed_open_answers_the_same_bytes_and_writes_what_an_open_writes(
    settings: Settings, redis: Any, warm: None, postgres: Postgres
) -> None:
    target = Target("/api/v1/feed?mode=ranked", 1)
    answers = await record(settings, [target])
    recorded = answers["1", b"mode=ranked"]
    document = json.loads(recorded.body)
    assert document["state"] == "ready" and document["items"]
    before = await counted(postgres, redis)
    app = ceiling_app(answers, settings.postgres_url, settings.redis_url)
    async with app.router.lifespan_context(app):
        assert await get(app, target) == recorded.body
    pages, snapshots = await counted(postgres, redis)
    assert pages == before[0] + 1, "one more row of the served log"
    assert snapshots == before[1] + 1, "a snapshot of its own, under a fresh id"


async def test_what_is_recorded_is_every_trip_of_an_open_in_its_order(
    settings: Settings, redis: Any, warm: None
) -> None:
    answers = await record(settings, [Target("/api/v1/feed?mode=ranked", 1)])
    recording = answers["1", b"mode=ranked"].recording
    kinds = [{type(trip) for trip in group} for group in recording.groups]
    assert kinds[0] == {Statement}, "the mode is decided first"
    assert {Statement, Commands} in kinds, "sources run side by side"
    assert len(recording.groups) <= 8
    assert {type(trip) for trip in recording.beside} == {Statement, Commands}, "visit and lives"
