"""Cursors: opaque, signed, bound to a viewer and to the requested mode, exactly one text each."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feed.errors import CursorInvalid, CursorModeMismatch
from feed.order import MAX_ID, MAX_MS, Key
from snapshots.cursor import Cursor, CursorSigner

SIGNER = CursorSigner(["new", "old"])
CURSOR = Cursor(
    viewer_id=42,
    requested="ranked",
    part="tail",
    session_id="s",
    opened_ms=1_700_000_000_000,
    mode_reason="request",
    position=20,
    snapshot_id="snap",
    nonce="n",
    base=20,
    key=Key(MAX_MS, MAX_ID),
)
TEXT = SIGNER.write(CURSOR)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def read(text: str) -> Cursor:
    return SIGNER.read(text, viewer_id=42, requested="ranked")


def test_a_cursor_comes_back_as_it_was_written() -> None:
    assert read(TEXT) == CURSOR
    keyless = replace(CURSOR, key=None)
    assert read(SIGNER.write(keyless)) == keyless


def test_no_character_can_be_changed() -> None:
    for place, there in enumerate(TEXT):
        for letter in set(LETTERS) - {there}:
            with pytest.raises(CursorInvalid):
                read(TEXT[:place] + letter + TEXT[place + 1 :])


@settings(max_examples=50)
@given(st.text(max_size=200) | st.binary(max_size=150).map(bytes.hex))
def test_no_other_text_is_a_cursor(text: str) -> None:
    with pytest.raises(CursorInvalid):
        read(text)


@pytest.mark.parametrize("length", [0, 1, 30, len(TEXT) - 1])
def test_a_truncated_cursor_is_refused(length: int) -> None:
    with pytest.raises(CursorInvalid):
        read(TEXT[:length])


@pytest.mark.parametrize("more", ["A", "=", "==", " ", "\n", "A" * 10_000])
def test_a_longer_cursor_is_refused(more: str) -> None:
    with pytest.raises(CursorInvalid):
        read(TEXT + more)


def test_anothers_cursor_is_refused() -> None:
    with pytest.raises(CursorInvalid):
        SIGNER.read(TEXT, viewer_id=43, requested="ranked")


@pytest.mark.parametrize("requested", ["chronological", ""])
def test_another_mode_than_requested_at_the_open_is_refused(requested: str) -> None:
    with pytest.raises(CursorModeMismatch):
        SIGNER.read(TEXT, viewer_id=42, requested=requested)


def test_a_cursor_of_a_service_with_other_keys_is_refused() -> None:
    with pytest.raises(CursorInvalid):
        CursorSigner(["another"]).read(TEXT, viewer_id=42, requested="ranked")


def test_a_cursor_signed_before_keys_were_rotated_is_accepted() -> None:
    assert read(CursorSigner(["old"]).write(CURSOR)) == CURSOR
    assert CursorSigner(["new"]).write(CURSOR) == TEXT
