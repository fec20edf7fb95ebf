"""Reads the logs that rankers are trained on: slates with what was done about them, in batches.

Called by `training.export` and `training.validate`; memory is that of one batch.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, LiteralString, NamedTuple

import numpy as np
from psycopg import sql

from feed.candidates import FORMATS
from feed.order import Ids
from storage.columns import id_columns
from storage.connections import Connection
from storage.slates import Matrix, Rows, unpacked

TYPES = (
    "impression",
    "click",
    "dwell",
    "like",
    "unlike",
    "comment",
    "share",
    "not_interested",
    "report",
)
TYPE_CODE = {name: code for code, name in enumerate(TYPES)}
"""Codes of what was done; a reply counts as a comment, a repost or quote as a share."""


@dataclass(frozen=True)
class Span:
    """What was served from `start` until before `end`; what came in later is not known."""

    start: datetime
    end: datetime

    @property
    def days(self) -> tuple[date, date]:
        """The days of the log, one more at each end since days differ by place."""
        return self.start.date() - timedelta(days=1), self.end.date() + timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Slate:
    """One logged slate with features: rows (n,), features (n, d); served up to row `served_to`."""

    viewer_id: int
    snapshot_id: str
    nonce: str
    now_ms: int
    ranker: str
    explored: bool
    schema_hash: str
    fold: int
    served_to: int
    rows: Rows
    features: Matrix


class Acts(NamedTuple):
    """What was done (a,): about which slate of a batch, which post, what, when, how known.

    `named`: 1 where the event names the slate's snapshot, 0 where it names none.
    """

    slate: Ids
    post: Ids
    type: Ids
    at_ms: Ids
    received_ms: Ids
    position: Ids
    dwell_ms: Ids
    named: Ids


# `skipped` slates were made without a stage that was away: they would teach what nobody wants.
_SLATES = """
SELECT s.viewer_id, s.snapshot_id, s.nonce, s.now_ms, s.ranker, s.explored, s.schema_hash, s.fold,
       coalesce(page.served_to, 0), s.rows, s.features
  FROM slates s
 CROSS JOIN LATERAL (
       SELECT max(position + cardinality(ids)) AS served_to FROM served
        WHERE snapshot_id = s.snapshot_id AND nonce = s.nonce AND viewer_id = s.viewer_id
          AND part = 'slate' AND day BETWEEN s.day AND s.day + 2) AS page
 WHERE s.day BETWEEN %(first_day)s AND %(last_day)s AND s.at >= %(start)s AND s.at < %(end)s
   AND s.features IS NOT NULL AND s.skipped = '{}'
 ORDER BY s.at, s.snapshot_id
"""


async def slates(connection: Connection, span: Span, *, batch: int) -> AsyncIterator[list[Slate]]:
    """Give the slates of a span whose features were logged, in order of time, in a transaction."""
    values = _values(span)
    async with connection.cursor(name="slates", binary=True) as cursor:
        cursor.itersize = batch
        await cursor.execute(_SLATES, values)
        while found := await cursor.fetchmany(batch):
            yield [_slate(*row) for row in found]


def _slate(*row: Any) -> Slate:
    viewer, snapshot, nonce, now_ms, ranker, explored, schema, fold, served_to, rows, features = row
    posts, matrix = unpacked(rows, features)
    return Slate(
        viewer_id=viewer,
        snapshot_id=snapshot,
        nonce=nonce,
        now_ms=now_ms,
        ranker=ranker,
        explored=explored,
        schema_hash=schema,
        fold=fold,
        served_to=served_to,
        rows=posts,
        features=matrix,
    )


# An event names its snapshot, or it is of the viewer and the post, after the slate was served.
_ACTS = """
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(%(viewers)b::bigint[], %(snapshots)s::text[], %(at_ms)b::bigint[])
      WITH ORDINALITY AS s (viewer_id, snapshot_id, at_ms, n)
), act AS (
    SELECT s.n - 1 AS n, e.post_id, array_position(%(types)s, e.type)::bigint - 1 AS type,
           floor(extract(epoch FROM e.at) * 1000)::bigint AS at_ms,
           floor(extract(epoch FROM e.received_at) * 1000)::bigint AS received_ms,
           coalesce(e.position, -1)::bigint AS position,
           coalesce(e.dwell_ms, 0)::bigint AS dwell_ms,
           (e.snapshot_id IS NOT NULL)::integer::bigint AS named
      FROM asked s
      JOIN engagements e ON e.viewer_id = s.viewer_id
                        AND (e.snapshot_id = s.snapshot_id OR e.snapshot_id IS NULL)
     WHERE e.day BETWEEN %(first_day)s AND %(last_day)s AND e.received_at < %(known)s
     UNION ALL
    SELECT s.n - 1, target.id, target.type, p.effective_ms,
           floor(extract(epoch FROM p.received_at) * 1000)::bigint, -1, 0, 0
      FROM asked s
      JOIN posts p ON p.author_id = s.viewer_id AND p.deleted_at IS NULL
                  AND p.effective_ms >= s.at_ms AND p.effective_ms < s.at_ms + %(window_ms)s
     CROSS JOIN LATERAL (VALUES (p.reply_to, %(comment)s), (p.repost_of, %(share)s))
        AS target (id, type)
     WHERE target.id IS NOT NULL AND p.received_at < %(known)s
)
SELECT array_agg(n), array_agg(post_id), array_agg(type), array_agg(at_ms), array_agg(received_ms),
       array_agg(position), array_agg(dwell_ms), array_agg(named)
  FROM act WHERE type IS NOT NULL
"""


async def acts(
    connection: Connection, batch: Sequence[Slate], *, known: datetime, window_ms: int
) -> Acts:
    """Return what the viewers of these slates did, as far as it was known by then."""
    at_ms = np.array([slate.now_ms for slate in batch], dtype=np.int64)
    values = {
        "viewers": np.array([slate.viewer_id for slate in batch], dtype=np.int64),
        "snapshots": [slate.snapshot_id for slate in batch],
        "at_ms": at_ms,
        "types": list(TYPES),
        "comment": TYPE_CODE["comment"],
        "share": TYPE_CODE["share"],
        "first_day": _day(int(at_ms.min())) - timedelta(days=1),
        "last_day": _day(int(at_ms.max()) + window_ms) + timedelta(days=1),
        "known": known,
        "window_ms": window_ms,
    }
    return Acts(*await id_columns(connection, _ACTS, values))


_POSTS = """
SELECT array_agg(id), array_agg(author_id), array_agg(format) FROM (
    SELECT id, author_id, array_position(%(formats)s, format)::bigint - 1 AS format
      FROM posts WHERE id = ANY(%(ids)b::bigint[]) ORDER BY id) AS post
"""


async def authors_and_formats(connection: Connection, ids: Ids) -> tuple[Ids, Ids, Ids]:
    """Return those of these posts that exist (k,), ascending, with their authors and formats."""
    values = {"ids": ids, "formats": list(FORMATS)}
    found, authors, formats = await id_columns(connection, _POSTS, values)
    return found, authors, formats


_COUNTS = """
SELECT count(*), count(*) FILTER (WHERE features IS NULL),
       count(*) FILTER (WHERE features IS NOT NULL AND skipped <> '{}')
  FROM slates
 WHERE day BETWEEN %(first_day)s AND %(last_day)s AND at >= %(start)s AND at < %(end)s
"""


async def count_slates(connection: Connection, span: Span) -> dict[str, int]:
    """Count the slates of a span, and those that teach nothing."""
    row = await (await connection.execute(_COUNTS, _values(span))).fetchone()
    assert row is not None  # an aggregate always gives one row
    names = ("slates", "slates_without_features", "slates_with_a_stage_skipped")
    return dict(zip(names, row, strict=True))


class Problem(NamedTuple):
    """What one check of the logs found: how many of how many, and a few of them."""

    n: int
    of: int
    examples: list[tuple[Any, ...]]


_SERVED = """
SELECT FROM served s WHERE s.snapshot_id = e.snapshot_id AND s.viewer_id = e.viewer_id
   AND s.day BETWEEN %(first_day)s AND %(last_day)s AND e.post_id = ANY(s.ids || s.shows)
"""
CHECKS: dict[str, tuple[LiteralString, LiteralString]] = {
    "orphan_engagements": ("type <> 'impression'", f"NOT EXISTS ({_SERVED})"),
    "never_served_ids": ("type = 'impression'", f"NOT EXISTS ({_SERVED})"),
    "clock_skew": (
        "true",
        """(at < received_at - interval '1 hour' OR EXISTS (
            SELECT FROM slates s
             WHERE s.snapshot_id = e.snapshot_id AND s.viewer_id = e.viewer_id
               AND s.day BETWEEN %(first_day)s AND %(last_day)s
               AND s.at > e.at + interval '1 minute'))""",
    ),
    "misplaced_impressions": (
        "type = 'impression' AND position IS NOT NULL",
        f"""EXISTS ({_SERVED}) AND NOT EXISTS ({_SERVED} AND e.post_id IN (
            s.ids[e.position - s.position + 1], s.shows[e.position - s.position + 1]))""",
    ),
}
"""Of which events that name a snapshot, and which of those are wrong."""

_EVENTS = """FROM engagements e
 WHERE day BETWEEN %(first_day)s AND %(last_day)s AND snapshot_id IS NOT NULL
   AND received_at >= %(start)s AND received_at < %(end)s AND {asked}"""
_COUNT = sql.SQL("SELECT count(*), count(*) FILTER (WHERE {wrong}) " + _EVENTS)
_SOME = sql.SQL(
    "SELECT viewer_id, post_id, type, snapshot_id, position, at::text "
    + _EVENTS
    + " AND {wrong} ORDER BY at, event_id LIMIT %(examples)s"
)
EXAMPLES = 10


async def check(connection: Connection, name: str, span: Span) -> Problem:
    """Count the events of a span that a check finds wrong, with ten of them."""
    asked, wrong = map(sql.SQL, CHECKS[name])
    values = {**_values(span), "examples": EXAMPLES}
    counted = await connection.execute(_COUNT.format(asked=asked, wrong=wrong), values)
    row = await counted.fetchone()
    assert row is not None  # an aggregate always gives one row
    some = await connection.execute(_SOME.format(asked=asked, wrong=wrong), values)
    return Problem(row[1], row[0], await some.fetchall() if row[1] else [])


_TWICE = """
SELECT viewer_id, snapshot_id, post_id, position, count(*) FROM engagements
 WHERE day BETWEEN %(first_day)s AND %(last_day)s AND received_at >= %(start)s
   AND received_at < %(end)s AND type = 'impression' AND snapshot_id IS NOT NULL
 GROUP BY 1, 2, 3, 4 HAVING count(*) > 1
"""


async def duplicate_impressions(connection: Connection, span: Span) -> Problem:
    """Return rows of snapshots that are noted as on the screen more than once."""
    found = await (await connection.execute(_TWICE, _values(span))).fetchall()
    return Problem(len(found), len(found), found[:EXAMPLES])


def _values(span: Span) -> dict[str, Any]:
    first_day, last_day = span.days
    return {"first_day": first_day, "last_day": last_day, "start": span.start, "end": span.end}


def _day(ms: int) -> date:
    return datetime.fromtimestamp(ms / 1000, UTC).date()
