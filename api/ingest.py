"""Takes NDJSON from the product's own systems: users, posts, edges, deletes and events.

Consecutive lines of one kind are one batch in one transaction (`api.ingest_batches`). A line that
is refused is named with its number and never costs the others.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import orjson
from fastapi import APIRouter, Request
from pydantic import TypeAdapter, ValidationError

from api.deps import Asking, Now, Services, Wired, query_is
from api.events import event_of, first_error
from api.ingest_batches import BATCHES, Refused, Verdict
from api.schemas import Line
from feed.errors import Invalid

router = APIRouter(tags=["ingest"], dependencies=[query_is()])

MAX_LINES = 10_000
LINES: TypeAdapter[Any] = TypeAdapter(Line)
OPENAPI = {
    "requestBody": {
        "required": True,
        "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
    }
}


class Numbered(NamedTuple):
    """A line that could be read, with its number, from 1."""

    number: int
    line: Any


@router.post("/ingest", openapi_extra=OPENAPI)
async def ingest(request: Request, caller: Asking, services: Wired, now: Now) -> dict[str, Any]:
    """Ingest up to 10,000 lines, in order; repeating a request whose posts have ids is harmless.

    When the stores fail half-way the answer is 503 and the batches before stay: send all again.
    """
    caller.needs("ingest")
    # In a thread: a full request takes a few hundred milliseconds to read, and feeds go on.
    lines, verdicts = await asyncio.to_thread(_read, await request.body())
    for kind, batch in groupby(lines, key=lambda each: each.line.kind):
        numbers, same = zip(*batch, strict=True)
        verdicts |= zip(numbers, await _apply(services, kind, list(same), now), strict=True)
    return _answer(verdicts)


def _read(body: bytes) -> tuple[list[Numbered], dict[int, Verdict]]:
    """Read the lines of a body; those that cannot be read have their verdict already."""
    lines: list[Numbered] = []
    verdicts: dict[int, Verdict] = {}
    for number, text in _numbered(body):
        parsed = _parsed(text)
        if isinstance(parsed, Refused):
            verdicts[number] = parsed
        else:
            lines.append(Numbered(number, parsed))
    return lines, verdicts


async def _apply(services: Services, kind: str, lines: list[Any], now: Any) -> list[Verdict]:
    async with services.postgres.transaction() as connection:
        verdicts = await BATCHES[kind](connection, services, lines, now)
    if kind == "event":
        taken = [line for line, each in zip(lines, verdicts, strict=True) if each == "accepted"]
        services.impressions.note([event_of(line.viewer_id, line) for line in taken], now)
    return verdicts


def _numbered(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Split a body into its non-empty lines.

    Raises:
        Invalid: There are too many.
    """
    lines = body.split(b"\n", MAX_LINES + 1)
    if len(lines) > MAX_LINES + 1 or (len(lines) == MAX_LINES + 1 and lines[-1].strip()):
        raise Invalid(f"At most {MAX_LINES} lines are read at once; send the rest after them.")
    return ((n, line) for n, line in enumerate(lines, start=1) if line.strip())


def _parsed(text: bytes) -> Any:
    try:
        return LINES.validate_python(orjson.loads(text))
    except orjson.JSONDecodeError as error:
        return Refused("invalid", f"not JSON: {error.msg}")
    except ValidationError as error:
        return Refused("invalid", first_error(error))


def _answer(verdicts: dict[int, Verdict]) -> dict[str, Any]:
    counts = Counter(verdict for verdict in verdicts.values() if isinstance(verdict, str))
    rejected = [
        {"line": number, "code": verdict.code, "detail": verdict.detail}
        for number, verdict in sorted(verdicts.items())
        if isinstance(verdict, Refused)
    ]
    return {
        "accepted": counts["accepted"],
        "unchanged": counts["unchanged"],
        "rejected": rejected,
    }
