"""What was served and why is logged beside the responses, with what was known at that moment."""

import math
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from feed.candidates import SOURCE_CODE
from feed.settings import Settings
from mixer.facts import facts_of
from rankers.features import NAMES, build, schema_hash
from storage.connections import Postgres
from storage.engagements import fold
from storage.followers import fold_counts
from storage.moments import load_moment
from storage.slates import unpacked
from tests.integration.api_client import Client, running
from tests.integration.test_api_events import event, send
from tests.integration.test_api_posts import rows

pytestmark = pytest.mark.anyio

READER, AUTHOR, FAN = 1, 2, 3
HALF_LIFE_S = 30 * 86_400.0


@pytest.fixture
async def api(settings: Settings, redis: Any) -> AsyncIterator[Client]:
    logged = replace(settings, slates_with_features=1.0, slate_rows_logged=3, slate_others_logged=1)
    async with running(logged) as client:
        yield client


async def folded(postgres: Postgres) -> None:
    async with postgres.transaction() as connection:
        await fold(connection, HALF_LIFE_S)
        await fold_counts(connection)


async def page(api: Client, query: str, user: int = READER) -> dict[str, Any]:
    answer = await api.call("GET", f"/feed?{query}", user)
    assert answer.status_code == 200, answer.text
    await api.app.state.services.effects.drain()
    document: dict[str, Any] = answer.json()
    return document


async def test_a_slate_is_logged_with_scores_and_what_was_known(
    api: Client, postgres: Postgres
) -> None:
    """The first rows, a few others, each where it stood; features of exactly these rows."""
    await api.people(READER, AUTHOR)
    await api.call("PUT", f"/follows/{AUTHOR}", READER)
    posts = [await api.post(AUTHOR) for _ in range(6)]
    await send(api, event(posts[0], "like"), event(posts[0], "impression"), user=READER)
    await folded(postgres)
    shown = await page(api, "mode=ranked&limit=2")
    [(snapshot, ranker, model, n_rows, packed, number, schema, features)] = await rows(
        postgres,
        "SELECT snapshot_id, ranker, model, n_rows, rows, fold, schema_hash, features FROM slates",
    )
    assert (snapshot, ranker, model, n_rows) == (shown["snapshot"]["id"], "affinity_decay", None, 6)
    assert (number, schema) == (2, schema_hash())
    slate, matrix = unpacked(packed, features)
    assert len(slate) == 4 and matrix.shape == (4, len(NAMES))
    assert slate["id"][:2].tolist() == [int(item["id"]) for item in shown["items"]]
    assert slate["position"][:3].tolist() == [0, 1, 2] and slate["position"][3] > 2
    assert (np.diff(slate["light"][:3]) <= 0).all() and (slate["light"] > 0).all()
    assert np.isnan(slate["heavy"]).all() and (slate["propensity"] == 1).all()
    liked = slate["id"] == int(posts[0])
    likes = matrix[:, NAMES.index("likes")]
    assert likes[liked].tolist() in ([1], []) and not likes[~liked].any()


async def test_pages_are_logged_with_their_sources_in_both_modes(
    api: Client, postgres: Postgres
) -> None:
    await api.people(READER, AUTHOR)
    await api.call("PUT", f"/follows/{AUTHOR}", READER)
    for _ in range(3):
        await api.post(AUTHOR)
    pages = {}
    for mode in ("ranked", "chronological"):
        first = await page(api, f"mode={mode}&limit=2")
        again = await page(api, f"mode={mode}&limit=2&cursor={first['next_cursor']}")
        pages[mode] = [first, again]
    query = "SELECT position, ids, sources FROM served WHERE ranker = %s ORDER BY position"
    for ranker, asked in (("affinity_decay", "ranked"), ("chronological", "chronological")):
        logged = await rows(postgres, query, ranker)
        expected = [
            (
                each["items"][0]["position"],
                [int(item["id"]) for item in each["items"]],
                bytes(SOURCE_CODE[item["source"]] for item in each["items"]),
            )
            for each in pages[asked]
        ]
        assert logged == expected


async def test_an_account_that_is_deleted_takes_its_slates_along(
    api: Client, postgres: Postgres
) -> None:
    await api.people(READER)
    await api.post(READER)
    await page(api, "mode=ranked")
    assert await rows(postgres, "SELECT viewer_id FROM slates") == [(READER,)]
    await api.call("DELETE", f"/users/{READER}", READER)
    assert await rows(postgres, "SELECT viewer_id FROM slates") == []


async def live(api: Client, postgres: Postgres) -> list[int]:
    """Let two people do things whose counts are easily told; return the author's posts."""
    await api.people(READER, AUTHOR, FAN)
    await api.call("PUT", f"/follows/{AUTHOR}", READER)
    await api.call("PUT", f"/follows/{AUTHOR}", FAN)
    await api.post(READER, "ja", lang="de")
    posts = [
        await api.post(AUTHOR, "guten tag", lang="de", format="image"),
        await api.post(AUTHOR, "hello", lang="en"),
    ]
    hours = {"at": (datetime.now(UTC) - timedelta(hours=3)).isoformat()}
    await send(api, event(posts[0], "like", **hours), event(posts[0], "click"), user=READER)
    await send(api, *(event(posts[0], kind) for kind in ("impression", "share")), user=READER)
    await send(api, event(posts[0], "comment"), event(posts[1], "impression"), user=FAN)
    await api.post(AUTHOR, "", repost_of=await api.post(READER))
    await folded(postgres)
    settle = "UPDATE follows SET created_at = created_at - interval '1 hour' RETURNING 1"
    await rows(postgres, settle)
    earlier = "UPDATE posts SET effective_ms = effective_ms - 7200000 RETURNING 1"
    await rows(postgres, earlier)
    return [int(post) for post in posts]


async def test_features_are_what_was_known_counted_by_hand(api: Client, postgres: Postgres) -> None:
    posts = await live(api, postgres)
    now_ms = int(datetime.now(UTC).timestamp() * 1000) + 1
    async with postgres.connection() as connection:
        moment = await load_moment(
            connection, READER, np.array([*posts, 12345]), now_ms=now_ms, half_life_s=HALF_LIFE_S
        )
    sources = np.full(3, SOURCE_CODE["pushed_feed"], dtype=np.int8)
    matrix = build(facts_of(moment, sources))
    first, second, gone = (dict(zip(NAMES, row.tolist(), strict=True)) for row in matrix)
    expected = {
        "format": 1,
        "chars": len("guten tag"),
        "same_language": 1,
        "likes": 1,
        "comments": 1,
        "shares": 1,
        "like_rate": (1 + 0.4) / (1 + 20),
        "engaged_1h": 3,  # click, share, and the fan's comment
        "engaged_24h": 4,
        "author_followers": 2,
        "author_posts": 3,
        "author_posts_per_day": 3 / 7,
        "author_engaged": (4 + 5) / (3 + 5),
        "engaged_back": 1,  # the author reposted the reader
        "in_network": 1,
        "seen": 1,
        "format_share": (3 + 1.25) / (3 + 5),
        "viewer_engaged": 3,
        "viewer_engaged_24h": 3,
        "viewer_follows": 1,
    }
    assert {name: first[name] for name in expected} == pytest.approx(expected, rel=1e-6)
    assert first["age_h"] == pytest.approx(2, abs=0.05)
    assert first["followed_h"] == pytest.approx(1, abs=0.05)
    assert first["engaged_author_h"] == pytest.approx(0, abs=0.05)
    strength = 1 + 0.5 + 3 + 2 / 7 * 5
    assert first["affinity"] == pytest.approx(0.1 + 0.9 * strength / (strength + 5), rel=1e-3)
    assert (second["same_language"], second["seen"], second["likes"]) == (0, 0, 0)
    assert (gone["likes"], gone["author_posts"]) == (0, 0)
    assert math.isnan(gone["followed_h"]) and math.isnan(gone["author_days"])
