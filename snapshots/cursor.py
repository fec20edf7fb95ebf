"""Cursors: opaque, signed, bound to one viewer and to the mode requested at the open.

A cursor is base64url(JSON, then 24 bytes of HMAC-SHA-256 over it). There is exactly one accepted
text for each cursor, so that no character of it can be changed.
"""

import base64
import binascii
import hmac
from dataclasses import dataclass
from typing import Literal

import orjson

from feed.errors import CursorInvalid, CursorModeMismatch, Misconfigured
from feed.order import Key
from feed.settings import Settings

VERSION = 1
SIGNATURE_BYTES = 24
MAX_TEXT = 1_000
MIN_KEY_BYTES = 16

Part = Literal["slate", "tail", "chronological"]


@dataclass(frozen=True)
class Cursor:
    """A place in one session.

    `position` counts rows of this part passed so far: in the slate it is where the page starts.
    `base` is how many posts the chain was served before this snapshot (in the tail: before the
    tail). `key` is the place below which the tail or the chronological list goes on.
    """

    viewer_id: int
    requested: str  # the mode asked for at the open; '' when none was
    part: Part
    session_id: str
    opened_ms: int
    mode_reason: str
    position: int = 0
    snapshot_id: str = ""
    nonce: str = ""
    base: int = 0
    key: Key | None = None


class CursorSigner:
    """Writes and reads cursors under rotating keys: the first signs, all are accepted."""

    def __init__(self, keys: list[str]) -> None:
        """Use these secrets, at least one."""
        self._keys = [key.encode() for key in keys]

    def write(self, cursor: Cursor) -> str:
        """Return the text of a cursor."""
        key = cursor.key and list(cursor.key)
        payload = orjson.dumps({**vars(cursor), "key": key, "v": VERSION})
        return _encode(payload + _signature(self._keys[0], payload))

    def read(self, text: str, *, viewer_id: int, requested: str | None) -> Cursor:
        """Return the cursor that this text is; `requested` None: whatever mode it was opened in.

        Raises:
            CursorInvalid: Not a cursor of this service for this viewer, or not exactly its text.
            CursorModeMismatch: The mode requested now is not the one requested at the open.
        """
        payload = self._payload(text)
        fields = orjson.loads(payload)
        if fields.pop("v") != VERSION:
            raise CursorInvalid("This cursor is of another version; open the feed again.")
        fields["key"] = fields["key"] and Key(*fields["key"])
        cursor = Cursor(**fields)
        if cursor.viewer_id != viewer_id:
            raise CursorInvalid("This cursor was given to another viewer; open the feed again.")
        if requested is not None and cursor.requested != requested:
            raise CursorModeMismatch(
                f"This feed was opened with mode={cursor.requested or '(none)'}; "
                "repeat that mode with the cursor, or open the feed again without one."
            )
        return cursor

    def _payload(self, text: str) -> bytes:
        broken = CursorInvalid("This is not a cursor of this service; open the feed again.")
        if len(text) > MAX_TEXT or not text.isascii():
            raise broken
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise broken from None
        payload, signature = raw[:-SIGNATURE_BYTES], raw[-SIGNATURE_BYTES:]
        signed = [hmac.compare_digest(signature, _signature(key, payload)) for key in self._keys]
        if not any(signed) or _encode(raw) != text:
            raise broken
        return payload


def cursor_keys(settings: Settings) -> list[str]:
    """Return the secrets that sign cursors, the first of them for new ones.

    Raises:
        Misconfigured: There is none, or one is too short to be a secret.
    """
    keys = [key.strip() for key in settings.cursor_keys.split(",") if key.strip()]
    if not keys or min(len(key.encode()) for key in keys) < MIN_KEY_BYTES:
        raise Misconfigured(
            f"FORYOU_CURSOR_KEYS must hold a secret of {MIN_KEY_BYTES} bytes or more, the same on "
            "every api process; to rotate, put a new one in front, separated by a comma."
        )
    return keys


def _signature(key: bytes, payload: bytes) -> bytes:
    return hmac.digest(key, payload, "sha256")[:SIGNATURE_BYTES]


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
