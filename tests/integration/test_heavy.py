"""The heavy ranker before people: promoted it moves the feed, rolled back it is as it was."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

import numpy as np
import pytest

from feed.settings import Settings
from mixer import heavy, models
from rankers.artifact import Model
from rankers.heavy import as_share
from storage.connections import Postgres
from storage.slates import unpacked
from tests.fitted import ranker
from tests.integration.api_client import Client, running
from tests.integration.models import crowned, noticed, rolled_back

pytestmark = pytest.mark.anyio

READER, FRIEND = 1, 2
POSTS = tuple(range(1, 13))  # a larger one is newer
K = 8


@pytest.fixture(scope="module")
def old_first() -> Model:
    """Like old posts, which the light ranker does not."""
    return ranker("age_h", rounds=40)


@pytest.fixture
def delivery() -> str:
    """Read everything from Postgres: no worker runs here."""
    return "pull"


@pytest.fixture
async def world(api: Client) -> Client:
    await peopled(api)
    return api


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(
        settings,
        heavy_k=K,
        heavy_deadline_ms=5_000,
        slates_with_features=1.0,
    )


async def peopled(api: Client) -> None:
    await api.people(READER, FRIEND)
    await api.call("PUT", f"/follows/{FRIEND}", READER)
    now = datetime.now(UTC)
    lines = [
        {
            "kind": "post",
            "id": str(post),
            "author_id": str(FRIEND),
            "body": f"post {post}",
            "created_at": (now - timedelta(hours=8 * (20 - post))).isoformat(),
        }
        for post in POSTS
    ]
    assert not (await api.ingest(*lines))["rejected"]


async def opened(api: Client, limit: int = 50) -> dict[str, Any]:
    answer = await api.call("GET", f"/feed?mode=ranked&limit={limit}", READER)
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


def order(page: dict[str, Any]) -> list[int]:
    return [int(item["id"]) for item in page["items"]]


async def explained(api: Client, page: dict[str, Any], post: int) -> dict[str, Any]:
    await api.app.state.services.effects.drain()
    path = f"/feed/explain/{post}?snapshot={page['snapshot']['id']}"
    told: dict[str, Any] = (await api.call("GET", path, READER)).json()
    return told


async def test_a_promotion_moves_the_feed_and_a_rollback_moves_it_back(
    world: Client, old_first: Model
) -> None:
    """An open scroll keeps its order: only a new open is ranked by what is in force by then."""
    before = await opened(world)
    light = order(before)
    assert light == sorted(POSTS, reverse=True)
    assert before["snapshot"]["ranker"] == "affinity_decay"
    assert before["snapshot"]["model_version"] is None
    scroll = await opened(world, limit=3)

    version = await crowned(world, old_first)
    after = await opened(world)
    assert (after["snapshot"]["ranker"], after["snapshot"]["model_version"]) == ("heavy", version)
    assert after["degraded"] == []
    # The light ranker's best K by the model, then the others as the light ranker has them.
    best, others = light[:K], light[K:]
    assert set(order(after)[:K]) == set(best) and order(after)[K:] == others
    assert order(after)[0] in best[-3:], "it likes what is old"

    cursor = scroll["next_cursor"]
    rest = await world.call("GET", f"/feed?mode=ranked&limit=50&cursor={cursor}", READER)
    assert [*order(scroll), *order(rest.json())] == light

    await rolled_back(world)
    again = await opened(world)
    assert order(again) == light and again["snapshot"]["model_version"] is None


async def test_why_this_post_names_the_model_and_what_it_said(
    world: Client, old_first: Model
) -> None:
    version = await crowned(world, old_first)
    page = await opened(world)
    top = order(page)[0]
    first = await explained(world, page, top)
    assert first["snapshot"]["model_version"] == version
    assert 0 < first["score"]["heavy"] < 1 and first["score"]["light"] > 0
    assert {"rule": "heavy", "from": POSTS[-1] - top, "to": 0} in first["moves"]
    last = await explained(world, page, order(page)[-1])
    assert last["score"]["heavy"] is None and last["status"] == "in_slate"


async def test_what_a_model_scored_is_logged_with_the_features_it_was_given(
    world: Client, old_first: Model
) -> None:
    version = await crowned(world, old_first)
    page = await opened(world)
    await world.app.state.services.effects.drain()
    async with world.app.state.services.postgres.connection() as connection:
        rows = await connection.execute(
            "SELECT model, ranker, n_rows, rows, features FROM slates ORDER BY at DESC LIMIT 1"
        )
        model, name, n_rows, packed, features = await rows.fetchone()
    assert (model, name, n_rows) == (version, "heavy", len(order(page)))
    posts, matrix = unpacked(packed, features)
    assert posts["id"].tolist() == order(page)[:K], "what features others had nobody knows"
    said = as_share(old_first.predict(matrix)).astype(np.float32)
    np.testing.assert_allclose(posts["heavy"], said, rtol=1e-6)


async def test_a_damaged_model_changes_nothing(world: Client, old_first: Model) -> None:
    version = await crowned(world, old_first)
    with_it = order(await opened(world))
    other = ranker("likes", rounds=4)
    services = world.app.state.services
    await crowned(world, other)
    await rolled_back(world)
    async with services.postgres.connection() as connection:
        await connection.execute(
            "UPDATE models SET artifact = substring(artifact FROM 1 FOR 900) WHERE version = %s",
            [other.manifest.version],
        )
        for state, of in (("retired", version), ("champion", other.manifest.version)):
            await connection.execute("UPDATE models SET state = %s WHERE version = %s", [state, of])
    await noticed(world)
    page = await opened(world)
    assert (order(page), page["snapshot"]["model_version"]) == (with_it, version)


async def test_a_node_takes_up_by_itself_what_is_in_force(
    settings: Settings, postgres: Postgres, old_first: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that runs within moments, one that starts before its first answer."""
    monkeypatch.setattr(models, "LOOK_EVERY_S", 0.01)
    settings = replace(settings, delivery="pull")
    async with running(settings) as first:
        await peopled(first)
        version = await crowned(first, old_first)
        async with running(settings) as second:
            assert (await opened(second))["snapshot"]["model_version"] == version
            await rolled_back(first)
            for _ in range(1_000):
                if (await opened(second))["snapshot"]["model_version"] is None:
                    break
                await asyncio.sleep(0.01)
            else:
                pytest.fail("the second node still ranks by it")


class Stuck(Model):
    """A model that predicts when it is let go."""

    def predict(self, matrix: Any) -> Any:
        GO.wait()
        return np.zeros(len(matrix))


GO = Event()


@pytest.fixture
async def hasty(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """Serve with a model that never answers."""
    monkeypatch.setattr(heavy, "AT_ONCE", 2)
    monkeypatch.setattr(models, "LOOK_EVERY_S", 600)
    async with running(replace(settings, delivery="pull", heavy_deadline_ms=700)) as api:
        await peopled(api)
        GO.clear()
        made = ranker()
        stuck = Stuck(made.manifest, made.heads, made.boosters)
        api.app.state.services.home_feed.heavy.models.champion = stuck
        yield api
        GO.set()


async def test_a_prediction_that_is_late_is_done_without_and_never_piles_up(
    hasty: Client,
) -> None:
    light = sorted(POSTS, reverse=True)
    for _ in range(5):
        page = await opened(hasty)
        assert order(page) == light
        assert (page["degraded"], page["state"]) == (["heavy"], "degraded")
        assert page["snapshot"]["ranker"] == "affinity_decay"
        assert page["snapshot"]["model_version"] is None
    predictions = hasty.app.state.services.home_feed.heavy._predictions
    assert predictions._thread._work_queue.qsize() == 1  # and one runs
