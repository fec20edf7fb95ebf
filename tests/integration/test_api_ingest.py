"""Ingest over HTTP: NDJSON, line by line judged, batch by batch written."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from storage.connections import Postgres
from tests.integration.api_client import Client
from tests.integration.test_api_posts import rows

pytestmark = pytest.mark.anyio


def post(id: int | None, author: int = 1, body: str = "hello", **fields: Any) -> dict[str, Any]:
    line = {"kind": "post", "author_id": str(author), "body": body, **fields}
    return line if id is None else {**line, "id": str(id)}


def summary(answer: dict[str, Any]) -> tuple[int, int, list[tuple[int, str]]]:
    rejected = [(each["line"], each["code"]) for each in answer["rejected"]]
    return answer["accepted"], answer["unchanged"], rejected


async def raw(api: Client, body: bytes, scope: str = "ingest") -> Any:
    return await api.call("POST", "/ingest", 1, body, scope=scope)


async def test_all_kinds_in_one_request_and_the_same_again(api: Client, postgres: Postgres) -> None:
    """A second time nothing changes."""
    now = datetime.now(UTC).isoformat()
    like = {"kind": "event", "viewer_id": "2", "event_id": str(uuid4()), "type": "like", "at": now}
    lines = [
        {"kind": "user", "id": "1", "name": "Ada"},
        {"kind": "user", "id": 2, "name": "Bob"},
        {"kind": "follow", "follower_id": "2", "followee_id": "1"},
        post(100, created_at="2020-01-01T00:00:00.123Z"),
        post(101, 2, "", repost_of="100"),
        post(102, 1, "re", reply_to="101"),
        {**like, "post_id": "100"},
    ]
    assert summary(await api.ingest(*lines)) == (7, 0, [])
    assert summary(await api.ingest(*lines)) == (0, 7, [])
    assert await rows(postgres, "SELECT count(*) FROM outbox_events") == [(4,)]
    old = await rows(postgres, "SELECT effective_ms FROM posts WHERE id = 100")
    assert old == [(1_577_836_800_123,)]
    undo = [
        {"kind": "unfollow", "follower_id": "2", "followee_id": "1"},
        {"kind": "delete", "post_id": "100"},
    ]
    assert summary(await api.ingest(*undo)) == (2, 0, [])
    assert summary(await api.ingest(*undo)) == (0, 2, [])
    assert await rows(postgres, "SELECT count(*) FROM outbox_events") == [(6,)]


async def test_each_refused_line_is_named(api: Client) -> None:
    """And the lines between them are taken."""
    await api.ingest({"kind": "user", "id": "1", "name": "Ada"}, post(50))
    ahead = (datetime.now(UTC) + timedelta(minutes=6)).isoformat()
    nearly = (datetime.now(UTC) + timedelta(minutes=4)).isoformat()
    lines: list[tuple[bytes | dict[str, Any], str | None]] = [
        (b"{", "invalid"),
        (b"\xff", "invalid"),
        (b"[" * 5_000, "invalid"),
        (b"[]", "invalid"),
        (b"null", "invalid"),
        (b'"post"', "invalid"),
        (b"{}", "invalid"),
        (b'{"kind": "like"}', "invalid"),
        (b'{"kind": ["post"]}', "invalid"),
        (b'{"kind": "user", "id": 1e3, "name": "x"}', "invalid"),
        (b'{"kind": "user", "id": 99999999999999999999, "name": "x"}', "invalid"),
        (b'{"kind": "user", "id": "3", "name": "\\ud800"}', "invalid"),
        (b'{"kind": "user", "id": "3", "name": "a\\u0000"}', "invalid"),
        ({"kind": "user", "id": "3", "name": "Cy", "zz": 1}, "invalid"),
        ({"kind": "user", "id": "3", "name": "Cy"}, None),
        (post(60, 99), "unknown_user"),
        (post(50, body="other"), "conflict"),
        (post(61, created_at=ahead), "in_future"),
        (post(62, created_at=nearly), None),
        (post(63, created_at="1969-12-31T23:59:59Z"), "invalid"),
        (post(64, reply_to="64"), "unknown_post"),
        (post(65, repost_of="999"), "unknown_post"),
        (post(66, reply_to="62"), None),
        (post(2**63), "invalid"),
        (post(2**63 - 1), None),
        (post(None), None),
        ({"kind": "follow", "follower_id": "1", "followee_id": "1"}, "invalid"),
        ({"kind": "follow", "follower_id": "1", "followee_id": "99"}, "unknown_user"),
        ({"kind": "follow", "follower_id": "1", "followee_id": "3"}, None),
        ({"kind": "delete", "post_id": "999"}, "unknown_post"),
        ({"kind": "event", "viewer_id": "1"}, "invalid"),
    ]
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line, _ in lines]
    answer = await raw(api, b"\n".join(texts) + b"\n")
    assert answer.status_code == 200
    accepted, unchanged, rejected = summary(answer.json())
    expected = [(n, code) for n, (_, code) in enumerate(lines, start=1) if code]
    assert rejected == expected
    assert (accepted, unchanged) == (len(lines) - len(expected), 0)


async def test_effective_time_is_the_earlier_of_created_and_received(
    api: Client, postgres: Postgres
) -> None:
    """What claims to be from the future is not above what is written now."""
    nearly = (datetime.now(UTC) + timedelta(minutes=4)).isoformat()
    await api.ingest({"kind": "user", "id": "1", "name": "Ada"}, post(1, created_at=nearly))
    ((late,),) = await rows(
        postgres, "SELECT effective_ms > extract(epoch FROM now()) * 1000 FROM posts"
    )
    assert not late


async def test_one_id_twice_in_a_batch(api: Client, postgres: Postgres) -> None:
    """The first is written; the same again changes nothing; another one conflicts."""
    answer = await api.ingest(
        {"kind": "user", "id": "1", "name": "A"},
        {"kind": "user", "id": "1", "name": "B"},
        post(5),
        post(5),
        post(5, body="other"),
        {"kind": "delete", "post_id": "5"},
        {"kind": "delete", "post_id": "5"},
    )
    assert summary(answer) == (3, 3, [(5, "conflict")])
    assert await rows(postgres, "SELECT name FROM users") == [("B",)]


async def test_a_chain_of_reposts_in_one_batch_points_at_the_original(
    api: Client, postgres: Postgres
) -> None:
    """However long, and also where it begins with a repost that is there."""
    reposts = [post(id, body="", repost_of=str(id - 1)) for id in (11, 12, 13, 14)]
    await api.ingest({"kind": "user", "id": "1", "name": "A"}, post(10), reposts[0])
    await api.ingest(*reposts[1:])
    roots = await rows(postgres, "SELECT DISTINCT repost_of FROM posts WHERE id > 10")
    assert roots == [(10,)]


async def test_a_chain_of_reposts_in_one_batch_stops_at_a_quote(
    api: Client, postgres: Postgres
) -> None:
    """It has words of its own."""
    quote = post(11, body="well said", repost_of="10")
    reposts = [post(id, body="", repost_of=str(id - 1)) for id in (12, 13)]
    await api.ingest({"kind": "user", "id": "1", "name": "A"}, post(10), quote, *reposts)
    roots = await rows(postgres, "SELECT id, repost_of FROM posts WHERE id > 10 ORDER BY id")
    assert roots == [(11, 10), (12, 11), (13, 11)]


async def test_blocked_users_neither_follow_nor_reply(api: Client) -> None:
    """As over the other routes."""
    await api.people(1, 2)
    await api.ingest(post(5, 1))
    await api.call("PUT", "/blocks/2", 1)
    answer = await api.ingest(
        {"kind": "follow", "follower_id": "2", "followee_id": "1"}, post(6, 2, reply_to="5")
    )
    assert summary(answer) == (0, 0, [(1, "forbidden"), (2, "unknown_post")])


async def test_the_bounds_of_a_request(api: Client) -> None:
    """10,000 lines; not 10,001; blank lines keep their numbers; nothing at all is nothing."""
    line = b'{"kind": "user", "id": "%d", "name": "x"}'
    most = b"\n".join(line % (n + 1) for n in range(10_000))
    answer = await raw(api, most + b"\n")
    assert answer.json() == {"accepted": 10_000, "unchanged": 0, "rejected": []}
    assert (await raw(api, most + b"\n" + line % 1)).status_code == 422
    answer = await raw(api, b"\n\r\n  \nx\n")
    assert summary(answer.json()) == (0, 0, [(4, "invalid")])
    for nothing in (b"", b"\n\n"):
        assert (await raw(api, nothing)).json() == {"accepted": 0, "unchanged": 0, "rejected": []}
    assert (await raw(api, most, scope="")).status_code == 403


async def test_the_same_lines_at_once_are_taken_once(api: Client, postgres: Postgres) -> None:
    """Overlapping requests neither deadlock nor double."""
    people = [{"kind": "user", "id": str(n), "name": f"u{n}"} for n in range(1, 41)]
    follows = [
        {"kind": "follow", "follower_id": str(n), "followee_id": str(n % 40 + 1)}
        for n in range(1, 41)
    ]
    posts = [post(n, n % 40 + 1) for n in range(1, 201)]
    now = datetime.now(UTC).isoformat()
    events = [
        {
            "kind": "event",
            "viewer_id": str(n % 40 + 1),
            "event_id": str(uuid4()),
            "type": "like",
            "post_id": str(n),
            "at": now,
        }
        for n in range(1, 201)
    ]
    await api.ingest(*people)
    forward, backward = [*follows, *posts, *events], [*follows[::-1], *posts[::-1], *events[::-1]]
    answers = await asyncio.gather(
        *(api.ingest(*lines) for lines in (forward, backward, forward, backward))
    )
    assert sum(answer["accepted"] for answer in answers) >= 440
    assert await rows(postgres, "SELECT count(*) FROM posts") == [(200,)]
    assert await rows(postgres, "SELECT sum(likes) FROM engagement_deltas") == [(200,)]
    assert await rows(postgres, "SELECT count(*), sum(delta) FROM follower_deltas") == [(40, 40)]
