"""A user's own choices: the mode of the feed, and whether strangers may be shown one's posts."""

from fastapi import APIRouter

from api.deps import Asking, Wired, query_is
from api.schemas import Discovery, Preferences
from storage.users import (
    ensure_user,
    get_feed_mode,
    is_discoverable,
    set_discoverable,
    set_feed_mode,
)

router = APIRouter(tags=["preferences"], dependencies=[query_is()])


@router.get("/preferences")
async def read(caller: Asking, services: Wired) -> Preferences:
    """Read the stored choice; "default" lets the product decide."""
    async with services.postgres.connection() as connection:
        mode = await get_feed_mode(connection, caller.user_id)
    return Preferences(feed_mode=mode or "default")


@router.put("/preferences")
async def write(fields: Preferences, caller: Asking, services: Wired) -> Preferences:
    """Store a choice; it takes effect on the next open."""
    mode = None if fields.feed_mode == "default" else fields.feed_mode
    async with services.postgres.transaction() as connection:
        await ensure_user(connection, caller.user_id)
        await set_feed_mode(connection, caller.user_id, mode)
    return fields


@router.get("/preferences/discovery")
async def read_discovery(caller: Asking, services: Wired) -> Discovery:
    """Say whether those who do not follow the caller may be shown the caller's posts."""
    async with services.postgres.connection() as connection:
        return Discovery(discoverable=await is_discoverable(connection, caller.user_id))


@router.put("/preferences/discovery")
async def write_discovery(fields: Discovery, caller: Asking, services: Wired) -> Discovery:
    """Opt out of being discovered, or back in."""
    async with services.postgres.transaction() as connection:
        await ensure_user(connection, caller.user_id)
        await set_discoverable(connection, caller.user_id, fields.discoverable)
    return fields
