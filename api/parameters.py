"""The kinds of value that requests are made of: ids, texts, times, page cursors."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import AfterValidator, BeforeValidator, StringConstraints, WithJsonSchema

from feed.errors import CursorInvalid
from feed.order import MAX_ID

DECIMAL_ID = re.compile(r"[1-9][0-9]{0,18}")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CURSOR = re.compile(r"([a-z]+):([0-9]{1,17}):([1-9][0-9]{0,18})")


def parse_id(value: Any) -> int:
    """Read an id: decimal text, or an integer; 1..2^63 - 1.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(value, str) and DECIMAL_ID.fullmatch(value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_ID:
        return value
    raise ValueError("an id is a positive 64-bit integer, as decimal text")


def clean_text(text: str) -> str:
    """Refuse what Postgres cannot store and UTF-8 cannot carry.

    Raises:
        ValueError: The text holds NUL or a lone surrogate.
    """
    if "\x00" in text:
        raise ValueError("the text holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("the text holds a lone surrogate") from None
    return text


def parse_time(value: Any) -> datetime:
    """Read an RFC 3339 time with its offset, as UTC.

    Raises:
        ValueError: It is not one, or it is before 1970 or after 9999.
    """
    if not isinstance(value, str) or not 20 <= len(value) <= 40 or not value.isascii():
        raise ValueError("a time is RFC 3339 with an offset, like 2026-01-02T03:04:05.678Z")
    try:
        time = datetime.fromisoformat(value)
        utc = time.astimezone(UTC) if time.tzinfo else None
    except (ValueError, OverflowError):
        utc = None
    if utc is None or utc < EPOCH:
        raise ValueError("a time is RFC 3339 with an offset, like 2026-01-02T03:04:05.678Z")
    return utc


def time_text(time: datetime) -> str:
    """Write a time as RFC 3339 in UTC with milliseconds."""
    text = time.isoformat(timespec="milliseconds")
    if not text.endswith("+00:00"):  # converting takes as long as writing, and is seldom needed
        text = time.astimezone(UTC).isoformat(timespec="milliseconds")
    return f"{text[:-6]}Z"


def epoch_ms(time: datetime) -> int:
    """Return a time in whole milliseconds since 1970."""
    return (time - EPOCH) // timedelta(milliseconds=1)


def time_of(ms: int) -> datetime:
    """Return the time of whole milliseconds since 1970."""
    return EPOCH + timedelta(milliseconds=ms)


_ID_SCHEMA = WithJsonSchema({"type": "string", "pattern": "^[1-9][0-9]{0,18}$"})
_TIME_SCHEMA = WithJsonSchema({"type": "string", "format": "date-time"})

Id = Annotated[int, BeforeValidator(parse_id), _ID_SCHEMA]
Time = Annotated[datetime, BeforeValidator(parse_time), _TIME_SCHEMA]
Text = Annotated[str, AfterValidator(clean_text)]
ShortText = Annotated[str, StringConstraints(max_length=200), AfterValidator(clean_text)]

PathId = Annotated[Id, Path()]
PageLimit = Annotated[int, Query(ge=1, description="At most 50; more is served as 50")]


def page_cursor(kind: str, created_at: datetime, other_id: int) -> str:
    """Write the place after a row of a list; it holds the whole key of the order."""
    micros = (created_at - EPOCH) // timedelta(microseconds=1)
    return urlsafe_b64encode(f"{kind}:{micros}:{other_id}".encode()).decode().rstrip("=")


def read_page_cursor(kind: str, cursor: str) -> tuple[datetime, int]:
    """Read what `page_cursor` wrote for the same kind of list.

    Raises:
        CursorInvalid: This service did not write it, or not for this list.
    """
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except ValueError:
        text = ""
    match = CURSOR.fullmatch(text)
    if not match or match[1] != kind or int(match[3]) > MAX_ID:
        raise CursorInvalid("This cursor was not given out for this list.")
    created_at, other_id = EPOCH + timedelta(microseconds=int(match[2])), int(match[3])
    if page_cursor(kind, created_at, other_id) != cursor:
        raise CursorInvalid("This cursor was not given out for this list.")
    return created_at, other_id
