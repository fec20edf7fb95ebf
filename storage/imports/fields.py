"""Turns one field of a CSV or NDJSON row into a value that Postgres will take, or says why not."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from feed.candidates import FORMATS
from feed.order import MAX_ID

EVENT_TYPES = (
    "impression", "click", "dwell", "like", "unlike", "comment", "share", "not_interested",
    "report",
)  # fmt: skip
BODY_CHARS = 10_000
NAME_CHARS = 100
MEDIA_ITEMS = 10
URL_CHARS = 2_000
ALT_CHARS = 1_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_LANG = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}")
_URL = re.compile(r"https?://[^\s<>\"\\]+", re.IGNORECASE)
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # Postgres holds no NUL; the others are not UTF-8

Value = int | str | None


class BadField(Exception):
    """A field cannot be read; `code` is for programs, the text for people."""

    def __init__(self, code: str, detail: str) -> None:
        """Say why."""
        super().__init__(detail)
        self.code = code


@dataclass(frozen=True)
class Field:
    """One column: its name, how to read it, and what it is when nothing is given."""

    name: str
    read: Callable[[Any], Value]
    required: bool = True
    default: Value = None

    def value(self, raw: Any) -> Value:
        """Read `raw`, where None and the empty text mean that nothing is given.

        Raises:
            BadField: It cannot be read, or is required and not there.
        """
        if raw is None or raw == "":
            if self.required:
                raise BadField("missing", f"{self.name} is missing")
            return self.default
        try:
            return self.read(raw)
        except BadField as bad:
            raise BadField(bad.code, f"{self.name}: {bad}") from None


def read_id(raw: Any) -> int:
    """Read a positive bigint, as a number or as decimal digits."""
    if type(raw) is int:
        value = raw
    elif type(raw) is str and raw.isascii() and raw.isdigit() and len(raw) < 20:
        value = int(raw)
    else:
        raise BadField("bad_id", f"{_shown(raw)} is not a positive whole number")
    if not 0 < value <= MAX_ID:
        raise BadField("bad_id", f"{value} is not in 1..{MAX_ID}")
    return value


def read_time(raw: Any) -> int:
    """Read an RFC 3339 time with its offset as epoch milliseconds; what is finer is cut off."""
    try:
        time = datetime.fromisoformat(raw)
    except (TypeError, ValueError):
        raise BadField("bad_time", f"{_shown(raw)} is not like 2026-01-02T03:04:05.678Z") from None
    if time.tzinfo is None:
        raise BadField("bad_time", f"{_shown(raw)} has no offset; write Z for UTC")
    ms = (time - _EPOCH) // _MS
    if ms < 0:
        raise BadField("bad_time", f"{_shown(raw)} is before 1970")
    return ms


def read_name(raw: Any) -> str:
    """Read a display name, trimmed and not empty."""
    name = _text(raw, NAME_CHARS)
    if not name:
        raise BadField("missing", "is empty")
    return name


def read_body(raw: Any) -> str:
    """Read the text of a post, trimmed."""
    return _text(raw, BODY_CHARS)


def read_lang(raw: Any) -> str:
    """Read a language tag, such as en or pt-BR."""
    if type(raw) is not str or not _LANG.fullmatch(raw):
        raise BadField("bad_value", f"{_shown(raw)} is not a language tag such as en or pt-BR")
    return raw


def read_format(raw: Any) -> str:
    """Read the format of a post."""
    return _one_of(raw, FORMATS)


def read_type(raw: Any) -> str:
    """Read the type of an engagement."""
    return _one_of(raw, EVENT_TYPES)


def read_uuid(raw: Any) -> str:
    """Read a UUID."""
    try:
        return str(UUID(raw))
    except (AttributeError, TypeError, ValueError):
        raise BadField("bad_id", f"{_shown(raw)} is not a UUID") from None


def read_dwell(raw: Any) -> int:
    """Read a time on the screen in milliseconds."""
    if type(raw) is str and raw.isascii() and raw.isdigit() and len(raw) < 12:
        raw = int(raw)
    if type(raw) is not int or not 0 <= raw < 2**31:
        raise BadField("bad_value", f"{_shown(raw)} is not a number of milliseconds")
    return raw


def read_media(raw: Any) -> str:
    """Read a list of {url, alt?}, given as JSON or (in CSV) as its text; return its text."""
    items = _json(raw) if type(raw) is str else raw
    if type(items) is not list:
        raise BadField("bad_value", "is not a list of {url, alt}")
    if len(items) > MEDIA_ITEMS:
        raise BadField("too_long", f"has {len(items)} items, at most {MEDIA_ITEMS} are allowed")
    return orjson.dumps([_medium(item) for item in items]).decode()


def _medium(item: Any) -> dict[str, str]:
    if type(item) is not dict or "url" not in item or not item.keys() <= {"url", "alt"}:
        raise BadField("bad_value", "each item must be {url} or {url, alt}")
    url = _text(item["url"], URL_CHARS)
    if not _URL.fullmatch(url):
        raise BadField("bad_value", f"{_shown(url)} does not begin with http:// or https://")
    alt = item.get("alt")
    return {"url": url} if alt is None else {"url": url, "alt": _text(alt, ALT_CHARS)}


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadField("bad_value", f"is not JSON: {error}") from None


def _text(raw: Any, most: int) -> str:
    if type(raw) is not str:
        raise BadField("bad_value", f"{_shown(raw)} is not a text")
    if bad := _UNSTORABLE.search(raw):
        what = "a NUL character" if bad.group() == "\0" else "bytes that are not UTF-8"
        raise BadField("bad_text", f"holds {what}")
    text = raw.strip()
    if len(text) > most:
        raise BadField("too_long", f"has {len(text)} characters, at most {most} are allowed")
    return text


def _one_of(raw: Any, choices: tuple[str, ...]) -> str:
    if raw not in choices:
        raise BadField("bad_value", f"{_shown(raw)} is not one of {', '.join(choices)}")
    return str(raw)


def _shown(raw: Any) -> str:
    text = repr(raw).encode("ascii", "backslashreplace").decode()
    return text if len(text) <= 50 else text[:49] + "…"
