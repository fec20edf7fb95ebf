"""Adds what imported rows mean for counters and affinity, in the transaction that writes them.

Steps insert into the temporary table `effects`, shaped like `engagement_deltas`.
"""

from psycopg import sql

from storage.connections import Connection
from storage.statistics import count_people

CREATE = """
CREATE TEMP TABLE effects (
    post_id bigint, viewer_id bigint, author_id bigint,
    likes integer, comments integer, reposts integer, impressions integer,
    weight float8, at timestamptz,
    clicks integer NOT NULL DEFAULT 0, shares integer NOT NULL DEFAULT 0,
    posts integer NOT NULL DEFAULT 0,
    engaged integer GENERATED ALWAYS AS (likes + comments + reposts + clicks + shares) STORED)
"""

_COUNT = """
WITH heated AS (
    SELECT *, likes + 3 * comments + 2 * reposts AS heat,
           extract(epoch FROM at)::float8 AS at_s,
           extract(epoch FROM max(at) OVER (PARTITION BY post_id))::float8 AS latest_s
      FROM effects
     WHERE engaged <> 0 OR impressions <> 0)
INSERT INTO post_stats AS s (post_id, likes, comments, reposts, clicks, shares, impressions,
                             heat, heat_s)
SELECT post_id, sum(likes), sum(comments), sum(reposts), sum(clicks), sum(shares),
       sum(impressions), sum(heat_at(heat, at_s, latest_s)), latest_s
  FROM heated
 GROUP BY post_id, latest_s
 ORDER BY post_id
    ON CONFLICT (post_id) DO UPDATE
   SET likes = s.likes + excluded.likes,
       comments = s.comments + excluded.comments,
       reposts = s.reposts + excluded.reposts,
       clicks = s.clicks + excluded.clicks,
       shares = s.shares + excluded.shares,
       impressions = s.impressions + excluded.impressions,
       heat = heat_at(s.heat, s.heat_s, greatest(s.heat_s, excluded.heat_s))
            + heat_at(excluded.heat, excluded.heat_s, greatest(s.heat_s, excluded.heat_s)),
       heat_s = greatest(s.heat_s, excluded.heat_s)
"""

# Strength is a sum that decays, kept as its value at the newest of its times. Both sides of the
# sum are brought to that time. Rounding keeps what has decayed away from underflowing a real.
_STRENGTHEN = """
WITH timed AS (
    SELECT viewer_id, author_id, weight, engaged, at,
           max(at) OVER (PARTITION BY viewer_id, author_id) AS newest
      FROM effects WHERE weight <> 0 AND viewer_id <> author_id)
INSERT INTO affinity AS a (viewer_id, author_id, strength, at, engaged, engaged_at)
SELECT viewer_id, author_id,
       round(sum(weight * 0.5 ^ least(
           extract(epoch FROM newest - at)::float8 / %(half_life_s)s, 99))::numeric, 6),
       newest, sum(engaged), max(at) FILTER (WHERE engaged > 0)
  FROM timed
 GROUP BY viewer_id, author_id, newest
 ORDER BY viewer_id, author_id
    ON CONFLICT (viewer_id, author_id) DO UPDATE
   SET strength = round((
           a.strength * 0.5 ^ least(
               extract(epoch FROM greatest(a.at, excluded.at) - a.at)::float8
               / %(half_life_s)s, 99)
           + excluded.strength * 0.5 ^ least(
               extract(epoch FROM greatest(a.at, excluded.at) - excluded.at)::float8
               / %(half_life_s)s, 99))::numeric, 6),
       at = greatest(a.at, excluded.at),
       engaged = a.engaged + excluded.engaged,
       engaged_at = greatest(a.engaged_at, excluded.engaged_at)
"""

# What happened lately counts in windows of time as well; what is older in totals only.
_KEEP = """
INSERT INTO folded (day, fold, post_id, viewer_id, author_id, at, likes, comments, reposts, clicks,
                    shares, impressions, posts, engaged, weight)
SELECT current_date, (SELECT number FROM folds), post_id, viewer_id, author_id, at, likes,
       comments, reposts, clicks, shares, impressions, posts, engaged, weight
  FROM effects WHERE at > now() - interval '1 week'
"""


async def apply(connection: Connection, *, half_life_s: int) -> None:
    """Add everything in `effects` to counters, affinity and statistics, and empty it."""
    await connection.execute(_COUNT)
    await connection.execute(_STRENGTHEN, {"half_life_s": half_life_s})
    await connection.execute(_KEEP)
    await count_people(connection, sql.Identifier("effects"))
    await connection.execute("TRUNCATE effects")
