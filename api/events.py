"""Takes impressions and engagements in batches; acknowledged is committed, and once."""

from typing import Any

from fastapi import APIRouter
from pydantic import ValidationError

from api.deps import Asking, Now, Wired, query_is
from api.problems import printable
from api.schemas import EventBatch, EventFields
from storage.engagements import Event, record
from storage.users import ensure_user

router = APIRouter(tags=["events"], dependencies=[query_is()])


@router.post("/events", status_code=202)
async def report(batch: EventBatch, caller: Asking, services: Wired, now: Now) -> dict[str, Any]:
    """Record what the caller did; a bad event is named and never costs the others."""
    parsed = [_parsed(caller.user_id, each) for each in batch.events]
    good = {index: each for index, each in enumerate(parsed) if isinstance(each, Event)}
    async with services.postgres.transaction() as connection:
        await ensure_user(connection, caller.user_id)
        outcomes = await record(connection, list(good.values()), now)
    taken = zip(good.values(), outcomes, strict=True)
    services.impressions.note([each for each, o in taken if o == "accepted"], now)
    rejected = [
        {"index": index, "code": "invalid", "detail": each}
        for index, each in enumerate(parsed)
        if isinstance(each, str)
    ]
    unknown = [index for index, o in zip(good, outcomes, strict=True) if o == "unknown_post"]
    rejected += [
        {"index": index, "code": "unknown_post", "detail": "There is no such post."}
        for index in unknown
    ]
    return {
        "accepted": outcomes.count("accepted"),
        "duplicates": outcomes.count("duplicate"),
        "rejected": sorted(rejected, key=lambda each: each["index"]),
    }


def event_of(viewer_id: int, fields: EventFields) -> Event:
    """Build the event that a viewer reports."""
    return Event(viewer_id=viewer_id, **fields.model_dump(exclude={"kind", "viewer_id"}))


def first_error(error: ValidationError) -> str:
    """Say what is wrong first, in one line."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part)[:80] for part in first["loc"])
    text = first["msg"].removeprefix("Value error, ")
    return printable(f"{where}: {text}" if where else text)


def _parsed(viewer_id: int, given: Any) -> Event | str:
    try:
        return event_of(viewer_id, EventFields.model_validate(given))
    except ValidationError as error:
        return first_error(error)
