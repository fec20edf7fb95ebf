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
INSERT INTO post_stats AS s (post_id, likes, comments, reposts, impressions)
SELECT post_id, sum(likes), sum(comments), sum(reposts), sum(impressions)
  FROM effects
 WHERE likes <> 0 OR comments <> 0 OR reposts <> 0 OR impressions <> 0
 GROUP BY post_id
 ORDER BY post_id
    ON CONFLICT (post_id) DO UPDATE
   SET likes = s.likes + excluded.likes,
       comments = s.comments + excluded.comments,
       reposts = s.reposts + excluded.reposts,
       impressions = s.impressions + excluded.impressions
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
