"""Users are named, and deleted with a receipt of what was purged."""

import asyncio
from typing import Any

from fastapi import APIRouter, Response

from api.deps import Asking, Now, Services, Wired, query_is
from api.parameters import PathId, time_text
from api.schemas import UserFields
from storage.delivery_state import owes
from storage.feeds import Feeds
from storage.purge import REQUESTS_END_S, delete_user, purge_again
from storage.users import put_user

router = APIRouter(tags=["users"], dependencies=[query_is()])


@router.put("/users/{user_id}")
async def put(
    user_id: PathId, fields: UserFields, caller: Asking, services: Wired, response: Response
) -> dict[str, str]:
    """Create or rename a user: oneself, or anyone with the scope `ingest`."""
    caller.must_be(user_id, or_have="ingest")
    async with services.postgres.transaction() as connection:
        created = await put_user(connection, user_id, fields.name)
    response.status_code = 201 if created else 200
    return {"id": str(user_id), "name": fields.name}


@router.delete("/users/{user_id}", status_code=202)
async def delete(user_id: PathId, caller: Asking, services: Wired, now: Now) -> dict[str, Any]:
    """Delete an account: oneself, or anyone with the scope `admin`.

    What the receipt counts is gone from the truth; cached lists follow within seconds, and no
    read shows from them what the truth no longer holds.
    """
    caller.must_be(user_id, or_have="admin")
    async with services.postgres.transaction() as connection:
        receipt = await delete_user(connection, user_id, actor_id=caller.user_id, now=now)
    # At once, and also where no worker runs; the event `user.deleted` makes sure of it.
    cache = Feeds(services.redis, cap=services.settings.feed_cap)
    services.effects.start("purge", cache.forget_user(user_id, receipt.shown))
    services.effects.start("purge again", _purge_again(services, user_id))
    return {
        "receipt_id": str(receipt.id),
        "user_id": str(user_id),
        "at": time_text(receipt.at),
        "removed": receipt.removed,
        "pending": ["feed", "outbox", "snapshots"],
    }


async def _purge_again(services: Services, user_id: int) -> None:
    """Purge what requests under way leave of an account, when no worker is owed to do it."""
    async with services.postgres.transaction() as connection:
        if await owes(connection):
            return
    await asyncio.sleep(REQUESTS_END_S)
    async with services.postgres.transaction() as connection:
        await purge_again(connection, user_id)
