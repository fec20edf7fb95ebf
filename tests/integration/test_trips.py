"""What a feed request costs in round trips: so many, whoever asks and however many they follow."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from fastapi import FastAPI

from api.app import create_app
from benchmarks.load import Target
from benchmarks.recorded import get, record
from benchmarks.trips import Commands, Recording, Statement, Trip
from benchmarks.world import Shape, load_world
from feed.settings import Settings

pytestmark = pytest.mark.anyio

READER = 1


class Cost(NamedTuple):
    """Round trips to each server before the answer, and those made beside it."""

    postgres: int
    redis: int
    postgres_beside: int = 0
    redis_beside: int = 0


COSTS = {
    "open": Cost(postgres=7, redis=4, postgres_beside=2, redis_beside=2),
    "page": Cost(postgres=2, redis=2),
    "page of the tail": Cost(postgres=5, redis=1),
    "chronological open": Cost(postgres=4, redis=1, postgres_beside=2, redis_beside=1),
    "chronological page": Cost(postgres=3, redis=1, postgres_beside=1),
    "chronological page below the list": Cost(postgres=4, redis=1, postgres_beside=1),
}
READ_LISTS = {name for name in COSTS if name == "open" or name.startswith("chronological")}
"""These read the outboxes of all pulled authors in one more round trip, beside the others."""


@pytest.mark.parametrize(
    ("followees", "posts_each", "pulled"),
    [(10, 120, 0), (10, 120, 5), (2_000, 2, 0), (2_000, 2, 20)],
)
async def test_round_trips_depend_on_neither_followees_nor_posts(
    settings: Settings, redis: Any, database_url: str, followees: int, posts_each: int, pulled: int
) -> None:
    """Numbers are exact: more is a regression, fewer belongs into the table."""
    shape = Shape(
        readers=1,
        authors=followees,
        posts_per_author=posts_each,
        follows_per_reader=followees,
        pulled_authors=pulled,
        engaged_per_reader=10,
    )
    await load_world(database_url, shape, seed=7, now_ms=int(time.time() * 1000))
    settings = replace(settings, slates_with_features=0)  # else one more beside some opens
    targets = await asked_for(settings)
    answers = await record(settings, list(targets.values()))
    found = {
        name: cost(answers[str(READER), target.path.partition("?")[2].encode()].recording)
        for name, target in targets.items()
    }
    assert found == {
        name: each._replace(redis=each.redis + (pulled > 0 and name in READ_LISTS))
        for name, each in COSTS.items()
    }


async def asked_for(settings: Settings) -> dict[str, Target]:
    """Let lists be made, and turn pages; return a request of each kind that is counted."""
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        await turned(app, "mode=chronological", lambda _: True)
        ranked = await turned(app, "mode=ranked", lambda page: page["snapshot"] is None)
        by_time = await turned(app, "mode=chronological", below_the_list)
    assert (ranked[0]["state"], by_time[0]["state"]) == ("ready", "ready")
    return {
        "open": target("mode=ranked"),
        "page": target("mode=ranked", ranked[0]),
        "page of the tail": target("mode=ranked", ranked[-2]),
        "chronological open": target("mode=chronological"),
        "chronological page": target("mode=chronological", by_time[0]),
        "chronological page below the list": target("mode=chronological", by_time[-2]),
    }


async def turned(
    app: FastAPI, query: str, until: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    """Open a feed and turn its pages to the first that is as wanted."""
    pages: list[dict[str, Any]] = []
    while not pages or not until(pages[-1]):
        at = target(f"{query}&limit=50", pages[-1] if pages else None)
        pages.append(json.loads(await get(app, at)))
        await app.state.services.effects.drain()
    return pages


def below_the_list(page: dict[str, Any]) -> bool:
    return "below_floor" in {item["source"] for item in page["items"]}


def target(query: str, after: dict[str, Any] | None = None) -> Target:
    """Return the request for a first page, or for the page after another."""
    place = f"&cursor={after['next_cursor']}" if after else ""
    return Target(f"/api/v1/feed?{query}{place}", READER)


def cost(recording: Recording) -> Cost:
    """Count the round trips of a recorded request."""
    trips = [trip for group in recording.groups for trip in group]
    return Cost(
        *(n_of(trips, kind) for kind in (Statement, Commands)),
        *(n_of(recording.beside, kind) for kind in (Statement, Commands)),
    )


def n_of(trips: list[Trip], kind: type[Trip]) -> int:
    return sum(isinstance(trip, kind) for trip in trips)
