"""Imports follow edges, and raises the follower counts of those who are followed."""

from dataclasses import asdict

from storage import outbox_events
from storage.connections import Connection
from storage.imports.fields import Field, read_id, read_time
from storage.imports.kinds import Chunk, Step, Terms

_SELF = """
WITH gone AS (
    DELETE FROM staged_follows WHERE follower_id = followee_id RETURNING line, follower_id)
INSERT INTO refused
SELECT line, 'self_follow', format('user %%s cannot follow itself', follower_id) FROM gone
"""

_FUTURE = """
WITH gone AS (
    DELETE FROM staged_follows
     WHERE created_ms + %(shift_ms)s > %(now_ms)s + %(future_clamp_ms)s RETURNING line)
INSERT INTO refused SELECT line, 'future_time', 'created_at is in the future' FROM gone
"""

_UNKNOWN_FOLLOWER = """
WITH gone AS (
    DELETE FROM staged_follows s
     WHERE NOT EXISTS (SELECT FROM users WHERE id = s.follower_id AND deleted_at IS NULL)
    RETURNING line, follower_id)
INSERT INTO refused
SELECT line, 'unknown_user', format('follower_id: there is no user %%s', follower_id) FROM gone
"""

_UNKNOWN_FOLLOWEE = """
WITH gone AS (
    DELETE FROM staged_follows s
     WHERE NOT EXISTS (SELECT FROM users WHERE id = s.followee_id AND deleted_at IS NULL)
    RETURNING line, followee_id)
INSERT INTO refused
SELECT line, 'unknown_user', format('followee_id: there is no user %%s', followee_id) FROM gone
"""

# Rows come by followee, so that each count is raised once, and go in by follower, so that the
# primary key is swept and not jumped about in; everything in the order of ids, so that two who
# write the same rows cannot deadlock.
_WRITE = """
WITH added AS (
    INSERT INTO follows (follower_id, followee_id, created_at)
    SELECT follower_id, followee_id,
           to_timestamp(coalesce(created_ms + %(shift_ms)s, %(now_ms)s) / 1000.0)
      FROM staged_follows WHERE place BETWEEN %(first)s AND %(last)s
     ORDER BY follower_id, followee_id, line
        ON CONFLICT DO NOTHING
    RETURNING followee_id),
counted AS (
    SELECT followee_id, count(*)::integer AS n FROM added GROUP BY followee_id),
locked AS MATERIALIZED (
    SELECT u.id FROM users u WHERE u.id IN (SELECT followee_id FROM counted)
     ORDER BY u.id FOR NO KEY UPDATE),
raised AS (
    UPDATE users u SET follower_count = u.follower_count + counted.n
      FROM counted JOIN locked ON locked.id = counted.followee_id
     WHERE u.id = counted.followee_id
    RETURNING u.id, u.follower_count, counted.n)
SELECT coalesce(sum(n), 0)::bigint,
       array_agg(id ORDER BY id) FILTER (
           WHERE follower_count >= %(pull_from_followers)s
             AND follower_count - n < %(pull_from_followers)s)
  FROM raised
"""


async def _write(connection: Connection, chunk: Chunk, terms: Terms) -> int:
    """Write one chunk; authors who now have too many followers to push to are announced."""
    result = await connection.execute(_WRITE, {**asdict(terms), **asdict(chunk)})
    row = await result.fetchone()
    assert row is not None  # an aggregate always gives one row
    added, crossed = row
    await _announce(connection, crossed or [])
    return int(added)


async def _announce(connection: Connection, authors: list[int]) -> None:
    events = [
        outbox_events.Event("follower_count", author, "author.crossed", {"author_id": author})
        for author in authors
    ]
    if events:
        await outbox_events.append_many(connection, events)


FOLLOWS = Step(
    kind="follows",
    fields=(
        Field("follower_id", read_id),
        Field("followee_id", read_id),
        Field("created_at", read_time, required=False),
    ),
    create="""
    CREATE TEMP TABLE raw_follows
        (line bigint, follower_id bigint, followee_id bigint, created_ms bigint);
    CREATE TEMP TABLE staged_follows
        (place bigint, line bigint, follower_id bigint, followee_id bigint, created_ms bigint)""",
    copy="COPY raw_follows FROM STDIN",
    prepare="""
    INSERT INTO staged_follows
    SELECT row_number() OVER (ORDER BY followee_id, follower_id), * FROM raw_follows;
    TRUNCATE raw_follows;
    CREATE INDEX ON staged_follows USING brin (place);
    ANALYZE staged_follows""",
    checks=(_SELF, _FUTURE, _UNKNOWN_FOLLOWER, _UNKNOWN_FOLLOWEE),
    write=_write,
    chunk_rows=500_000,
)
