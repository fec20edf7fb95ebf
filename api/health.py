"""Probes and metrics, outside /api/v1: is the process there, can it serve, how is it doing."""

from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from api.delivery_metrics import set_audit_gauges, set_gauges
from api.deps import Wired
from api.feed_metrics import set_side_effects
from feed.errors import Unavailable
from storage import audits
from storage.health import postgres_answers, redis_answers
from storage.queue_state import queue_state

router = APIRouter(tags=["operations"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the process runs."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(services: Wired, response: Response) -> dict[str, Any]:
    """Say whether feeds can be served: not without Postgres; degraded without Redis, or late."""
    if not await postgres_answers(services.postgres):
        response.status_code = 503
        response.headers["Retry-After"] = "1"
        return {"status": "unavailable", "degraded": ["postgres"]}
    degraded = [] if await redis_answers(services.redis) else ["redis"]
    if services.lag.seconds > services.settings.lag_bound_s:
        degraded.append("lag")
    return {"status": "degraded" if degraded else "ok", "degraded": degraded}


@router.get("/metrics")
async def metrics(request: Request, services: Wired) -> Response:
    """Give the metrics of this process, and what delivery owes, for Prometheus."""
    now = CollectorRegistry()
    set_side_effects(now, services.effects, services.home_feed.logbook)
    try:
        async with services.postgres.connection() as connection:
            set_gauges(now, await queue_state(connection))
            set_audit_gauges(now, await audits.newest(connection))
    except Unavailable:
        pass  # a scrape without these says it; the rest is worth having
    text = generate_latest(request.app.state.registry) + generate_latest(now)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
