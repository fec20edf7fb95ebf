"""Edges of the graph change once, owe their events once, and list newest first."""

from datetime import UTC, datetime
from typing import Any

import pytest

from storage import graph
from storage.connections import Connection, Postgres

pytestmark = pytest.mark.anyio


async def events(connection: Connection) -> list[tuple[int, int]]:
    found = await connection.execute(
        "SELECT payload FROM outbox_events WHERE type = 'relation.changed'"
    )
    return sorted((p["viewer_id"], p["author_id"]) for (p,) in await found.fetchall())


async def deltas(connection: Connection) -> list[Any]:
    found = await connection.execute("SELECT author_id, delta FROM follower_deltas ORDER BY id")
    return await found.fetchall()


async def test_following_twice_changes_once(postgres: Postgres) -> None:
    async with postgres.transaction() as connection:
        assert await graph.follow(connection, 1, 2)
        assert not await graph.follow(connection, 1, 2)
        assert await deltas(connection) == [(2, 1)]
        assert await graph.unfollow(connection, 1, 2)
        assert not await graph.unfollow(connection, 1, 2)
        assert await deltas(connection) == [(2, 1), (2, -1)]
        assert await events(connection) == [(1, 2), (1, 2)]


async def test_many_edges_report_the_new_ones(postgres: Postgres) -> None:
    async with postgres.transaction() as connection:
        await graph.follow(connection, 1, 2)
        assert await graph.follow_many(connection, [(1, 2), (3, 2), (3, 2)]) == {(3, 2)}
        assert await graph.unfollow_many(connection, [(1, 2), (9, 2)]) == {(1, 2)}
        assert await graph.follow_many(connection, []) == set()


async def test_a_block_suppresses_both_ways_and_an_unblock_restores(postgres: Postgres) -> None:
    async with postgres.transaction() as connection:
        await graph.follow(connection, 1, 2)
        assert await graph.follows_unblocked(connection, 1, 2)
        assert await graph.block(connection, 2, 1)
        assert not await graph.block(connection, 2, 1)
        assert await graph.blocked_between(connection, 1, 2)
        assert await graph.blocked_between(connection, 2, 1)
        assert not await graph.follows_unblocked(connection, 1, 2)
        assert await events(connection) == [(1, 2), (1, 2), (2, 1)]
        assert await graph.unblock(connection, 2, 1)
        assert not await graph.unblock(connection, 2, 1)
        assert await graph.follows_unblocked(connection, 1, 2)
        assert await deltas(connection) == [(2, 1)]


async def test_mutes_and_hidden_posts_owe_no_event(postgres: Postgres) -> None:
    until = datetime(2100, 1, 1, tzinfo=UTC)
    async with postgres.transaction() as connection:
        assert await graph.mute(connection, 1, 2)
        assert not await graph.mute(connection, 1, 2)
        assert await graph.mute(connection, 1, 2, until)
        [row] = await graph.list_relations(connection, "mutes", 1, None, 10)
        assert (row.id, row.until) == (2, until)
        assert await graph.unmute(connection, 1, 2)
        assert not await graph.unmute(connection, 1, 2)
        assert await graph.hide(connection, 1, 7)
        assert not await graph.hide(connection, 1, 7, "not_interested")
        assert await graph.unhide(connection, 1, 7)
        assert not await graph.unhide(connection, 1, 7)
        assert await events(connection) == []


@pytest.mark.parametrize("kind", ["follows", "blocks", "mutes", "hidden"])
async def test_lists_page_newest_first_through_ties(postgres: Postgres, kind: graph.Kind) -> None:
    make = {
        "follows": graph.follow,
        "blocks": graph.block,
        "mutes": graph.mute,
        "hidden": graph.hide,
    }[kind]
    async with postgres.transaction() as connection:  # one transaction: all in one microsecond
        for other in range(2, 9):
            await make(connection, 1, other)
    seen, before = [], None
    async with postgres.connection() as connection:
        while page := await graph.list_relations(connection, kind, 1, before, 3):
            seen += [row.id for row in page]
            before = (page[-1].created_at, page[-1].id)
    assert seen == [8, 7, 6, 5, 4, 3, 2]
