"""What a transaction of the service sees does not depend on how the server is set."""

import pytest

from storage.connections import Postgres

pytestmark = pytest.mark.anyio


async def test_a_transaction_sees_what_was_committed_since_it_began(
    postgres: Postgres, database_url: str
) -> None:
    """A rebuild marks a list first and reads the truth then: not one of before the mark."""
    name = database_url.rpartition("/")[2].partition("?")[0]
    async with postgres.connection() as connection:
        for strict in ("repeatable read", "serializable"):
            await connection.execute(
                f'ALTER DATABASE "{name}" SET default_transaction_isolation = "{strict}"'
            )
            other = Postgres(database_url, connections=1)
            await other.open()
            try:
                async with other.transaction() as within:
                    count = "SELECT count(*) FROM users"
                    assert await (await within.execute(count)).fetchone() == (0,)
                    await connection.execute("INSERT INTO users (id, name) VALUES (1, 'u')")
                    assert await (await within.execute(count)).fetchone() == (1,)
                await connection.execute("DELETE FROM users")
            finally:
                await other.close()
