"""Statistics of authors and viewers, and the number of the fold that brought them up to date.

Kept by the aggregator and by imports; features of the heavy ranker are read from them.
"""

from psycopg import sql

from storage.connections import Connection

_NEXT = """
UPDATE folds SET number = number + 1
 WHERE EXISTS (SELECT FROM engagement_deltas) OR EXISTS (SELECT FROM follower_deltas)
RETURNING number
"""


async def next_fold(connection: Connection) -> int | None:
    """Return the number of a fold that begins now, until whose end no other begins; None: no need.

    A reader sees the number together with what is folded under it, and neither before.
    """
    row = await (await connection.execute(_NEXT)).fetchone()
    return None if row is None else int(row[0])


# Sorted, so that two batches cannot deadlock.
_AUTHORS = sql.SQL("""
INSERT INTO author_stats AS s (author_id, posts, engaged, first_ms)
SELECT author_id, sum(posts), sum(engaged),
       min(floor(extract(epoch FROM at) * 1000)::bigint) FILTER (WHERE posts > 0)
  FROM {rows} AS row
 WHERE author_id <> 0 AND (posts <> 0 OR engaged <> 0)
 GROUP BY author_id ORDER BY author_id
    ON CONFLICT (author_id) DO UPDATE
   SET posts = s.posts + excluded.posts, engaged = s.engaged + excluded.engaged,
       first_ms = least(s.first_ms, excluded.first_ms)
""")
_VIEWERS = sql.SQL("""
INSERT INTO viewer_stats AS s (viewer_id, text, image, video, link)
SELECT row.viewer_id, coalesce(sum(engaged) FILTER (WHERE format = 'text'), 0),
       coalesce(sum(engaged) FILTER (WHERE format = 'image'), 0),
       coalesce(sum(engaged) FILTER (WHERE format = 'video'), 0),
       coalesce(sum(engaged) FILTER (WHERE format = 'link'), 0)
  FROM {rows} AS row JOIN posts p ON p.id = row.post_id
 WHERE row.viewer_id <> 0 AND row.viewer_id <> row.author_id AND engaged <> 0
 GROUP BY row.viewer_id ORDER BY row.viewer_id
    ON CONFLICT (viewer_id) DO UPDATE
   SET text = s.text + excluded.text, image = s.image + excluded.image,
       video = s.video + excluded.video, link = s.link + excluded.link
""")


async def count_people(connection: Connection, rows: sql.Composable) -> None:
    """Add deltas, rows shaped like those of `folded`, to the statistics of authors and viewers."""
    for statement in (_AUTHORS, _VIEWERS):
        await connection.execute(statement.format(rows=rows))
