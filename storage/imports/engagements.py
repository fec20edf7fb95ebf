"""Imports engagements: the log, the likes as they stand, hidden posts, counters and affinity."""

import json
from dataclasses import asdict
from typing import Any

from storage import engagements
from storage.connections import Connection
from storage.imports import effects
from storage.imports.fields import Field, read_dwell, read_id, read_time, read_type, read_uuid
from storage.imports.kinds import Chunk, Step, Terms

# A row without an event id gets one from its content, so that it has the same one next time.
# From the time as the file has it: a shift must not change the id.
_CREATE = """
CREATE TEMP TABLE raw_engagements (
    line bigint, viewer_id bigint, post_id bigint, type text, at_ms bigint, dwell_ms integer,
    given_id uuid);
CREATE TEMP TABLE staged_engagements (
    place bigint, line bigint, viewer_id bigint, post_id bigint, type text, at_ms bigint,
    dwell_ms integer, given_id uuid,
    event_id uuid GENERATED ALWAYS AS (coalesce(given_id, md5(
        viewer_id::text || ' ' || post_id::text || ' ' || type || ' ' || at_ms::text)::uuid))
    STORED)
"""

_TWICE = """
WITH first AS (
    SELECT DISTINCT ON (viewer_id, event_id) * FROM staged_engagements
     ORDER BY viewer_id, event_id, line),
gone AS (
    DELETE FROM staged_engagements s USING first
     WHERE first.viewer_id = s.viewer_id AND first.event_id = s.event_id AND first.line < s.line
    RETURNING s.line, s.event_id, first.line AS first_line,
        (s.post_id, s.type, s.at_ms, s.dwell_ms)
        IS DISTINCT FROM (first.post_id, first.type, first.at_ms, first.dwell_ms) AS differs)
INSERT INTO refused
SELECT line, 'conflict', format('event %%s is different on line %%s', event_id, first_line)
  FROM gone WHERE differs
"""

_FUTURE = """
WITH gone AS (
    DELETE FROM staged_engagements
     WHERE at_ms + %(shift_ms)s > %(now_ms)s + %(future_clamp_ms)s RETURNING line)
INSERT INTO refused SELECT line, 'future_time', 'at is in the future' FROM gone
"""

_UNKNOWN_VIEWER = """
WITH gone AS (
    DELETE FROM staged_engagements s
     WHERE NOT EXISTS (SELECT FROM users WHERE id = s.viewer_id AND deleted_at IS NULL)
    RETURNING line, viewer_id)
INSERT INTO refused
SELECT line, 'unknown_user', format('viewer_id: there is no user %%s', viewer_id) FROM gone
"""

_UNKNOWN_POST = """
WITH gone AS (
    DELETE FROM staged_engagements s WHERE NOT EXISTS (SELECT FROM posts WHERE id = s.post_id)
    RETURNING line, post_id)
INSERT INTO refused
SELECT line, 'unknown_post', format('post_id: there is no post %%s', post_id) FROM gone
"""

_CONFLICT = """
WITH gone AS (
    DELETE FROM staged_engagements s USING engagements e
     WHERE e.day = (to_timestamp((s.at_ms + %(shift_ms)s) / 1000.0) AT TIME ZONE 'UTC')::date
       AND e.viewer_id = s.viewer_id AND e.event_id = s.event_id
       AND (e.post_id, e.type) <> (s.post_id, s.type)
    RETURNING s.line, s.event_id)
INSERT INTO refused
SELECT line, 'conflict', format('event %%s is already there with different content', event_id)
  FROM gone
"""

_LOG = """
WITH timed AS (
    SELECT *, to_timestamp((at_ms + %(shift_ms)s) / 1000.0) AS at FROM staged_engagements
     WHERE place BETWEEN %(first)s AND %(last)s),
added AS (
    INSERT INTO engagements (day, viewer_id, event_id, type, post_id, at, dwell_ms, received_at)
    SELECT (at AT TIME ZONE 'UTC')::date, viewer_id, event_id, type, post_id, at, dwell_ms,
           to_timestamp(%(now_ms)s / 1000.0)
      FROM timed ORDER BY viewer_id, event_id
        ON CONFLICT DO NOTHING
    RETURNING viewer_id, post_id, type, at, event_id, dwell_ms)
INSERT INTO logged SELECT * FROM added
"""

_OWE = """
INSERT INTO effects (post_id, viewer_id, author_id, likes, comments, reposts, impressions, weight,
                     at, clicks, shares)
SELECT l.post_id, l.viewer_id, p.author_id, 0,
       (l.type = 'comment')::integer, 0, (l.type = 'impression')::integer,
       CASE WHEN l.type <> 'dwell' THEN coalesce((%(weights)s::jsonb ->> l.type)::float8, 0)
            WHEN l.dwell_ms >= %(long_dwell_ms)s THEN %(dwell_weight)s ELSE 0 END,
       l.at, (l.type = 'click')::integer, (l.type = 'share')::integer
  FROM logged l JOIN posts p ON p.id = l.post_id
 WHERE l.type NOT IN ('like', 'unlike')
"""

_HIDE = """
INSERT INTO hidden_posts (viewer_id, post_id, via, created_at)
SELECT DISTINCT ON (viewer_id, post_id) viewer_id, post_id, %(hides)s::jsonb ->> type, at
  FROM logged WHERE %(hides)s::jsonb ? type
 ORDER BY viewer_id, post_id, at
    ON CONFLICT DO NOTHING
"""

# What counts is how the state changed: a second like adds nothing. First the likes that are new,
# then, under a lock that shows how they were, those that were there and are older.
_LIKE = """
WITH last AS (
    SELECT DISTINCT ON (viewer_id, post_id)
           viewer_id, post_id, type = 'like' AS active, at, event_id
      FROM logged WHERE type IN ('like', 'unlike')
     ORDER BY viewer_id, post_id, at DESC, event_id DESC),
added AS (
    INSERT INTO reactions (viewer_id, post_id, kind, active, at, event_id)
    SELECT viewer_id, post_id, 'like', active, at, event_id FROM last ORDER BY viewer_id, post_id
        ON CONFLICT DO NOTHING
    RETURNING viewer_id, post_id, active, at)
INSERT INTO effects
SELECT a.post_id, a.viewer_id, p.author_id, 1, 0, 0, 0, %(like_weight)s, a.at
  FROM added a JOIN posts p ON p.id = a.post_id WHERE a.active
"""

_LIKE_AGAIN = """
WITH last AS (
    SELECT DISTINCT ON (viewer_id, post_id)
           viewer_id, post_id, type = 'like' AS active, at, event_id
      FROM logged WHERE type IN ('like', 'unlike')
     ORDER BY viewer_id, post_id, at DESC, event_id DESC),
old AS MATERIALIZED (
    SELECT r.viewer_id, r.post_id, r.active, r.at, r.event_id
      FROM reactions r JOIN last USING (viewer_id, post_id)
     WHERE r.kind = 'like' ORDER BY r.viewer_id, r.post_id FOR UPDATE OF r),
changed AS (
    UPDATE reactions r SET active = last.active, at = last.at, event_id = last.event_id
      FROM last JOIN old USING (viewer_id, post_id)
     WHERE r.viewer_id = last.viewer_id AND r.post_id = last.post_id AND r.kind = 'like'
       AND (old.at, old.event_id) < (last.at, last.event_id)
    RETURNING r.viewer_id, r.post_id, last.active::integer - old.active::integer AS change, r.at)
INSERT INTO effects
SELECT c.post_id, c.viewer_id, p.author_id, c.change, 0, 0, 0, c.change * %(like_weight)s, c.at
  FROM changed c JOIN posts p ON p.id = c.post_id WHERE c.change <> 0
"""


# The locks that `storage.engagements.record` takes, in the same order: whoever reads how a like
# stands and then changes it must be alone with its viewer. Hence small chunks, by viewer.
_LOCK = """
SELECT pg_advisory_xact_lock(%(lock_class)s, bucket)
  FROM (SELECT DISTINCT (viewer_id %% %(locks)s)::integer AS bucket FROM staged_engagements
         WHERE place BETWEEN %(first)s AND %(last)s
         ORDER BY 1) AS buckets
"""

_RULES: dict[str, Any] = {
    "lock_class": engagements.LOCK_CLASS,
    "locks": engagements.LOCKS,
    "weights": json.dumps(engagements.WEIGHT),
    "dwell_weight": engagements.DWELL_WEIGHT,
    "long_dwell_ms": engagements.LONG_DWELL_MS,
    "like_weight": engagements.LIKE_WEIGHT,
    "hides": json.dumps(engagements.HIDES),
}


async def _write(connection: Connection, chunk: Chunk, terms: Terms) -> int:
    """Write one chunk, with what it means for likes, counters, affinity and hidden posts."""
    values = {**asdict(terms), **asdict(chunk), **_RULES}
    await connection.execute(_LOCK, values)
    logged = await connection.execute(_LOG, values)
    for statement in (_OWE, _HIDE, _LIKE, _LIKE_AGAIN):
        await connection.execute(statement, _RULES)
    await effects.apply(connection, half_life_s=terms.half_life_s)
    await connection.execute("TRUNCATE logged")
    return logged.rowcount


ENGAGEMENTS = Step(
    kind="engagements",
    fields=(
        Field("viewer_id", read_id),
        Field("post_id", read_id),
        Field("type", read_type),
        Field("at", read_time),
        Field("dwell_ms", read_dwell, required=False),
        Field("event_id", read_uuid, required=False),
    ),
    create=_CREATE,
    copy="COPY raw_engagements FROM STDIN",
    prepare="""
    INSERT INTO staged_engagements
    SELECT row_number() OVER (ORDER BY viewer_id, at_ms, line), * FROM raw_engagements;
    TRUNCATE raw_engagements;
    CREATE INDEX ON staged_engagements USING brin (place);
    ANALYZE staged_engagements""",
    checks=(_TWICE, _FUTURE, _UNKNOWN_VIEWER, _UNKNOWN_POST, _CONFLICT),
    write=_write,
    chunk_rows=20_000,
)
