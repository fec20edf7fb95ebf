"""The viewer's own choice of mode; it takes effect on the next open."""

from fastapi import APIRouter

from api.deps import Asking, Wired, query_is
from api.schemas import Preferences
from storage.users import ensure_user, get_feed_mode, set_feed_mode

router = APIRouter(tags=["preferences"], dependencies=[query_is()])


@router.get("/preferences")
async def read(caller: Asking, services: Wired) -> Preferences:
    """Read the stored choice; "default" lets the product decide."""
    async with services.postgres.connection() as connection:
        mode = await get_feed_mode(connection, caller.user_id)
    return Preferences(feed_mode=mode or "default")


@router.put("/preferences")
async def write(fields: Preferences, caller: Asking, services: Wired) -> Preferences:
    """Store a choice."""
    mode = None if fields.feed_mode == "default" else fields.feed_mode
    async with services.postgres.transaction() as connection:
        await ensure_user(connection, caller.user_id)
        await set_feed_mode(connection, caller.user_id, mode)
    return fields
