"""Imports posts. Reposts point at their root, wherever on the way to it the file points."""

from dataclasses import asdict

from storage.connections import Connection
from storage.imports import effects
from storage.imports.fields import (
    Field,
    read_body,
    read_format,
    read_id,
    read_lang,
    read_media,
    read_time,
)
from storage.imports.kinds import Chunk, Step, Terms
from storage.posts import REPLY_WEIGHT, REPOST_WEIGHT

_TWICE = """
WITH first AS (
    SELECT DISTINCT ON (id) * FROM staged_posts ORDER BY id, line),
gone AS (
    DELETE FROM staged_posts s USING first
     WHERE first.id = s.id AND first.line < s.line
    RETURNING s.line, s.id, first.line AS first_line,
        (s.author_id, s.created_ms, s.body, s.format, s.media, s.lang, s.repost_of, s.reply_to)
        IS DISTINCT FROM
        (first.author_id, first.created_ms, first.body, first.format, first.media, first.lang,
         first.repost_of, first.reply_to) AS differs)
INSERT INTO refused
SELECT line, 'conflict', format('post %%s is different on line %%s', id, first_line)
  FROM gone WHERE differs
"""

_FUTURE = """
WITH gone AS (
    DELETE FROM staged_posts
     WHERE created_ms + %(shift_ms)s > %(now_ms)s + %(future_clamp_ms)s RETURNING line)
INSERT INTO refused SELECT line, 'future_time', 'created_at is in the future' FROM gone
"""

_EMPTY = """
WITH gone AS (
    DELETE FROM staged_posts
     WHERE body = '' AND media = '[]' AND repost_of IS NULL RETURNING line)
INSERT INTO refused
SELECT line, 'empty_body', 'only a repost or a post with media may have no body' FROM gone
"""

_UNKNOWN_AUTHOR = """
WITH gone AS (
    DELETE FROM staged_posts s
     WHERE NOT EXISTS (SELECT FROM users WHERE id = s.author_id AND deleted_at IS NULL)
    RETURNING line, author_id)
INSERT INTO refused
SELECT line, 'unknown_user', format('author_id: there is no user %%s', author_id) FROM gone
"""

# Each repost with every post on its way to the root, through plain reposts: a quote has words of
# its own and is a root. UNION ends it in a circle too. What is stored wins over what the file says
# of the same post.
_TO_ROOT = """
WITH RECURSIVE way (id, at) AS (
    SELECT id, repost_of FROM staged_posts WHERE repost_of IS NOT NULL
    UNION
    SELECT way.id, CASE WHEN p.id IS NULL THEN s.repost_of ELSE p.repost_of END
      FROM way LEFT JOIN posts p ON p.id = way.at LEFT JOIN staged_posts s ON s.id = way.at
     WHERE CASE WHEN p.id IS NULL THEN s.repost_of ELSE p.repost_of END IS NOT NULL
       AND coalesce(p.body, s.body) = '' AND coalesce(p.media, s.media) = '[]'),
rooted AS (
    SELECT way.id, way.at AS root
      FROM way LEFT JOIN posts p ON p.id = way.at LEFT JOIN staged_posts s ON s.id = way.at
     WHERE CASE WHEN p.id IS NULL THEN s.repost_of ELSE p.repost_of END IS NULL
        OR coalesce(p.body, s.body) <> '' OR coalesce(p.media, s.media) <> '[]')
UPDATE staged_posts s SET root = rooted.root FROM rooted WHERE rooted.id = s.id
"""

_CIRCLE = """
WITH gone AS (
    DELETE FROM staged_posts WHERE repost_of IS NOT NULL AND root IS NULL OR reply_to = id
    RETURNING line)
INSERT INTO refused SELECT line, 'bad_parent', 'leads back to itself' FROM gone
"""

# An edit since the first import is no conflict, nor is a deletion.
_CONFLICT = """
WITH gone AS (
    DELETE FROM staged_posts s USING posts p
     WHERE p.id = s.id
       AND ((p.author_id, p.created_at, p.repost_of, p.reply_to)
            IS DISTINCT FROM
            (s.author_id, to_timestamp((s.created_ms + %(shift_ms)s) / 1000.0), s.root, s.reply_to)
         OR p.edited_at IS NULL AND (p.body, p.media, p.format, p.lang)
            IS DISTINCT FROM (s.body, s.media, s.format, s.lang))
    RETURNING s.line, s.id)
INSERT INTO refused
SELECT line, 'conflict', format('post %%s is already there with different content', id) FROM gone
"""

# What answers or reposts a refused post is refused with it.
_UNKNOWN_PARENT = """
WITH RECURSIVE parents AS (
    SELECT id, root AS parent FROM staged_posts WHERE root IS NOT NULL
    UNION ALL
    SELECT id, reply_to FROM staged_posts WHERE reply_to IS NOT NULL),
lost (id, parent) AS (
    SELECT id, parent FROM parents
     WHERE NOT EXISTS (SELECT FROM staged_posts WHERE id = parent)
       AND NOT EXISTS (SELECT FROM posts WHERE id = parent)
    UNION
    SELECT parents.id, parents.parent FROM lost JOIN parents ON parents.parent = lost.id),
gone AS (
    DELETE FROM staged_posts s USING (
        SELECT id, min(parent) AS parent FROM lost GROUP BY id) AS l
     WHERE l.id = s.id RETURNING s.line, l.parent)
INSERT INTO refused
SELECT line, 'unknown_post', format('there is no post %%s to repost or reply to', parent) FROM gone
"""

# A switch from pull back to push waits for posts in flight, as it does for the api's.
_LOCK_DELIVERY = """
SELECT FROM author_delivery
 WHERE author_id IN (
     SELECT author_id FROM staged_posts WHERE place BETWEEN %(first)s AND %(last)s)
 ORDER BY author_id FOR SHARE
"""

_WRITE = """
WITH added AS (
    INSERT INTO posts (id, author_id, body, media, format, lang, repost_of, reply_to,
                       created_at, received_at, effective_ms, delivery)
    SELECT s.id, s.author_id, s.body, s.media, s.format, s.lang, s.root, s.reply_to,
           to_timestamp((s.created_ms + %(shift_ms)s) / 1000.0),
           to_timestamp(%(now_ms)s / 1000.0),
           least(s.created_ms + %(shift_ms)s, %(now_ms)s),
           CASE WHEN d.writers_pull OR (SELECT state = 'pull' FROM delivery_state)
                THEN 'pull' ELSE 'push' END
      FROM staged_posts s LEFT JOIN author_delivery d USING (author_id)
     WHERE s.place BETWEEN %(first)s AND %(last)s
     ORDER BY s.id
        ON CONFLICT DO NOTHING
    RETURNING id, author_id, repost_of, reply_to, effective_ms),
answers AS (
    SELECT reply_to AS parent, author_id, effective_ms, 1 AS comments, 0 AS reposts
      FROM added WHERE reply_to IS NOT NULL
    UNION ALL
    SELECT repost_of, author_id, effective_ms, 0, 1 FROM added WHERE repost_of IS NOT NULL),
written AS (
    INSERT INTO effects (post_id, viewer_id, author_id, likes, comments, reposts, impressions,
                         weight, at, posts)
    SELECT id, author_id, author_id, 0, 0, 0, 0, 0, to_timestamp(effective_ms / 1000.0), 1
      FROM added),
owed AS (
    INSERT INTO effects
    SELECT a.parent, a.author_id, coalesce(p.author_id, s.author_id), 0, a.comments, a.reposts, 0,
           a.comments * %(reply)s + a.reposts * %(repost)s,
           to_timestamp(a.effective_ms / 1000.0)
      FROM answers a
      LEFT JOIN posts p ON p.id = a.parent
      LEFT JOIN staged_posts s ON s.id = a.parent)
SELECT count(*) FROM added
"""


async def _write(connection: Connection, chunk: Chunk, terms: Terms) -> int:
    """Write one chunk, with what reposts and replies mean for their parents."""
    values = {
        **asdict(terms), **asdict(chunk), "reply": REPLY_WEIGHT, "repost": REPOST_WEIGHT,
    }  # fmt: skip
    await connection.execute(_LOCK_DELIVERY, values)
    result = await connection.execute(_WRITE, values)
    row = await result.fetchone()
    assert row is not None  # an aggregate always gives one row
    await effects.apply(connection, half_life_s=terms.half_life_s)
    return int(row[0])


POSTS = Step(
    kind="posts",
    fields=(
        Field("id", read_id),
        Field("author_id", read_id),
        Field("created_at", read_time),
        Field("body", read_body, required=False, default=""),
        Field("format", read_format, required=False, default="text"),
        Field("media", read_media, required=False, default="[]"),
        Field("lang", read_lang, required=False),
        Field("repost_of", read_id, required=False),
        Field("reply_to", read_id, required=False),
    ),
    create="""
    CREATE TEMP TABLE staged_posts
        (place bigint GENERATED ALWAYS AS IDENTITY, line bigint, id bigint, author_id bigint,
         created_ms bigint, body text, format text, media jsonb, lang text, repost_of bigint,
         reply_to bigint, root bigint)""",
    copy="""
    COPY staged_posts
        (line, id, author_id, created_ms, body, format, media, lang, repost_of, reply_to)
    FROM STDIN""",
    prepare="""
    CREATE INDEX ON staged_posts USING brin (place);
    CREATE INDEX ON staged_posts (id);
    ANALYZE staged_posts""",
    checks=(
        _TWICE,
        _FUTURE,
        _EMPTY,
        _UNKNOWN_AUTHOR,
        _TO_ROOT,
        _CIRCLE,
        _CONFLICT,
        _UNKNOWN_PARENT,
    ),
    write=_write,
)
