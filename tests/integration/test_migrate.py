"""Migrations run once; partitions are made ahead; node numbers are leased to one owner."""

import asyncio
from datetime import date
from uuid import UUID

import pytest

from storage.connections import Postgres
from storage.migrate import drop_partitions, ensure_partitions, migrate
from storage.nodes import lease_node, release, renew

pytestmark = pytest.mark.anyio

ONE, TWO = UUID(int=1), UUID(int=2)


async def test_a_migrated_database_has_nothing_left_to_apply(postgres: Postgres) -> None:
    async with postgres.connection() as connection:
        assert await migrate(connection) == []


async def test_partitions_take_the_rows_that_waited_in_the_default(postgres: Postgres) -> None:
    day = date(2026, 1, 3)
    async with postgres.connection() as connection:
        await connection.execute(
            "INSERT INTO engagements (day, viewer_id, event_id, type, post_id, at)"
            " VALUES (%s, 1, gen_random_uuid(), 'click', 1, now())",
            [day],
        )
        made = await ensure_partitions(connection, date(2026, 1, 2))
        assert len(made) == 16
        assert await ensure_partitions(connection, date(2026, 1, 2)) == []
        rows = await connection.execute("SELECT tableoid::regclass::text, day FROM engagements")
        assert await rows.fetchall() == [("engagements_20260103", day)]


async def test_logs_are_dropped_by_the_day_and_events_are_kept(postgres: Postgres) -> None:
    """Nobody waits behind a drop: while a log is read it is left for later."""
    async with postgres.connection() as connection:
        await ensure_partitions(connection, date(2026, 1, 2))
        async with postgres.transaction() as reading:
            await reading.execute("SELECT FROM slates")
            assert await drop_partitions(connection, date(2026, 1, 3)) == []
        dropped = await drop_partitions(connection, date(2026, 1, 3))
        assert dropped == [
            f"{log}_2026010{n}" for log in ("folded", "served", "slates") for n in (1, 2)
        ]
        await ensure_partitions(connection, date(2026, 1, 2))
        assert len(await drop_partitions(connection, date(2026, 1, 5))) == 12
        kept = await connection.execute("SELECT to_regclass('engagements_20260101') IS NULL")
        assert await kept.fetchone() == (False,)


async def test_processes_that_start_together_get_numbers_of_their_own(postgres: Postgres) -> None:
    async def lease(n: int) -> int:
        async with postgres.connection() as connection:
            return await lease_node(connection, UUID(int=n))

    assert sorted(await asyncio.gather(*map(lease, range(8)))) == list(range(8))


async def test_a_number_is_leased_again_only_when_its_lease_is_over(postgres: Postgres) -> None:
    async with postgres.connection() as connection:
        node = await lease_node(connection, ONE)
        assert await renew(connection, node, ONE)
        assert not await renew(connection, node, TWO)
        await release(connection, node, ONE)
        assert await lease_node(connection, TWO) != node  # a number never used comes first
        await connection.execute("DELETE FROM nodes WHERE node <> %s", [node])
        await connection.execute(
            "INSERT INTO nodes SELECT n, %s, now() + interval '1 h'"
            " FROM generate_series(0, 1023) n WHERE n <> %s",
            [TWO, node],
        )
        assert await lease_node(connection, TWO) == node
        assert not await renew(connection, node, ONE)
