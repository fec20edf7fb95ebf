"""Probes and metrics, outside /api/v1: is the process there, can it serve, how is it doing."""

from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest

from api.deps import Wired
from feed.errors import Unavailable
from storage.health import backlog, postgres_answers, redis_answers

router = APIRouter(tags=["operations"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the process runs."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(services: Wired, response: Response) -> dict[str, Any]:
    """Say whether feeds can be served: not without Postgres; without Redis, degraded."""
    if not await postgres_answers(services.postgres):
        response.status_code = 503
        response.headers["Retry-After"] = "1"
        return {"status": "unavailable", "degraded": ["postgres"]}
    degraded = [] if await redis_answers(services.redis) else ["redis"]
    return {"status": "degraded" if degraded else "ok", "degraded": degraded}


@router.get("/metrics")
async def metrics(request: Request, services: Wired) -> Response:
    """Give the metrics of this process, and what delivery owes, for Prometheus."""
    now = CollectorRegistry()
    try:
        owed = await backlog(services.postgres)
        Gauge("foryou_deliveries_pending", "Deliveries owed", registry=now).set(owed.pending)
        Gauge("foryou_lag_seconds", "Age of the oldest delivery", registry=now).set(owed.lag_s)
    except Unavailable:
        pass  # a scrape without these two says it; the rest is worth having
    text = generate_latest(request.app.state.registry) + generate_latest(now)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
