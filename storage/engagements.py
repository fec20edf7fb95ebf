"""What viewers did: an append-only log, the current reactions, and deltas owed to the counters.

`record` is strictly idempotent by (viewer, event id); `fold` is the aggregator's step, which pays
deltas into counters and affinity in one statement.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from psycopg import sql

from storage.connections import Connection
from storage.statistics import count_people, next_fold
from storage.targets import Target, targets_of

Outcome = Literal["accepted", "duplicate", "unknown_post"]

AT_WINDOW = timedelta(hours=24)
MICROSECOND = timedelta(microseconds=1)
LONG_DWELL_MS = 5_000
LOCKS = 256  # a batch of many viewers takes at most so many locks; Postgres has a few thousand
LIKE_WEIGHT = 1.0
# What one event adds to the viewer's strength for the author; likes count by state, not by event.
WEIGHT = {"click": 0.5, "comment": 3.0, "share": 3.0, "not_interested": -2.0, "report": -2.0}
DWELL_WEIGHT = 0.3
# A block stops these; what a viewer saw, or complains of, is taken all the same.
SOCIAL = frozenset({"like", "comment", "share"})
HIDES = {"not_interested": "not_interested", "report": "hide"}


EventKey = tuple[int, UUID] | tuple[int, str, int, int | None]


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that a viewer did, as the client reports it."""

    viewer_id: int
    event_id: UUID
    type: str
    post_id: int
    at: datetime
    snapshot_id: str | None = None
    position: int | None = None
    dwell_ms: int | None = None

    @property
    def keys(self) -> tuple["EventKey", ...]:
        """What makes this event the same as another that has any of these.

        A row of a snapshot is on the screen once, however often that is reported.
        """
        event = (self.viewer_id, self.event_id)
        if self.type != "impression" or self.snapshot_id is None:
            return (event,)
        return event, (self.viewer_id, self.snapshot_id, self.post_id, self.position)


@dataclass(frozen=True, kw_only=True)
class Delta:
    """What is owed to one post's counters and to one affinity."""

    post_id: int
    viewer_id: int
    author_id: int
    likes: int = 0
    comments: int = 0
    clicks: int = 0
    shares: int = 0
    impressions: int = 0
    weight: float = 0.0
    at: datetime


State = tuple[bool, datetime, UUID]
"""A reaction: active, and the (at, event id) that decided it."""
Reactions = dict[tuple[int, int], State]
"""By (viewer, post)."""


async def record(connection: Connection, events: Sequence[Event], now: datetime) -> list[Outcome]:
    """Record events in the caller's transaction; return what became of each, in order."""
    if not events:
        return []
    events = clamped(events, now)
    await _lock(connection, events)
    targets = await targets_of(connection, [(e.viewer_id, e.post_id) for e in events])
    outcomes = _judged(events, targets, await _known(connection, events, now))
    new = [e for e, outcome in zip(events, outcomes, strict=True) if outcome == "accepted"]
    if new:
        await _log(connection, new, now)
        await _hide(connection, new)
        changed = reacted(await _reactions(connection, new), new)
        await _keep_reactions(connection, changed)
        await _owe(connection, _deltas(new, changed, targets))
    return outcomes


def clamped(events: Sequence[Event], now: datetime) -> list[Event]:
    """Bring every `at` into [24 h ago, now]; what one clock ran ahead of keeps its order.

    A like and its undo, both from a clock that is fast, would else fall on one instant.
    """
    ahead = sorted((e.at, e.event_id) for e in events if e.at > now)
    back = {key: (len(ahead) - 1 - n) * MICROSECOND for n, key in enumerate(ahead)}
    oldest = now - AT_WINDOW
    return [
        replace(e, at=max(oldest, now - back[e.at, e.event_id] if e.at > now else e.at))
        for e in events
    ]


def _judged(
    events: Sequence[Event],
    targets: dict[tuple[int, int], Target],
    known: set[EventKey],
) -> list[Outcome]:
    seen = set(known)
    outcomes: list[Outcome] = []
    for event in events:
        target = targets.get((event.viewer_id, event.post_id))
        if not seen.isdisjoint(event.keys):
            outcomes.append("duplicate")
        elif target is None or (target.blocked and event.type in SOCIAL):
            outcomes.append("unknown_post")
        else:
            seen.update(event.keys)
            outcomes.append("accepted")
    return outcomes


def reacted(
    before: Reactions, events: Iterable[Event]
) -> dict[tuple[int, int], tuple[bool, State]]:
    """Apply likes and unlikes, the last writer by (at, event id) winning.

    Returns:
        For each (viewer, post) that has a new last writer: was it active, and its new state.
    """
    after: Reactions = {}
    for event in events:
        if event.type in ("like", "unlike"):
            pair = event.viewer_id, event.post_id
            state = (event.type == "like", event.at, event.event_id)
            last = after.get(pair) or before.get(pair)
            if last is None or state[1:] > last[1:]:
                after[pair] = state
    return {pair: (pair in before and before[pair][0], state) for pair, state in after.items()}


def _deltas(
    events: Sequence[Event],
    changed: dict[tuple[int, int], tuple[bool, State]],
    targets: dict[tuple[int, int], Target],
) -> list[Delta]:
    deltas = [_delta(event, targets[event.viewer_id, event.post_id]) for event in events]
    for pair, (was, (active, at, _)) in changed.items():
        if was != active:
            sign = 1 if active else -1
            target = targets[pair]
            weight = 0.0 if target.author_id == pair[0] else sign * LIKE_WEIGHT
            deltas.append(_blank(pair[0], target, at, likes=sign, weight=weight))
    return [
        d
        for d in deltas
        if d.likes or d.comments or d.clicks or d.shares or d.impressions or d.weight
    ]


def _delta(event: Event, target: Target) -> Delta:
    long_dwell = event.type == "dwell" and (event.dwell_ms or 0) >= LONG_DWELL_MS
    weight = DWELL_WEIGHT if long_dwell else WEIGHT.get(event.type, 0.0)
    return _blank(
        event.viewer_id,
        target,
        event.at,
        comments=int(event.type == "comment"),
        clicks=int(event.type == "click"),
        shares=int(event.type == "share"),
        impressions=int(event.type == "impression"),
        weight=0.0 if target.author_id == event.viewer_id else weight,
    )


def _blank(viewer_id: int, target: Target, at: datetime, **counts: Any) -> Delta:
    return Delta(
        post_id=target.post_id, viewer_id=viewer_id, author_id=target.author_id, at=at, **counts
    )


# Sorted, so that two batches cannot deadlock.
_LOCK = """
SELECT pg_advisory_xact_lock(%s, bucket)
  FROM (SELECT DISTINCT unnest(%s::int[]) AS bucket ORDER BY 1) AS buckets
"""
LOCK_CLASS = 0x656E67  # "eng"


async def _lock(connection: Connection, events: Sequence[Event]) -> None:
    await connection.execute(_LOCK, [LOCK_CLASS, [e.viewer_id % LOCKS for e in events]])


# The clamp moves `at` of a late retry to another day, hence three days, not one.
_KNOWN = """
SELECT e.viewer_id, e.event_id
  FROM engagements e
  JOIN unnest(%s::bigint[], %s::uuid[]) AS asked (viewer_id, event_id)
    ON e.viewer_id = asked.viewer_id AND e.event_id = asked.event_id
 WHERE e.day = ANY(%s)
"""


_ON_SCREEN = """
SELECT e.viewer_id, e.snapshot_id, e.post_id, e.position
  FROM engagements e
  JOIN (SELECT DISTINCT * FROM unnest(%s::bigint[], %s::bigint[])) AS asked (viewer_id, post_id)
    ON e.viewer_id = asked.viewer_id AND e.post_id = asked.post_id
 WHERE e.type = 'impression' AND e.snapshot_id = ANY(%s) AND e.day = ANY(%s)
"""


async def _known(connection: Connection, events: Sequence[Event], now: datetime) -> set[EventKey]:
    days = [now.astimezone(UTC).date() - timedelta(days=n) for n in range(4)]
    asked = [[e.viewer_id for e in events], [e.event_id for e in events], days]
    rows = await connection.execute(_KNOWN, asked)
    known: set[EventKey] = {(viewer_id, event_id) for viewer_id, event_id in await rows.fetchall()}
    if shown := [e for e in events if len(e.keys) > 1]:
        columns = [[e.viewer_id for e in shown], [e.post_id for e in shown]]
        snapshots = sorted({e.snapshot_id for e in shown if e.snapshot_id is not None})
        rows = await connection.execute(_ON_SCREEN, [*columns, snapshots, days])
        known.update((row[0], row[1], row[2], row[3]) for row in await rows.fetchall())
    return known


_LOG = """
INSERT INTO engagements (day, viewer_id, event_id, type, post_id, at, snapshot_id, position,
                         dwell_ms, received_at)
SELECT (at AT TIME ZONE 'UTC')::date, viewer_id, event_id, type, post_id, at, snapshot_id,
       position, dwell_ms, %s
  FROM unnest(%s::bigint[], %s::uuid[], %s::text[], %s::bigint[], %s::timestamptz[], %s::text[],
              %s::int[], %s::int[])
    AS e (viewer_id, event_id, type, post_id, at, snapshot_id, position, dwell_ms)
"""


async def _log(connection: Connection, events: Sequence[Event], now: datetime) -> None:
    columns = [
        [e.viewer_id for e in events],
        [e.event_id for e in events],
        [e.type for e in events],
        [e.post_id for e in events],
        [e.at for e in events],
        [e.snapshot_id for e in events],
        [e.position for e in events],
        [e.dwell_ms for e in events],
    ]
    await connection.execute(_LOG, [now, *columns])


_HIDE = """
INSERT INTO hidden_posts (viewer_id, post_id, via)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[]) ORDER BY 1, 2
ON CONFLICT DO NOTHING
"""


async def _hide(connection: Connection, events: Sequence[Event]) -> None:
    hiding = [e for e in events if e.type in HIDES]
    if hiding:
        viewers = [e.viewer_id for e in hiding]
        posts = [e.post_id for e in hiding]
        await connection.execute(_HIDE, [viewers, posts, [HIDES[e.type] for e in hiding]])


_REACTIONS = """
SELECT r.viewer_id, r.post_id, r.active, r.at, r.event_id
  FROM reactions r
  JOIN unnest(%s::bigint[], %s::bigint[]) AS asked (viewer_id, post_id)
    ON r.viewer_id = asked.viewer_id AND r.post_id = asked.post_id
 WHERE r.kind = 'like'
"""


async def _reactions(connection: Connection, events: Sequence[Event]) -> Reactions:
    asked = [e for e in events if e.type in ("like", "unlike")]
    if not asked:
        return {}
    columns = [[e.viewer_id for e in asked], [e.post_id for e in asked]]
    rows = await connection.execute(_REACTIONS, columns)
    return {(row[0], row[1]): (row[2], row[3], row[4]) for row in await rows.fetchall()}


_KEEP = """
INSERT INTO reactions (viewer_id, post_id, kind, active, at, event_id)
SELECT viewer_id, post_id, 'like', active, at, event_id
  FROM unnest(%s::bigint[], %s::bigint[], %s::bool[], %s::timestamptz[], %s::uuid[])
    AS r (viewer_id, post_id, active, at, event_id)
 ORDER BY viewer_id, post_id
ON CONFLICT (viewer_id, post_id, kind) DO UPDATE
   SET active = excluded.active, at = excluded.at, event_id = excluded.event_id
"""


async def _keep_reactions(
    connection: Connection, changed: dict[tuple[int, int], tuple[bool, State]]
) -> None:
    if changed:
        states = [state for _, state in changed.values()]
        columns = [
            [viewer for viewer, _ in changed],
            [post for _, post in changed],
            [active for active, _, _ in states],
            [at for _, at, _ in states],
            [event_id for _, _, event_id in states],
        ]
        await connection.execute(_KEEP, columns)


_OWE = """
INSERT INTO engagement_deltas (post_id, viewer_id, author_id, likes, comments, clicks, shares,
                               impressions, weight, at)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::smallint[], %s::smallint[],
                     %s::smallint[], %s::smallint[], %s::smallint[], %s::real[],
                     %s::timestamptz[])
"""


async def _owe(connection: Connection, deltas: Sequence[Delta]) -> None:
    if deltas:
        columns = [
            [d.post_id for d in deltas],
            [d.viewer_id for d in deltas],
            [d.author_id for d in deltas],
            [d.likes for d in deltas],
            [d.comments for d in deltas],
            [d.clicks for d in deltas],
            [d.shares for d in deltas],
            [d.impressions for d in deltas],
            [d.weight for d in deltas],
            [d.at for d in deltas],
        ]
        await connection.execute(_OWE, columns)


FOLD_BATCH = 10_000

# A strength decays to the later of two times and adds up; 2^-100 stands for "nothing left", since
# Postgres raises on underflow. It may be negative here: the reader clamps, so that the order in
# which batches are folded does not matter.
_FOLD = """
WITH batch AS (
    DELETE FROM engagement_deltas WHERE id IN (
        SELECT id FROM engagement_deltas ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
    RETURNING *, likes + comments + reposts + clicks + shares AS engaged
), kept AS (
    INSERT INTO folded (day, fold, post_id, viewer_id, author_id, at, likes, comments, reposts,
                        clicks, shares, impressions, posts, engaged, weight)
    SELECT current_date, %(fold)s, post_id, viewer_id, author_id, at, likes, comments, reposts,
           clicks, shares, impressions, posts, engaged, weight
      FROM batch
), heated AS (
    SELECT *, likes + 3 * comments + 2 * reposts AS heat,
           extract(epoch FROM at)::float8 AS at_s,
           extract(epoch FROM max(at) OVER (PARTITION BY post_id))::float8 AS latest_s
      FROM batch
), counted AS (
    INSERT INTO post_stats AS s (post_id, likes, comments, reposts, clicks, shares, impressions,
                                 heat, heat_s)
    SELECT post_id, sum(likes), sum(comments), sum(reposts), sum(clicks), sum(shares),
           sum(impressions), sum(heat_at(heat, at_s, latest_s)), latest_s
      FROM heated GROUP BY post_id, latest_s
    HAVING count(*) FILTER (WHERE engaged <> 0 OR impressions <> 0) > 0
     ORDER BY post_id
    ON CONFLICT (post_id) DO UPDATE
       SET likes = s.likes + excluded.likes, comments = s.comments + excluded.comments,
           reposts = s.reposts + excluded.reposts, clicks = s.clicks + excluded.clicks,
           shares = s.shares + excluded.shares,
           impressions = s.impressions + excluded.impressions,
           heat = heat_at(s.heat, s.heat_s, greatest(s.heat_s, excluded.heat_s))
                + heat_at(excluded.heat, excluded.heat_s, greatest(s.heat_s, excluded.heat_s)),
           heat_s = greatest(s.heat_s, excluded.heat_s)
), latest AS (
    SELECT *, max(at) OVER (PARTITION BY viewer_id, author_id) AS latest_at
      FROM batch WHERE weight <> 0
), felt AS (
    INSERT INTO affinity AS a (viewer_id, author_id, strength, at, engaged, engaged_at)
    SELECT viewer_id, author_id,
           sum(weight * 2::float8 ^ -least(100, extract(epoch FROM
               latest_at - at)::float8 / %(half_life_s)s)),
           latest_at, sum(engaged), max(at) FILTER (WHERE engaged > 0)
      FROM latest GROUP BY viewer_id, author_id, latest_at ORDER BY viewer_id, author_id
    ON CONFLICT (viewer_id, author_id) DO UPDATE
       SET strength = a.strength * 2::float8 ^ -least(100, extract(epoch FROM
                          greatest(a.at, excluded.at) - a.at)::float8 / %(half_life_s)s)
                    + excluded.strength * 2::float8 ^ -least(100, extract(epoch FROM
                          greatest(a.at, excluded.at) - excluded.at)::float8 / %(half_life_s)s),
           at = greatest(a.at, excluded.at), engaged = a.engaged + excluded.engaged,
           engaged_at = greatest(a.engaged_at, excluded.engaged_at)
)
SELECT count(*) FROM batch
"""
_FOLDED = sql.SQL("(SELECT * FROM folded WHERE day = current_date AND fold = {})")


async def fold(connection: Connection, half_life_s: float, *, limit: int = FOLD_BATCH) -> int:
    """Pay the oldest deltas into counters, heat, affinity and statistics; return how many.

    They are kept as they were folded, under the number of this fold, which a reader of counters
    sees together with them.
    """
    async with connection.transaction():
        number = await next_fold(connection)
        if number is None:
            return 0
        values = {"half_life_s": half_life_s, "limit": limit, "fold": number}
        row = await (await connection.execute(_FOLD, values)).fetchone()
        await count_people(connection, _FOLDED.format(number))
    return int(row[0]) if row else 0
