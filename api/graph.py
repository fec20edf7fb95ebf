"""Follows, blocks, mutes and hidden posts: set, undone, listed newest first."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Response

from api.deps import Asking, Services, Wired, query_is
from api.parameters import PageLimit, PathId, page_cursor, read_page_cursor, time_text
from api.schemas import Mute
from feed.errors import Invalid, NotAllowed, NotFound
from storage import graph
from storage.targets import targets_of
from storage.users import ensure_user, require_user

router = APIRouter(tags=["graph"])

NO_QUERY = [query_is()]
PAGED = [query_is("cursor", "limit")]
NO_CONTENT: dict[str, Any] = {"status_code": 204, "dependencies": NO_QUERY}
PageCursor = Annotated[str | None, Query(max_length=200)]


@router.put("/follows/{user_id}", **NO_CONTENT)
async def follow(user_id: PathId, caller: Asking, services: Wired) -> Response:
    """Follow a user."""
    _not_oneself(caller.user_id, user_id)
    async with services.postgres.transaction() as connection:
        await ensure_user(connection, caller.user_id)
        await require_user(connection, user_id)
        if await graph.blocked_between(connection, caller.user_id, user_id):
            raise NotAllowed("A block stands between you and this user.")
        await graph.follow(connection, caller.user_id, user_id)
    return Response(status_code=204)


@router.delete("/follows/{user_id}", **NO_CONTENT)
async def unfollow(user_id: PathId, caller: Asking, services: Wired) -> Response:
    """Follow a user no longer."""
    async with services.postgres.transaction() as connection:
        await graph.unfollow(connection, caller.user_id, user_id)
    return Response(status_code=204)


@router.put("/blocks/{user_id}", **NO_CONTENT)
async def block(user_id: PathId, caller: Asking, services: Wired) -> Response:
    """Block a user: neither sees the other's posts."""
    _not_oneself(caller.user_id, user_id)
    async with services.postgres.transaction() as connection:
        await ensure_user(connection, caller.user_id)
        await require_user(connection, user_id)
        await graph.block(connection, caller.user_id, user_id)
    return Response(status_code=204)


@router.delete("/blocks/{user_id}", **NO_CONTENT)
async def unblock(user_id: PathId, caller: Asking, services: Wired) -> Response:
    """Undo a block; follows that it suppressed count again."""
    async with services.postgres.transaction() as connection:
        await graph.unblock(connection, caller.user_id, user_id)
    return Response(status_code=204)


@router.put("/mutes/{user_id}", **NO_CONTENT)
async def mute(
    user_id: PathId,
    caller: Asking,
    services: Wired,
    fields: Annotated[Mute | None, Body()] = None,
) -> Response:
    """Mute a user, for a time or until undone."""
    _not_oneself(caller.user_id, user_id)
    until = fields.until if fields else None
    async with services.postgres.transaction() as connection:
        await ensure_user(connection, caller.user_id)
        await require_user(connection, user_id)
        await graph.mute(connection, caller.user_id, user_id, until)
    return Response(status_code=204)


@router.delete("/mutes/{user_id}", **NO_CONTENT)
async def unmute(user_id: PathId, caller: Asking, services: Wired) -> Response:
    """Undo a mute."""
    async with services.postgres.transaction() as connection:
        await graph.unmute(connection, caller.user_id, user_id)
    return Response(status_code=204)


@router.put("/hidden/{post_id}", **NO_CONTENT)
async def hide(post_id: PathId, caller: Asking, services: Wired) -> Response:
    """Hide one post from oneself."""
    async with services.postgres.transaction() as connection:
        await ensure_user(connection, caller.user_id)
        if not await targets_of(connection, [(caller.user_id, post_id)]):
            raise NotFound("There is no such post.")
        await graph.hide(connection, caller.user_id, post_id)
    return Response(status_code=204)


@router.delete("/hidden/{post_id}", **NO_CONTENT)
async def unhide(post_id: PathId, caller: Asking, services: Wired) -> Response:
    """Show a hidden post again."""
    async with services.postgres.transaction() as connection:
        await graph.unhide(connection, caller.user_id, post_id)
    return Response(status_code=204)


@router.get("/follows", dependencies=PAGED)
async def list_follows(
    caller: Asking, services: Wired, cursor: PageCursor = None, limit: PageLimit = 20
) -> dict[str, Any]:
    """List whom the caller follows."""
    return await _page(services, "follows", caller.user_id, cursor, limit)


@router.get("/blocks", dependencies=PAGED)
async def list_blocks(
    caller: Asking, services: Wired, cursor: PageCursor = None, limit: PageLimit = 20
) -> dict[str, Any]:
    """List whom the caller blocks."""
    return await _page(services, "blocks", caller.user_id, cursor, limit)


@router.get("/mutes", dependencies=PAGED)
async def list_mutes(
    caller: Asking, services: Wired, cursor: PageCursor = None, limit: PageLimit = 20
) -> dict[str, Any]:
    """List whom the caller mutes now."""
    return await _page(services, "mutes", caller.user_id, cursor, limit)


@router.get("/hidden", dependencies=PAGED)
async def list_hidden(
    caller: Asking, services: Wired, cursor: PageCursor = None, limit: PageLimit = 20
) -> dict[str, Any]:
    """List the posts that the caller has hidden."""
    return await _page(services, "hidden", caller.user_id, cursor, limit)


async def _page(
    services: Services, kind: graph.Kind, viewer_id: int, cursor: str | None, limit: int
) -> dict[str, Any]:
    before = read_page_cursor(kind, cursor) if cursor is not None else None
    limit = min(limit, services.settings.page_limit_max)
    async with services.postgres.connection() as connection:
        rows = await graph.list_relations(connection, kind, viewer_id, before, limit + 1)
    items, more = rows[:limit], len(rows) > limit
    return {
        "items": [_item(kind, row) for row in items],
        "next_cursor": page_cursor(kind, items[-1].created_at, items[-1].id) if more else None,
    }


def _item(kind: graph.Kind, row: graph.Relation) -> dict[str, Any]:
    named = "post_id" if kind == "hidden" else "user_id"
    item: dict[str, Any] = {named: str(row.id), "created_at": time_text(row.created_at)}
    if kind == "mutes":
        item["until"] = time_text(row.until) if row.until else None
    return item


def _not_oneself(caller_id: int, user_id: int) -> None:
    if caller_id == user_id:
        raise Invalid("This cannot be done to oneself.")
