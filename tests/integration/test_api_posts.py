"""Posts over HTTP."""

import asyncio
from typing import Any

import pytest

from storage.connections import Postgres
from tests.integration.api_client import Client

pytestmark = pytest.mark.anyio


async def rows(postgres: Postgres, query: Any, *values: Any) -> list[tuple[Any, ...]]:
    async with postgres.connection() as connection:
        return await (await connection.execute(query, values)).fetchall()


async def test_a_post_is_answered_as_written_and_read_by_others(api: Client) -> None:
    """A first write creates its author; body and media come back trimmed and whole."""
    fields = {
        "body": "  hello 👩‍👩‍👧‍👦 ",
        "media": [{"url": "https://x.example/a.png", "alt": "a"}],
        "lang": "en",
    }
    answer = await api.call("POST", "/posts", 7, fields)
    assert answer.status_code == 201
    post = answer.json()
    assert post["body"] == "hello 👩‍👩‍👧‍👦"
    assert post["format"] == "image"
    assert post["author"] == {"id": "7", "name": "user 7"}
    assert post["media"] == fields["media"]
    assert post["created_at"].endswith("Z") and len(post["created_at"]) == 24
    assert post["counts"] == {"likes": 0, "comments": 0, "reposts": 0}
    read = await api.call("GET", f"/posts/{post['id']}", 8)
    assert read.json() == post


async def test_a_post_and_its_event_commit_together(
    api: Client, postgres: Postgres, delivery: str
) -> None:
    """Each post leaves one outbox event, and owes one delivery unless everybody is pulled."""
    post_id = await api.post(7)
    events = await rows(
        postgres,
        "SELECT type, payload, count(d.id) FROM outbox_events e"
        " LEFT JOIN deliveries d ON d.event_id = e.id GROUP BY e.id",
    )
    ((kind, payload, n_owed),) = events
    assert (kind, payload["post_id"], payload["author_id"]) == ("post.created", int(post_id), 7)
    assert n_owed == (delivery != "pull")


WRONG_POSTS: list[Any] = [
    {},
    [],
    None,
    "text",
    {"body": ""},
    {"body": "   \n"},
    {"body": 5},
    {"body": None},
    {"body": "a\x00b"},
    {"body": "x" * 10_001},
    {"body": "x", "zz": 1},
    {"body": "x", "format": "audio"},
    {"body": "x", "lang": "e\n"},
    {"body": "x", "lang": "english language"},
    {"body": "x", "media": [{"url": "javascript:alert(1)"}]},
    {"body": "x", "media": [{"url": "https://a.example/" + "x" * 2_000}]},
    {"body": "x", "media": [{"url": "https://a.example", "zz": 1}]},
    {"body": "x", "media": [{"url": "https://a.example"}] * 11},
    {"body": "x", "media": "https://a.example"},
    {"body": "x", "repost_of": "-1"},
    {"body": "x", "repost_of": "0"},
    {"body": "x", "repost_of": 1.5},
    {"body": "x", "repost_of": True},
    {"body": "x", "repost_of": "12345"},
    {"body": "x", "reply_to": str(2**63)},
    {"body": "x", "reply_to": "٣"},
    {"body": "x", "reply_to": " 1"},
]


async def test_a_wrong_post_is_refused(api: Client, postgres: Postgres) -> None:
    """What is wrong is 422 and leaves nothing behind."""
    for fields in WRONG_POSTS:
        answer = await api.call("POST", "/posts", 7, fields)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid"), fields
    assert await rows(postgres, "SELECT count(*) FROM posts") == [(0,)]


HARDLY_JSON = [
    b"",
    b"{",
    b"\xff\xfe",
    b'{"body": "\\ud800"}',
    b'{"\\ud800": 1}',
    b'{"body": "a\\u0000b"}',
    b'{"body": "x", "reply_to": NaN}',
    b'{"body": "x", "reply_to": ' + b"9" * 5_000 + b"}",
    b"[" * 50_000,
]


async def test_a_body_that_is_hardly_json_is_refused(api: Client) -> None:
    """No shape of bytes is a 500."""
    for body in HARDLY_JSON:
        answer = await api.call("POST", "/posts", 7, body)
        assert answer.status_code in (400, 422), body[:80]


ODD_TEXTS = ["שלום עולם", "a\u202eb", "'; DROP TABLE posts; --", "<script>alert(1)</script>"]


async def test_odd_text_is_kept_as_it_is(api: Client) -> None:
    """Text is text, up to 10,000 characters."""
    for body in [*ODD_TEXTS, "x" * 10_000, " " * 5_000 + "👩" * 10_000]:
        answer = await api.call("POST", "/posts", 7, {"body": body})
        assert (answer.status_code, answer.json()["body"]) == (201, body.strip())


IMPOSSIBLE_IDS = ["0", "-1", "abc", "1.0", "+1", "01", "%D9%A3", str(2**63), "9" * 30]


async def test_an_impossible_id_is_refused(api: Client) -> None:
    """Ids are positive 64-bit integers."""
    for post_id in IMPOSSIBLE_IDS:
        for method, body in (("GET", None), ("PATCH", {"body": "x"}), ("DELETE", None)):
            answer = await api.call(method, f"/posts/{post_id}", 7, body)
            assert answer.status_code == 422, post_id


async def test_the_same_key_and_body_give_the_same_post(api: Client, postgres: Postgres) -> None:
    """Also when many requests arrive at once; another body conflicts, another user does not."""
    asked = [
        api.call("POST", "/posts", 7, {"body": "once"}, Idempotency_Key="k-1") for _ in range(8)
    ]
    answers = await asyncio.gather(*asked)
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert await rows(postgres, "SELECT count(*) FROM posts") == [(1,)]
    other = await api.call("POST", "/posts", 7, {"body": "twice"}, Idempotency_Key="k-1")
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    mine = await api.call("POST", "/posts", 8, {"body": "once"}, Idempotency_Key="k-1")
    assert mine.status_code == 201


async def test_a_key_is_forgotten_after_a_day(api: Client, postgres: Postgres) -> None:
    """Then it makes a new post."""
    first = await api.call("POST", "/posts", 7, {"body": "x"}, Idempotency_Key="k")
    async with postgres.connection() as connection:
        await connection.execute(
            "UPDATE idempotency_keys SET created_at = now() - interval '25 hours'"
        )
    second = await api.call("POST", "/posts", 7, {"body": "y"}, Idempotency_Key="k")
    assert second.status_code == 201
    assert second.json()["id"] != first.json()["id"]


async def test_an_odd_key_is_refused(api: Client) -> None:
    """Keys are printable ASCII."""
    for key in [b"", b" ", b"x" * 256, "ключ".encode(), b"a b"]:
        headers = [(b"X-User-Id", b"7"), (b"Idempotency-Key", key)]
        answer = await api.http.post("/api/v1/posts", json={"body": "x"}, headers=headers)
        assert answer.status_code == 422, key


async def test_only_the_author_edits_and_deletes(api: Client) -> None:
    """403 for others; an edit says so; a deleted post is 404, deleting it again 204."""
    post_id = await api.post(7)
    assert (await api.call("PATCH", f"/posts/{post_id}", 8, {"body": "x"})).status_code == 403
    assert (await api.call("DELETE", f"/posts/{post_id}", 8)).status_code == 403
    assert (await api.call("POST", f"/posts/{post_id}/restore", 8)).status_code == 403
    edited = await api.call("PATCH", f"/posts/{post_id}", 7, {"body": "new"})
    assert edited.json()["body"] == "new" and edited.json()["edited_at"]
    assert (await api.call("PATCH", f"/posts/{post_id}", 7, {"body": " "})).status_code == 422
    for _ in range(2):
        assert (await api.call("DELETE", f"/posts/{post_id}", 7)).status_code == 204
    for user in (7, 8):
        assert (await api.call("GET", f"/posts/{post_id}", user)).status_code == 404
    # What is deleted is not told to exist.
    assert (await api.call("DELETE", f"/posts/{post_id}", 8)).status_code == 404
    assert (await api.call("PATCH", f"/posts/{post_id}", 7, {"body": "x"})).status_code == 404
    for _ in range(2):
        restored = await api.call("POST", f"/posts/{post_id}/restore", 7)
        assert (restored.status_code, restored.json()["body"]) == (200, "new")
    assert (await api.call("GET", f"/posts/{post_id}", 8)).status_code == 200
    for method, path in (("PATCH", "99"), ("DELETE", "99"), ("POST", "99/restore")):
        body = {"body": "x"} if method == "PATCH" else None
        assert (await api.call(method, f"/posts/{path}", 7, body)).status_code == 404


async def test_a_block_hides_posts_and_refuses_replies(api: Client) -> None:
    """Either way; the one who is blocked learns nothing but "no such post"."""
    post_id = await api.post(7)
    await api.people(8)
    assert (await api.call("PUT", "/blocks/8", 7)).status_code == 204
    assert (await api.call("GET", f"/posts/{post_id}", 8)).status_code == 404
    assert (await api.call("DELETE", f"/posts/{post_id}", 8)).status_code == 404
    reply = await api.call("POST", "/posts", 8, {"body": "x", "reply_to": post_id})
    assert reply.status_code == 422


async def test_a_repost_of_a_repost_points_at_the_original(api: Client) -> None:
    """A repost needs no body."""
    original = await api.post(7)
    first = await api.post(8, "", repost_of=original)
    second = await api.call("POST", "/posts", 9, {"repost_of": int(first)})
    assert second.json()["repost_of"] == original
