"""Opens a feed, gives its pages, and counts what is new: the only routes that read feeds."""

import asyncio
from typing import Annotated, Any
from uuid import uuid4

import orjson
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.deadline import within
from api.deps import Asking, Services, Wired, log_fields, now, query_is, services_of
from api.explain import snapshot_document
from api.parameters import PageLimit, epoch_ms, time_of, time_text
from api.plain import PlainRoute
from api.reasons import reason
from api.schemas import post_document
from feed.mode import CONTROL, decide_mode
from feed.query import Mode, ModeReason
from feed.settings import Settings
from feed.telemetry import Trace
from mixer.home_feed import Opening
from mixer.page import Item, Page
from mixer.pipeline import skipped
from storage.modes import load_mode_inputs

router = APIRouter(tags=["feed"])

CursorText = Annotated[str, Query(description="`next_cursor` of the page before")]


class FeedQuery(BaseModel):
    """Which page of which feed."""

    mode: Mode | None = None
    limit: PageLimit | None = None
    cursor: CursorText | None = None


async def feed(request: Request, caller: Asking, query: Annotated[FeedQuery, Query()]) -> Response:
    """Open a feed, or with a cursor give its next page."""
    services = await services_of(request)
    settings = services.settings
    size = min(query.limit or settings.page_limit, settings.page_limit_max)
    now_ms = epoch_ms(await now())
    trace = Trace()
    if query.cursor is None:
        reading = _opened(services, caller.user_id, query.mode, size, now_ms, trace)
    else:
        place = services.cursors.read(
            query.cursor, viewer_id=caller.user_id, requested=query.mode or ""
        )
        reading = services.home_feed.next(place, size, now_ms, trace)
    try:
        page = await within(settings.budget_ms / 1000, reading)
    finally:
        services.feed_metrics.count(trace)
        log_fields(request).update(_stages(trace))
    log_fields(request).update(_line(page))
    document = {
        **_document(services, page),
        "snapshot": _snapshot(page, now_ms, settings),
        "request_id": request.state.request_id,
    }
    return Response(orjson.dumps(document), media_type="application/json")


router.add_api_route("/feed", feed, response_model=dict[str, Any], route_class_override=PlainRoute)


@router.get("/feed/updates", dependencies=[query_is("cursor")])
async def updates(caller: Asking, services: Wired, cursor: CursorText) -> dict[str, Any]:
    """Count the visible in-network posts newer than this session's open."""
    place = services.cursors.read(cursor, viewer_id=caller.user_id, requested=None)
    reading = services.home_feed.new_posts.since(place)
    found = await within(services.settings.budget_ms / 1000, reading)
    authors = {post.author_id: post.author_name for post in found.posts}
    return {
        "new_count": len(found.posts),
        "capped": found.capped,
        "authors": [{"id": str(id), "name": name} for id, name in list(authors.items())[:3]],
        "latest_at": time_text(found.posts[0].created_at) if found.posts else None,
    }


async def _opened(
    services: Services,
    viewer_id: int,
    requested: Mode | None,
    limit: int,
    now_ms: int,
    trace: Trace,
) -> Page:
    mode, reason = await _decided(services, viewer_id, requested, trace)
    opening = Opening(
        viewer_id=viewer_id,
        requested=requested or "",
        mode=mode,
        mode_reason=reason,
        session_id=uuid4().hex,
        limit=limit,
        now_ms=now_ms,
    )
    return await services.home_feed.open(opening, trace)


async def _decided(
    services: Services, viewer_id: int, requested: Mode | None, trace: Trace
) -> tuple[Mode, ModeReason]:
    """Decide the mode of a feed; when it is not known what decides, the one that ranks nothing.

    A kill switch may be on, and nobody who chose to read in order of time is given another one.
    """
    try:
        with trace.timed("mode"):
            async with (
                asyncio.timeout(services.settings.budget_ms / 1000 / 4),
                services.postgres.connection() as connection,
            ):
                rules, choices = await load_mode_inputs(connection, viewer_id)
    except Exception as error:
        skipped("mode", error, trace)
        return CONTROL, "fallback"
    return decide_mode(rules, choices, user_id=viewer_id, requested=requested)


def _document(services: Services, page: Page) -> dict[str, Any]:
    return {
        "items": [_item(item, page) for item in page.items],
        "updates_cursor": services.cursors.write(page.cursor),
        "next_cursor": services.cursors.write(page.next) if page.next else None,
        "mode": page.mode,
        "mode_reason": page.cursor.mode_reason,
        "state": _state(page),
        **({"empty_because": page.empty_because} if page.empty_because else {}),
        "degraded": sorted(set(page.trace.degraded)),
        "lag_s": round(services.lag.seconds, 1),
        "session_id": page.cursor.session_id,
    }


def _item(item: Item, page: Page) -> dict[str, Any]:
    post = item.post
    return {
        **post_document(post),
        "original": _original(item),
        "reposted_by": [
            {"id": str(each.author_id), "name": each.author_name} for each in item.reposted_by
        ],
        "source": item.source,
        "in_network": post.in_network,
        "reason": reason(item, page.cursor.viewer_id),
        "position": item.position,
    }


def _original(item: Item) -> dict[str, Any] | None:
    """Give the post that is reposted or quoted, so that a client needs no second request."""
    post = item.post
    if post.repost_of is None or post.original_created_at is None:
        return None
    return {
        "id": str(post.repost_of),
        "author": {"id": str(post.original_author_id), "name": post.original_author_name},
        "body": post.original_body,
        "format": post.original_format,
        "media": post.original_media,
        "created_at": time_text(post.original_created_at),
    }


def _state(page: Page) -> str:
    if page.empty_because:
        return "empty"
    if page.trace.building:
        return "building"
    return "degraded" if page.trace.degraded else "ready"


def _snapshot(page: Page, now_ms: int, settings: Settings) -> dict[str, Any] | None:
    if page.snapshot is None:
        return None
    return {
        **snapshot_document(page.snapshot.head, len(page.snapshot)),
        "expires_at": time_text(time_of(now_ms + settings.snapshot_ttl_s * 1000)),
        "renewed": page.renewed,
    }


def _line(page: Page) -> dict[str, Any]:
    """Return what the one log line of this request says about its page."""
    return {
        "mode": page.mode,
        "mode_reason": page.cursor.mode_reason,
        "session_id": page.cursor.session_id,
        "n_items": len(page.items),
    }


def _stages(trace: Trace) -> dict[str, Any]:
    """Return what that line says about the stages, whether or not there is a page."""
    return {
        "n_candidates": trace.n_candidates,
        "dropped": trace.dropped,
        "relaxed": trace.relaxed,
        "degraded": [*trace.degraded],  # a task that is given up may still add to them
        "unfinished": [*trace.unfinished],
        "stage_ms": {stage: round(spent, 2) for stage, spent in trace.stage_ms.items()},
    }
