"""Posts are written, deleted and restored together with their event and their parents' counters."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from feed.errors import NotAllowed, NotFound
from storage.connections import Connection, Postgres
from storage.delivery_state import stop_delivering
from storage.posts import (
    NewPost,
    delete_post,
    delivery_of,
    edit_post,
    insert_post,
    insert_posts,
    restore_post,
)

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def post(id: int, author_id: int = 1, **fields: Any) -> NewPost:
    return replace(
        NewPost(
            id=id,
            author_id=author_id,
            body="hello",
            created_at=NOW,
            received_at=NOW,
            effective_ms=int(NOW.timestamp() * 1000),
            delivery="push",
        ),
        **fields,
    )


async def people(connection: Connection, *ids: int) -> None:
    await connection.execute(
        "INSERT INTO users (id, name) SELECT id, 'u' || id FROM unnest(%s::bigint[]) id",
        [list(ids)],
    )


async def rows(connection: Connection, query: Any, values: Sequence[Any] = ()) -> list[Any]:
    return await (await connection.execute(query, values)).fetchall()


async def owed(connection: Connection) -> list[Any]:
    return await rows(
        connection,
        "SELECT post_id, sum(comments), sum(reposts), sum(weight) FROM engagement_deltas"
        " WHERE posts = 0"
        " GROUP BY post_id ORDER BY post_id",
    )


async def event_types(connection: Connection) -> list[str]:
    found = await rows(connection, "SELECT type FROM outbox_events")
    return sorted(type for (type,) in found)


async def test_a_post_and_its_event_commit_together(postgres: Postgres) -> None:
    async with postgres.transaction() as connection:
        await people(connection, 1)
        assert await insert_post(connection, post(5))
    async with postgres.connection() as connection:
        [(type, payload, chunk)] = await rows(
            connection,
            "SELECT type, payload, chunk FROM outbox_events e JOIN deliveries d ON e.id = event_id",
        )
    assert (type, chunk) == ("post.created", 0)
    assert payload == {
        "post_id": 5,
        "author_id": 1,
        "ms": int(NOW.timestamp() * 1000),
        "delivery": "push",
    }


async def test_neither_is_there_when_the_transaction_fails(postgres: Postgres) -> None:
    with pytest.raises(ZeroDivisionError):
        async with postgres.transaction() as connection:
            await people(connection, 1)
            await insert_post(connection, post(5))
            raise ZeroDivisionError
    async with postgres.connection() as connection:
        assert await rows(connection, "SELECT FROM posts") == []
        assert await rows(connection, "SELECT FROM outbox_events") == []
        assert await rows(connection, "SELECT FROM deliveries") == []


async def test_a_taken_id_changes_nothing(postgres: Postgres) -> None:
    async with postgres.transaction() as connection:
        await people(connection, 1)
        assert await insert_post(connection, post(5))
        assert not await insert_post(connection, post(5, body="other"))
        assert await insert_posts(connection, [post(5), post(6), post(6, body="twice")]) == {6}
        assert await rows(connection, "SELECT id, body FROM posts ORDER BY id") == [
            (5, "hello"),
            (6, "hello"),
        ]
        assert await event_types(connection) == ["post.created"] * 2


async def test_a_repost_of_a_repost_points_at_the_original(postgres: Postgres) -> None:
    async with postgres.transaction() as connection:
        await people(connection, 1)
        await insert_post(connection, post(5))
        await insert_post(connection, post(6, body="", repost_of=5))
        both = [post(7, body="", repost_of=6), post(8, body="", repost_of=7)]
        await insert_posts(connection, both)
        found = await rows(connection, "SELECT id, repost_of FROM posts ORDER BY id")
    assert found == [(5, None), (6, 5), (7, 5), (8, 5)]


async def test_a_repost_of_a_quote_points_at_the_quote(postgres: Postgres) -> None:
    """A quote has words of its own."""
    async with postgres.transaction() as connection:
        await people(connection, 1)
        await insert_post(connection, post(5))
        await insert_post(connection, post(6, repost_of=5, body="well said"))
        both = [post(7, body="", repost_of=6), post(8, body="", repost_of=7)]
        await insert_posts(connection, both)
        found = await rows(connection, "SELECT id, repost_of FROM posts ORDER BY id")
    assert found == [(5, None), (6, 5), (7, 6), (8, 6)]


async def test_replies_and_reposts_count_until_they_are_deleted(postgres: Postgres) -> None:
    async with postgres.transaction() as connection:
        await people(connection, 1, 2)
        await insert_post(connection, post(5))
        await insert_post(connection, post(6, author_id=2, reply_to=5))
        await insert_post(connection, post(7, author_id=2, repost_of=5))
        assert await owed(connection) == [(5, 1, 1, 6.0)]
        assert await delete_post(connection, 2, 6)
        assert not await delete_post(connection, 2, 6)
        assert await owed(connection) == [(5, 0, 1, 3.0)]
        assert await restore_post(connection, 2, 6)
        assert not await restore_post(connection, 2, 6)
        assert await owed(connection) == [(5, 1, 1, 6.0)]
        assert await event_types(connection) == [
            *["post.created"] * 3,
            "post.deleted",
            "post.restored",
        ]


async def test_only_the_author_may_change_a_post(postgres: Postgres) -> None:
    async with postgres.transaction() as connection:
        await people(connection, 1, 2)
        await insert_post(connection, post(5))
        with pytest.raises(NotAllowed):
            await delete_post(connection, 2, 5)
        with pytest.raises(NotAllowed):
            await edit_post(connection, 2, 5, body="mine", now=NOW)
        with pytest.raises(NotFound):
            await delete_post(connection, 1, 6)
        await edit_post(connection, 1, 5, body="better", now=NOW)
        assert await rows(connection, "SELECT body, edited_at FROM posts") == [("better", NOW)]
        assert await delete_post(connection, None, 5)
        with pytest.raises(NotFound):
            await edit_post(connection, 1, 5, body="gone", now=NOW)


async def test_delivery_is_the_writers_side_of_the_switch(postgres: Postgres) -> None:
    async with postgres.transaction() as connection:
        await connection.execute(
            "INSERT INTO author_delivery (author_id, readers_pull, writers_pull)"
            " VALUES (1, true, true), (2, true, false)"
        )
        assert await delivery_of(connection, 1) == "pull"
        assert await delivery_of(connection, 2) == "push"
        assert await delivery_of(connection, 3) == "push"
        await stop_delivering(connection)
        assert await delivery_of(connection, 3) == "pull"


async def test_a_restored_post_is_delivered_as_its_author_is_now(postgres: Postgres) -> None:
    async with postgres.transaction() as connection:
        await people(connection, 1)
        await insert_post(connection, post(5, delivery="pull"))
        await delete_post(connection, 1, 5)
        await restore_post(connection, 1, 5)
        assert await rows(connection, "SELECT delivery FROM posts") == [("push",)]
