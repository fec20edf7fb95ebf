"""What delivery owes, by lane, and how it copes: for `GET /admin/queue` and the gauges."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from feed.errors import Unavailable
from storage import keys
from storage.author_delivery import Because
from storage.connections import Connection, open_redis, translated_errors
from storage.deliveries import LANES, Lane
from storage.pressure import lag_s

COUNTED = 100_000
LISTED = 100


class LaneState(NamedTuple):
    """What one lane owes, each counted up to `COUNTED`, and the age of the oldest in seconds."""

    pending: int
    parked: int
    age_s: float


@dataclass(frozen=True, kw_only=True)
class QueueState:
    """How things stand; `lag_s` is the age of the oldest delivery that readers miss."""

    lanes: Mapping[Lane, LaneState]
    lag_s: float
    threshold: int | None  # in followers; None: no pressure
    threshold_since: datetime
    pulled: Mapping[Because, int]
    pulled_because_of_lag: list[int]  # the first `LISTED`, by id


_LANES = """
SELECT lane,
       (SELECT count(*) FROM (SELECT FROM deliveries d
         WHERE d.lane = lanes.lane AND state = 'pending' LIMIT %(most)s) AS pending),
       (SELECT count(*) FROM (SELECT FROM deliveries d
         WHERE d.lane = lanes.lane AND state = 'parked' LIMIT %(most)s) AS parked),
       greatest(0, coalesce(extract(epoch FROM now() - (SELECT min(created_at) FROM deliveries d
         WHERE d.lane = lanes.lane AND state = 'pending')), 0))::float8
FROM unnest(%(lanes)s::text[]) AS lanes (lane)
"""
_PULLED = "SELECT because, count(*) FROM author_delivery WHERE readers_pull GROUP BY because"
_LATE = """
SELECT author_id FROM author_delivery WHERE readers_pull AND because = 'lag'
ORDER BY author_id LIMIT %s
"""


async def queue_state(connection: Connection) -> QueueState:
    """Read how things stand."""
    lanes = await connection.execute(_LANES, {"most": COUNTED, "lanes": list(LANES)})
    pulled = await connection.execute(_PULLED)
    late = await connection.execute(_LATE, [LISTED])
    query = "SELECT threshold, changed_at FROM delivery_pressure"
    pressure = await (await connection.execute(query)).fetchone()
    assert pressure is not None  # the migration made it
    return QueueState(
        lanes={lane: LaneState(*row) for lane, *row in await lanes.fetchall()},
        lag_s=await lag_s(connection, failing=True),
        threshold=pressure[0],
        threshold_since=pressure[1],
        pulled={"size": 0, "lag": 0, "cost": 0, **dict(await pulled.fetchall())},
        pulled_because_of_lag=[author_id for (author_id,) in await late.fetchall()],
    )


async def jobs_by_lane(queue_url: str, *, timeout_s: float) -> dict[Lane, int | None]:
    """Count the jobs that wait or run on each queue; None: the queue cannot be reached."""
    client = open_redis(queue_url, timeout_s=timeout_s, connections=1)
    try:
        with translated_errors():
            return {lane: int(await client.zcard(keys.queue(lane))) for lane in LANES}
    except Unavailable:
        return dict.fromkeys(LANES)
    finally:
        await client.aclose()
