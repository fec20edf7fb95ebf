"""Plan guards: on a large table, a hot query touches the rows it needs and no more."""

import time
from collections.abc import AsyncIterator, Iterator
from math import ceil
from typing import Any

import numpy as np
import pytest

from feed.order import MAX_ID
from storage import followers, moments, seen, timelines
from storage.connections import Connection, Postgres

pytestmark = pytest.mark.anyio

AUTHOR, PAGE = 2_000_000, 1_000

# Half of the edges are one author's; one in ten followers has not been seen for long. An index is
# made after its rows, as a dump is restored, and the one that no page needs is left out.
EDGES = """
ALTER TABLE follows DROP CONSTRAINT follows_pkey;
DROP INDEX follows_by_followee;
INSERT INTO follows (follower_id, followee_id)
SELECT n, CASE WHEN n %% 2 = 0 THEN %(author)s ELSE 3000001 + n %% 1000 END
  FROM generate_series(1, 1000000) AS n;
CREATE INDEX follows_by_followee ON follows (followee_id, follower_id);
ALTER TABLE user_activity DROP CONSTRAINT user_activity_pkey;
INSERT INTO user_activity
SELECT n, now() - (CASE WHEN n %% 10 = 0 THEN 31 ELSE 1 END) * interval '1 day'
  FROM generate_series(1, 1000000) AS n;
ALTER TABLE user_activity ADD PRIMARY KEY (user_id);
ANALYZE follows, user_activity;
"""


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from nodes(each)


async def rows_read(connection: Connection, query: Any, values: Any) -> int:
    """Run a query; return how many rows its scans of tables read, those thrown away included."""
    explained = await connection.execute(
        b"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) " + query.encode(), values
    )
    ((found,),) = await explained.fetchall()
    scans = [each for each in nodes(found[0]["Plan"]) if "Relation Name" in each]
    assert scans and not [each for each in scans if each["Node Type"] == "Seq Scan"], scans
    return sum(
        each["Actual Loops"]
        * (
            each["Actual Rows"]
            + each.get("Rows Removed by Filter", 0)
            + each.get("Rows Removed by Join Filter", 0)
        )
        for each in scans
    )


@pytest.fixture
async def connection(postgres: Postgres) -> AsyncIterator[Connection]:
    async with postgres.connection() as connection:
        yield connection


async def test_a_follower_page_touches_only_its_page(connection: Connection) -> None:
    for statement in EDGES.split(";")[:-1]:
        await connection.execute(statement.encode(), {"author": AUTHOR})
    week = {"inactive_after_s": 30 * 86400, "limit": PAGE}
    for after in (0, 500_000, 999_000):
        page = {"author": AUTHOR, "after": after, "until": 2**62, **week}
        read = await rows_read(connection, followers._PAGE, page)
        in_page = min(PAGE, (1_000_000 - after) // 2)
        assert read == 2 * in_page, "each edge once, and when its follower was here"
    read = await rows_read(
        connection, followers._FIRST_PAGES, [30 * 86400, [AUTHOR, 3_000_002], PAGE]
    )
    assert read == 2 * (PAGE + 1_000)


# Every author writes as much as the others; one writes all of the newest thousand.
POSTS = """
ALTER TABLE posts DROP CONSTRAINT posts_author_id_fkey;
DROP INDEX posts_by_author;
INSERT INTO posts
  (id, author_id, body, format, created_at, received_at, effective_ms, delivery)
SELECT n, CASE WHEN n <= 199000 THEN 1 + n %% 2000 ELSE 7 END, '', 'text', now(), now(), n, 'push'
  FROM generate_series(1, 200000) AS n;
CREATE INDEX posts_by_author ON posts (author_id, effective_ms DESC, id DESC)
 WHERE deleted_at IS NULL;
ANALYZE posts;
"""


async def test_below_the_floor_two_thousand_followees_cost_a_bounded_number_of_rows(
    connection: Connection,
) -> None:
    for statement in POSTS.split(";")[:-1]:
        await connection.execute(statement.encode(), ())
    for n in (26, 501):
        for below in (300_000, 199_000, 100_000):
            gap = {
                "authors": list(range(1, 2_001)),
                "ms": [below] * 2_000,
                "ids": [MAX_ID] * 2_000,
                "down_to_ms": -1,
                "down_to_id": 0,
                "n": n,
                "first": ceil(2 * n / 2_000),
            }
            read = await rows_read(connection, timelines._NEWEST, gap)
            # A scan tells its rows as a mean of its loops with two decimals.
            assert read <= 2_000 + 3 * n, "one of each author, and little more than is asked for"


# Twenty viewers with a thousand events a day for ten days, one in four no impression.
ENGAGEMENTS = """
ALTER TABLE posts DROP CONSTRAINT posts_author_id_fkey;
INSERT INTO posts
  (id, author_id, body, format, created_at, received_at, effective_ms, delivery)
SELECT n, 1, '', 'text', now(), now(), n, 'push' FROM generate_series(1, 100000) AS n;
INSERT INTO engagements (day, viewer_id, event_id, type, post_id, at)
SELECT (at AT TIME ZONE 'UTC')::date, n %% 20, gen_random_uuid(),
       CASE WHEN n / 20 %% 4 = 0 THEN 'click' ELSE 'impression' END, 1 + n / 20 %% 1000, at
  FROM generate_series(0, 199999) AS n, LATERAL (SELECT now() - n * interval '4.32 s' AS at) AS t;
ANALYZE posts, engagements;
"""


async def test_what_a_viewer_saw_is_read_from_the_log_in_a_bounded_number_of_rows(
    connection: Connection,
) -> None:
    """Of the last eight partitions, the viewer's own, and no more than are looked at."""
    for statement in ENGAGEMENTS.split(";")[:-1]:
        await connection.execute(statement.encode(), ())
    for kept in (20, 1_000):
        scan = seen.SCAN * kept
        values = {"viewer": 7, "kept": kept, "scan": scan, "memory_s": 7 * 86_400}
        read = await rows_read(connection, seen._LATEST, values)
        assert kept < read <= 8 * min(1_000, scan) + kept + 8


# Everybody engages; each author writes a hundred posts, each post is engaged with twice.
LIVELY = """
INSERT INTO users (id, name) SELECT n, 'u' || n FROM generate_series(1, 500) AS n;
INSERT INTO posts (id, author_id, body, format, created_at, received_at, effective_ms, delivery)
SELECT n, 1 + n % 500, 'hello', 'text', now(), now(),
       extract(epoch FROM now()) * 1000 - 3600000 - n * 10, 'push'
  FROM generate_series(1, 50000) AS n;
INSERT INTO post_stats (post_id, likes) SELECT n, 1 FROM generate_series(1, 50000) AS n;
INSERT INTO affinity (viewer_id, author_id, strength, at)
SELECT 1 + n % 500, 1 + n / 500, 1, now() FROM generate_series(0, 49999) AS n;
INSERT INTO follows (follower_id, followee_id)
SELECT 1 + n % 500, 1 + n / 500 FROM generate_series(0, 49999) AS n WHERE n % 500 <> n / 500;
INSERT INTO folded (day, fold, post_id, viewer_id, author_id, at, likes, engaged)
SELECT current_date, 1, 1 + n % 50000, 1 + n / 500 % 500, 1 + n % 500, now() - interval '2 h', 1, 1
  FROM generate_series(1, 100000) AS n;
VACUUM ANALYZE users, posts, post_stats, affinity, follows, folded;
"""


async def test_what_is_known_of_candidates_touches_rows_of_these_and_no_others(
    connection: Connection,
) -> None:
    """Of so many authors and posts, counted by the rows that scans of large tables read."""
    for statement in LIVELY.split(";")[:-1]:
        await connection.execute(statement.encode())
    read: dict[str, float] = {}

    async def explained(on: Connection, query: str, values: dict[str, Any]) -> list[Any]:
        rows = await on.execute(
            b"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) " + query.encode(), values
        )
        ((found,),) = await rows.fetchall()
        for each in nodes(found[0]["Plan"]):
            if "Relation Name" in each:
                name = each["Relation Name"].partition("_default")[0]
                assert each["Node Type"] != "Seq Scan" or name not in LARGE, each
                n = each["Actual Rows"] + each.get("Rows Removed by Filter", 0)
                read[name] = read.get(name, 0) + n * each["Actual Loops"]
        raise Explained

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments, "id_columns", explained)
        with pytest.raises(Explained):
            ids = np.arange(1, 121)
            now_ms = int(time.time() * 1000)
            await moments.load_moment(connection, 7, ids, now_ms=now_ms, half_life_s=1e6)
    assert read["posts"] <= 120 * 102 and read["post_stats"] <= 120 + 4
    assert read["folded"] <= 400 + 120 * 5
    assert read["affinity"] <= 120 * 2 + 100 and read["follows"] <= 120 + 2 * 100


LARGE = {"posts", "post_stats", "folded", "affinity", "follows"}


class Explained(Exception):
    """The query was explained instead of run."""
