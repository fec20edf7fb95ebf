"""What the stores hold for one user against the truth, and how it is put right; for admins."""

import secrets
from typing import Any

from fastapi import APIRouter

from api.deps import Asking, Services, Wired, query_is
from api.parameters import PathId, time_of, time_text
from storage.audit import append_audit
from storage.check import KINDS, FeedCheck, ListName, Look
from storage.feeds import Feeds
from storage.renewal import Renewal
from storage.users import require_user

LISTED = 100

router = APIRouter(prefix="/admin", tags=["operations"], dependencies=[query_is()])


@router.get("/users/{user_id}/feed")
async def feed(user_id: PathId, caller: Asking, services: Wired) -> dict[str, Any]:
    """Say which lists this user's feed is read from, and where they differ from the truth.

    `missing` posts the user does not get, `late` ones neither, but they are under way; `extra` ones
    do no harm, since reads leave them out; `out_of_order` ones have a wrong time. A list that is
    missing does no harm either: Postgres is read instead.
    """
    caller.needs("admin")
    look = await _look(services, user_id)
    return await _document(services, look)


@router.post("/users/{user_id}/feed/repair")
async def repair(user_id: PathId, caller: Asking, services: Wired) -> dict[str, Any]:
    """Drop and rebuild the lists that differ from the truth, and say how it is afterwards."""
    caller.needs("admin")
    look = await _look(services, user_id)
    wrong = sorted({each.list for each in look.faults if each.kind != "late"})
    if wrong:
        renewal = Renewal(
            services.postgres,
            services.redis,
            services.settings,
            token=lambda: secrets.token_urlsafe(12),
        )
        await renewal.lists(wrong)
        detail = {"user_id": str(user_id), "lists": [_named(each) for each in wrong]}
        async with services.postgres.connection() as connection:
            await append_audit(
                connection, actor=str(caller.user_id), action="feed.repaired", detail=detail
            )
        look = await _look(services, user_id)
    return {"repaired": [_named(each) for each in wrong], **await _document(services, look)}


async def _look(services: Services, user_id: int) -> Look:
    async with services.postgres.connection() as connection:
        await require_user(connection, user_id)
    return await FeedCheck(services.postgres, _lists(services)).check(user_id)


def _lists(services: Services) -> Feeds:
    return Feeds(services.redis, cap=services.settings.feed_cap)


async def _document(services: Services, look: Look) -> dict[str, Any]:
    silent = [name for name, each in look.lists.items() if each is None]
    present = await _lists(services).present([each.key for each in silent])
    building = {name for name, there in zip(silent, present, strict=True) if there}
    return {
        "user_id": str(look.viewer_id),
        "lists": [_list(look, name, building) for name in look.lists],
        "counts": {kind: len(look.of_kind(kind)) for kind in KINDS},
        **{kind: [str(each.post_id) for each in look.of_kind(kind)[:LISTED]] for kind in KINDS},
    }


def _list(look: Look, name: ListName, building: set[ListName]) -> dict[str, Any]:
    found = look.lists[name]
    if found is None:
        state = "building" if name in building else "missing"
        return {**_named(name), "state": state, "size": 0, "floor": None}
    floor = None if found.floor_ms is None else time_text(time_of(found.floor_ms))
    return {**_named(name), "state": "ready", "size": len(found.ids), "floor": floor}


def _named(name: ListName) -> dict[str, str]:
    return {"kind": name.kind, "owner_id": str(name.owner_id)}
