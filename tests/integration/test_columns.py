"""Columns of ids through Postgres: what goes in comes out, and nothing else passes for one."""

from typing import Any

import numpy as np
import pytest

from feed.order import MAX_ID, Ids
from storage.columns import id_columns
from storage.connections import Postgres

_TWICE = (
    "SELECT %(ids)s, array_agg(id ORDER BY place) FROM unnest(%(ids)s) WITH ORDINALITY w(id, place)"
)


@pytest.mark.parametrize("values", [[], [7], [MAX_ID, -1, 0, 2**53 + 1], list(range(2_000))])
async def test_a_column_comes_back_as_it_went(postgres: Postgres, values: list[int]) -> None:
    """Also without rows, which the server calls NULL."""
    column = np.array(values, dtype=np.int64)
    async with postgres.connection() as connection:
        whole, rows = await id_columns(connection, _TWICE, {"ids": column})
    for found in (whole, rows):
        assert found.dtype == np.int64 and found.tolist() == values


async def test_every_second_row_is_a_column_like_any_other(postgres: Postgres) -> None:
    """A view whose numbers do not lie side by side."""
    column: Ids = np.arange(10, dtype=np.int64)[::2]
    async with postgres.connection() as connection:
        (found, _) = await id_columns(connection, _TWICE, {"ids": column})
    assert found.tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("column", [np.array([1.5]), np.array([True]), np.array([[1]])])
async def test_what_is_no_column_of_ids_is_not_sent(postgres: Postgres, column: Any) -> None:
    async with postgres.connection() as connection:
        with pytest.raises(TypeError):
            await id_columns(connection, "SELECT %(ids)s::bigint[]", {"ids": column})


@pytest.mark.parametrize("array", ["'{1, NULL}'", "'{{1, 2}, {3, 4}}'"])
async def test_what_is_no_column_of_ids_is_not_read(postgres: Postgres, array: str) -> None:
    async with postgres.connection() as connection:
        with pytest.raises(ValueError):
            await id_columns(connection, f"SELECT {array}::bigint[]", {})  # type: ignore[arg-type]
