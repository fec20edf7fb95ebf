"""Adds what imported rows mean for counters and affinity, in the transaction that writes them.

Steps insert into the temporary table `effects`, shaped like `engagement_deltas`.
"""

from storage.connections import Connection

CREATE = """
CREATE TEMP TABLE effects (
    post_id bigint, viewer_id bigint, author_id bigint,
    likes integer, comments integer, reposts integer, impressions integer,
    weight float8, at timestamptz)
"""

_COUNT = """
WITH heated AS (
    SELECT *, likes + 3 * comments + 2 * reposts AS heat,
           extract(epoch FROM at)::float8 AS at_s,
           extract(epoch FROM max(at) OVER (PARTITION BY post_id))::float8 AS latest_s
      FROM effects
     WHERE likes <> 0 OR comments <> 0 OR reposts <> 0 OR impressions <> 0)
INSERT INTO post_stats AS s (post_id, likes, comments, reposts, impressions, heat, heat_s)
SELECT post_id, sum(likes), sum(comments), sum(reposts), sum(impressions),
       sum(heat_at(heat, at_s, latest_s)), latest_s
  FROM heated
 GROUP BY post_id, latest_s
 ORDER BY post_id
    ON CONFLICT (post_id) DO UPDATE
   SET likes = s.likes + excluded.likes,
       comments = s.comments + excluded.comments,
       reposts = s.reposts + excluded.reposts,
       impressions = s.impressions + excluded.impressions,
       heat = heat_at(s.heat, s.heat_s, greatest(s.heat_s, excluded.heat_s))
            + heat_at(excluded.heat, excluded.heat_s, greatest(s.heat_s, excluded.heat_s)),
       heat_s = greatest(s.heat_s, excluded.heat_s)
"""

# Strength is a sum that decays, kept as its value at the newest of its times. Both sides of the
# sum are brought to that time. Rounding keeps what has decayed away from underflowing a real.
_STRENGTHEN = """
WITH timed AS (
    SELECT viewer_id, author_id, weight, at,
           max(at) OVER (PARTITION BY viewer_id, author_id) AS newest
      FROM effects WHERE weight <> 0 AND viewer_id <> author_id)
INSERT INTO affinity AS a (viewer_id, author_id, strength, at)
SELECT viewer_id, author_id,
       round(sum(weight * 0.5 ^ least(
           extract(epoch FROM newest - at)::float8 / %(half_life_s)s, 99))::numeric, 6),
       newest
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
       at = greatest(a.at, excluded.at)
"""


async def apply(connection: Connection, *, half_life_s: int) -> None:
    """Add everything in `effects` to post_stats and affinity, and empty it."""
    await connection.execute(_COUNT)
    await connection.execute(_STRENGTHEN, {"half_life_s": half_life_s})
    await connection.execute("TRUNCATE effects")
