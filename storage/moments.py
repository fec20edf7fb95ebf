"""What was known of candidates and of their viewer at one moment, for the features of a ranker.

One statement, so that all of it is of one moment: the number of the last fold stands beside the
counters that it brought up to date. What no fold brings up to date (follows, posts of a week) is
read as it was a few seconds before, when it was committed for sure: so that all of it can be
worked out again later (`training.parity`).
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from feed.candidates import FORMATS
from feed.order import Ids
from storage.columns import id_columns
from storage.connections import Connection, Postgres

SETTLED_MS = 5_000
"""A transaction that began so long ago is over."""

COUNTED = 1_000
"""So many engagements of a post in a day, and posts of an author in a week, are counted."""

ACTS = 5_000
"""So many engagements and impressions of a viewer in a week are looked at, the latest."""

OWN_POSTS = 20
"""What a viewer reads is told by the languages of so many own posts."""

# Bounded on all sides, by indexes: a viral post, a bot, or an author of a million posts costs no
# more than COUNTED or ACTS rows.
_MOMENT = """
WITH wanted AS MATERIALIZED (
    SELECT w.place, w.id, p.author_id, p.effective_ms, p.format, p.lang,
           char_length(p.body) AS chars
      FROM unnest(%(ids)b::bigint[]) WITH ORDINALITY AS w(id, place)
      LEFT JOIN posts p ON p.id = w.id AND p.deleted_at IS NULL
), recent AS MATERIALIZED (
    SELECT post_id, impressions, engaged, author_id, at FROM folded
     WHERE day >= %(week)s AND viewer_id = %(viewer)s
       AND at >= %(now)s - interval '7 days' AND at < %(now)s
     ORDER BY at DESC LIMIT %(acts)s
), seen AS (
    SELECT post_id, sum(impressions) AS n FROM recent WHERE impressions <> 0 GROUP BY post_id
), spoken AS MATERIALIZED (
    SELECT array_agg(DISTINCT lang) AS langs FROM (
        SELECT lang FROM posts
         WHERE author_id = %(viewer)s AND deleted_at IS NULL AND lang IS NOT NULL
           AND effective_ms < %(settled_ms)s
         ORDER BY effective_ms DESC, id DESC LIMIT %(own_posts)s) AS own
), followed AS MATERIALIZED (
    SELECT followee_id, created_at FROM follows
     WHERE follower_id = %(viewer)s AND created_at < %(settled)s
     UNION ALL
    SELECT author_id, followed_at FROM unfollowed
     WHERE viewer_id = %(viewer)s AND followed_at < %(settled)s AND at >= %(settled)s
), author AS MATERIALIZED (
    SELECT a.author_id, u.follower_count, s.posts, s.engaged, s.first_ms, week.n AS posts_7d,
           felt.strength * 2::float8 ^ -least(100,
               extract(epoch FROM %(now)s - felt.at)::float8 / %(half_life_s)s) AS strength,
           felt.engaged_at, back.engaged AS engaged_back, f.created_at AS followed_at
      FROM (SELECT DISTINCT author_id FROM wanted WHERE author_id IS NOT NULL) AS a
      LEFT JOIN users u ON u.id = a.author_id
      LEFT JOIN author_stats s ON s.author_id = a.author_id
      LEFT JOIN affinity felt ON felt.viewer_id = %(viewer)s AND felt.author_id = a.author_id
      LEFT JOIN affinity back ON back.viewer_id = a.author_id AND back.author_id = %(viewer)s
      LEFT JOIN followed f ON f.followee_id = a.author_id
     CROSS JOIN LATERAL (
           SELECT count(*) AS n FROM (
               SELECT FROM posts
                WHERE author_id = a.author_id AND deleted_at IS NULL
                  AND effective_ms >= %(week_ms)s AND effective_ms < %(settled_ms)s
                LIMIT %(counted)s) AS post) AS week
), known AS (
    SELECT w.place, coalesce(w.author_id, 0) AS author, coalesce(w.effective_ms, 0) AS ms,
           coalesce(array_position(%(formats)s, w.format), 1)::bigint - 1 AS format,
           coalesce(w.chars, 0)::bigint AS chars,
           CASE WHEN w.lang IS NULL OR spoken.langs IS NULL THEN -1
                ELSE (w.lang = ANY(spoken.langs))::integer END::bigint AS same_language,
           greatest(s.likes, 0)::bigint AS likes, greatest(s.comments, 0)::bigint AS comments,
           greatest(s.reposts + s.shares, 0)::bigint AS shares,
           greatest(s.impressions, 0)::bigint AS impressions,
           greatest(lately.hour, 0)::bigint AS engaged_1h,
           greatest(lately.day, 0)::bigint AS engaged_24h,
           coalesce(a.follower_count, 0)::bigint AS author_followers,
           greatest(a.posts, 0)::bigint AS author_posts,
           coalesce(a.posts_7d, 0) AS author_posts_7d,
           greatest(a.engaged, 0)::bigint AS author_engaged,
           coalesce(a.first_ms, -1) AS author_first_ms,
           coalesce(a.strength, 0)::float8 AS strength,
           coalesce(floor(extract(epoch FROM a.engaged_at) * 1000), -1)::bigint
               AS engaged_author_ms,
           greatest(a.engaged_back, 0)::bigint AS engaged_back,
           coalesce(floor(extract(epoch FROM a.followed_at) * 1000), -1)::bigint AS followed_ms,
           coalesce(seen.n, 0)::bigint AS seen
      FROM wanted w
     CROSS JOIN spoken
      LEFT JOIN author a ON a.author_id = w.author_id
      LEFT JOIN post_stats s ON s.post_id = w.id
      LEFT JOIN seen ON seen.post_id = w.id
     CROSS JOIN LATERAL (
           SELECT sum(engaged) AS day,
                  sum(engaged) FILTER (WHERE at >= %(now)s - interval '1 hour') AS hour
             FROM (SELECT engaged, at FROM folded
                    WHERE day >= %(yesterday)s AND post_id = w.id AND engaged <> 0
                      AND at >= %(now)s - interval '1 day' AND at < %(now)s
                    ORDER BY at DESC LIMIT %(counted)s) AS act) AS lately
     ORDER BY w.place
)
SELECT (SELECT ARRAY[number] FROM folds),
       (SELECT ARRAY[coalesce(sum(engaged), 0)] FROM recent
         WHERE at >= %(now)s - interval '1 day' AND author_id <> %(viewer)s),
       (SELECT ARRAY[count(*)] FROM followed),
       (SELECT ARRAY[text, image, video, link]::bigint[] FROM viewer_stats
         WHERE viewer_id = %(viewer)s),
       array_agg(author), array_agg(ms), array_agg(format), array_agg(chars),
       array_agg(same_language), array_agg(likes), array_agg(comments), array_agg(shares),
       array_agg(impressions), array_agg(engaged_1h), array_agg(engaged_24h),
       array_agg(author_followers), array_agg(author_posts), array_agg(author_posts_7d),
       array_agg(author_engaged), array_agg(author_first_ms), array_agg(strength),
       array_agg(engaged_author_ms), array_agg(engaged_back), array_agg(followed_ms),
       array_agg(seen)
  FROM known
"""


@dataclass(frozen=True)
class Moment:
    """What was known at `now_ms`, up to fold number `fold`: columns (n,), -1 where nothing was.

    A post that is gone has author 0. `strength` is that of the affinity, without what a follow
    counts for; `viewer_formats` are engagements by `feed.candidates.FORMATS`.
    """

    now_ms: int
    fold: int
    viewer_engaged_24h: int
    viewer_follows: int
    viewer_formats: Ids
    authors: Ids
    ms: Ids
    format: Ids
    chars: Ids
    same_language: Ids
    likes: Ids
    comments: Ids
    shares: Ids
    impressions: Ids
    engaged_1h: Ids
    engaged_24h: Ids
    author_followers: Ids
    author_posts: Ids
    author_posts_7d: Ids
    author_engaged: Ids
    author_first_ms: Ids
    strength: npt.NDArray[np.float64]
    engaged_author_ms: Ids
    engaged_back: Ids
    followed_ms: Ids
    seen: Ids


async def load_moment(
    connection: Connection, viewer_id: int, ids: Ids, *, now_ms: int, half_life_s: float
) -> Moment:
    """Load what is known of these posts (n,) and of a viewer, as of `now_ms`."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    values = {
        "viewer": viewer_id,
        "ids": ids,
        "now": now,
        "settled": now - timedelta(milliseconds=SETTLED_MS),
        "settled_ms": now_ms - SETTLED_MS,
        "week_ms": now_ms - 7 * 86_400_000,
        # What was done on a day is folded then or later; a day more, since days differ by place.
        "week": now.date() - timedelta(days=8),
        "yesterday": now.date() - timedelta(days=2),
        "half_life_s": half_life_s,
        "formats": list(FORMATS),
        "counted": COUNTED,
        "acts": ACTS,
        "own_posts": OWN_POSTS,
    }
    fold, engaged, follows, formats, *columns = await id_columns(connection, _MOMENT, values)
    if not len(formats):
        formats = np.zeros(len(FORMATS), dtype=np.int64)
    return Moment(now_ms, int(fold[0]), int(engaged[0]), int(follows[0]), formats, *columns)  # type: ignore[arg-type]  # strength is of float8


class Moments:
    """Moments for the mixer, on a connection of the pool for each."""

    def __init__(self, postgres: Postgres, *, half_life_s: float) -> None:
        """Read from `postgres`, the primary."""
        self._postgres = postgres
        self._half_life_s = half_life_s

    async def at(self, viewer_id: int, ids: Ids, now_ms: int) -> Moment:
        """Load what is known now, as `load_moment` does."""
        async with self._postgres.connection() as connection:
            return await load_moment(
                connection, viewer_id, ids, now_ms=now_ms, half_life_s=self._half_life_s
            )
