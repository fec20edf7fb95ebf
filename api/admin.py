"""What operators ask of the whole service; needs the scope `admin`."""

from typing import Any

from fastapi import APIRouter

from api.deps import Asking, Wired, query_is
from api.parameters import time_text
from storage.queue_state import jobs_by_lane, queue_state

router = APIRouter(prefix="/admin", tags=["operations"], dependencies=[query_is()])


@router.get("/queue")
async def queue(caller: Asking, services: Wired) -> dict[str, Any]:
    """Say what delivery owes by lane, and whom it lets readers pull meanwhile.

    `jobs` is null while the queue cannot be reached: the backlog is in Postgres. `threshold`: under
    lag, authors with so many followers wait in the slow lane and are pulled; else null.
    """
    caller.needs("admin")
    async with services.postgres.connection() as connection:
        state = await queue_state(connection)
    settings = services.settings
    jobs = await jobs_by_lane(settings.queue, timeout_s=settings.redis_timeout_s)
    return {
        "lanes": {
            lane: {**owed._asdict(), "jobs": jobs[lane]} for lane, owed in state.lanes.items()
        },
        "lag_s": state.lag_s,
        "threshold": state.threshold,
        "threshold_since": time_text(state.threshold_since),
        "pulled": dict(state.pulled),
        "pulled_because_of_lag": [str(author_id) for author_id in state.pulled_because_of_lag],
    }
