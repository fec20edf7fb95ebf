"""Popular posts and what the network liked: by velocity, spread over authors, bounded."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from storage.connections import Postgres
from storage.discovery import HALF_LIFE_S, liked_by, popular_posts
from storage.engagements import fold

pytestmark = pytest.mark.anyio

HALF_LIFE = timedelta(seconds=HALF_LIFE_S)


async def run(postgres: Postgres, query: Any, values: Sequence[Any] = ()) -> None:
    async with postgres.connection() as connection:
        await connection.execute(query, values)


async def write(postgres: Postgres, posts: dict[int, int], **columns: Any) -> None:
    """Write posts, each with its author."""
    await run(
        postgres,
        "INSERT INTO users (id, name) SELECT DISTINCT unnest(%s::bigint[]), 'somebody'"
        " ON CONFLICT DO NOTHING",
        [list(posts.values())],
    )
    await run(
        postgres,
        "INSERT INTO posts (id, author_id, body, format, created_at, received_at, effective_ms,"
        " delivery, repost_of, reply_to)"
        " SELECT id, author, '.', 'text', now(), now(), id, 'push', %s, %s"
        " FROM unnest(%s::bigint[], %s::bigint[]) AS p (id, author)",
        [columns.get("repost_of"), columns.get("reply_to"), list(posts), list(posts.values())],
    )


async def likes(postgres: Postgres, post: int, n: int, at: datetime | None = None) -> None:
    """Let a post be liked, or unliked, n times at a moment, and count it."""
    await run(
        postgres,
        "INSERT INTO engagement_deltas (post_id, viewer_id, author_id, likes, at)"
        " SELECT %s, 1, 1, sign(%s), %s FROM generate_series(1, abs(%s))",
        [post, n, at or datetime.now(UTC), n],
    )
    async with postgres.transaction() as connection:
        await fold(connection, 86_400)


async def popular(postgres: Postgres, *, n: int = 10, least: float = 0.5) -> list[int]:
    async with postgres.connection() as connection:
        found = await popular_posts(connection, n=n, per_author=2, least=least)
    return found.ids.tolist()


async def test_velocity_orders_and_halves_with_every_half_life(postgres: Postgres) -> None:
    """Five likes two half-lives ago count as 1.25 now, whatever was folded when."""
    now = datetime.now(UTC)  # one moment: in the end the second and the third are as hot
    await write(postgres, {1: 10, 2: 20, 3: 30})
    await likes(postgres, 1, 2, now)
    await likes(postgres, 2, 5, now - 2 * HALF_LIFE)
    await likes(postgres, 3, 9, now - 2 * HALF_LIFE)
    assert await popular(postgres) == [3, 1, 2]
    await likes(postgres, 2, 1, now)
    assert await popular(postgres) == [3, 2, 1]
    assert await popular(postgres, least=2.1) == [3, 2]


async def test_late_events_and_unlikes_count_at_their_own_time(postgres: Postgres) -> None:
    await write(postgres, {1: 10, 2: 20})
    now = datetime.now(UTC)
    await likes(postgres, 1, 3, now)
    await likes(postgres, 1, -3, now)
    await likes(postgres, 2, 1, now)
    await likes(postgres, 2, 4, now - HALF_LIFE)
    assert await popular(postgres, least=2.9) == [2]
    assert await popular(postgres) == [2]


async def test_at_most_two_posts_of_an_author(postgres: Postgres) -> None:
    await write(postgres, {1: 10, 2: 10, 3: 10, 4: 20})
    for post, n in {1: 9, 2: 8, 3: 7, 4: 6}.items():
        await likes(postgres, post, n)
    assert await popular(postgres) == [1, 2, 4]


async def test_only_originals_of_authors_who_are_there_and_did_not_opt_out(
    postgres: Postgres,
) -> None:
    await write(postgres, {1: 10, 2: 20, 3: 30, 4: 40})
    await write(postgres, {5: 50}, repost_of=1)
    await write(postgres, {6: 60}, reply_to=1)
    for post in range(1, 7):
        await likes(postgres, post, post)
    await run(postgres, "UPDATE users SET discoverable = false WHERE id = 20")
    await run(postgres, "UPDATE users SET deleted_at = now() WHERE id = 30")
    await run(postgres, "UPDATE posts SET deleted_at = now() WHERE id = 4")
    assert await popular(postgres) == [1]


async def test_popular_posts_are_read_from_the_index(postgres: Postgres) -> None:
    """However many posts have counters, a bounded number of rows is touched."""
    await run(
        postgres,
        "INSERT INTO post_stats (post_id, heat, heat_s)"
        " SELECT n, 1 + n %% 7, n FROM generate_series(1, 20000) AS n",
    )
    await run(postgres, "ANALYZE post_stats")
    async with postgres.connection() as connection:
        rows = await connection.execute(
            "EXPLAIN (FORMAT JSON) SELECT post_id FROM post_stats WHERE heat > 0"
            " ORDER BY heat_s + 21600 * ln(heat) / ln(2::double precision) DESC LIMIT 40"
        )
        plan = str(await rows.fetchall())
    assert "post_stats_by_heat" in plan
    assert "Sort" not in plan


async def test_what_two_of_the_network_liked_lately_is_found(postgres: Postgres) -> None:
    """By authors who are not known; more likers first."""
    await write(postgres, {1: 10, 2: 20, 3: 30, 4: 40})
    likers = {1: [1, 2], 2: [1], 3: [1, 2, 3], 4: [1, 2, 3]}
    for post, people in likers.items():
        await run(
            postgres,
            "INSERT INTO reactions (viewer_id, post_id, kind, active, at, event_id)"
            " SELECT unnest(%s::bigint[]), %s, 'like', true, now(), gen_random_uuid()",
            [people, post],
        )
    async with postgres.connection() as connection:
        found = await liked_by(connection, [1, 2, 3], [40], n=5, per_liker=5, least=2, within_s=60)
    assert found.ids.tolist() == [3, 1]
    assert found.authors.tolist() == [30, 10]
