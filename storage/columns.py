"""Columns of numbers go to Postgres, and come back, as they lie in memory: one copy, no objects.

The driver's own lists cost about 2 microseconds of processor time an element each way, and a feed
sends and reads thousands. Registered on every connection by `storage.connections`: an array (n,)
of int64 is a parameter like any other, and a bigint[] or float8[] of a binary result is an array.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Any, LiteralString

import numpy as np
import numpy.typing as npt
from psycopg import AsyncConnection, postgres
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format

from feed.candidates import Column, empty_ids
from feed.order import Ids

Numbers = npt.NDArray[np.float64]

# The wire format of an array (array_send in Postgres): a head, then the length and the bytes of
# each element, big-endian. Without NULLs and within one dimension, elements are equally long.
_HEAD = Struct("!IIIII")  # dimensions, whether NULLs are in it, type of elements, n, first index
_ELEMENT = {kind: np.dtype([("length", ">i4"), ("value", kind)]) for kind in (">i8", ">f8")}
_INT8, _FLOAT8 = postgres.types["int8"], postgres.types["float8"]


class IdsDumper(Dumper):
    """Writes an array (n,) of int64 as a bigint[]."""

    format = Format.BINARY
    oid = _INT8.array_oid

    def dump(self, obj: Column) -> bytes:
        """Write a column.

        Raises:
            TypeError: It is not one of ids.
        """
        if obj.dtype != np.int64 or obj.ndim != 1:
            raise TypeError(f"a parameter of {obj.dtype} {obj.shape} is no column of ids")
        elements = np.empty(len(obj), dtype=_ELEMENT[">i8"])
        elements["length"], elements["value"] = 8, obj
        return _HEAD.pack(1, 0, _INT8.oid, len(obj), 1) + elements.tobytes()


class IdsLoader(Loader):
    """Reads a bigint[] as an array (n,) of int64."""

    format = Format.BINARY

    def load(self, data: Buffer) -> Ids:
        """Read a column."""
        return _read(data, ">i8").astype(np.int64)


class NumbersLoader(Loader):
    """Reads a float8[] as an array (n,) of float64."""

    format = Format.BINARY

    def load(self, data: Buffer) -> Numbers:
        """Read a column."""
        return _read(data, ">f8").astype(np.float64)


def register(connection: AsyncConnection[Any]) -> None:
    """Let columns through, in and out; text results and their lists stay as they are."""
    connection.adapters.register_dumper(np.ndarray, IdsDumper)
    connection.adapters.register_loader(_INT8.array_oid, IdsLoader)
    connection.adapters.register_loader(_FLOAT8.array_oid, NumbersLoader)


async def id_columns(
    connection: AsyncConnection[Any], query: LiteralString, values: Mapping[str, Any]
) -> list[Ids]:
    """Run a query that gives one row of bigint[], and return its columns."""
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(query, values)
        row = await cursor.fetchone()
    assert row is not None  # an aggregate always gives one row
    return [ids_of(each) for each in row]


def ids_of(column: Ids | None) -> Ids:
    """Return a column of a result; NULL is what `array_agg` makes of no rows."""
    return empty_ids() if column is None else column


def numbers_of(column: Numbers | None) -> Numbers:
    """Return a column of a result, as `ids_of` does."""
    return np.empty(0) if column is None else column


def _read(data: Buffer, kind: str) -> Column:
    """Return the elements of an array (n,), as they are on the wire.

    Raises:
        ValueError: It holds NULLs, or arrays.
    """
    dimensions, has_nulls, *_ = _HEAD.unpack_from(bytes(data[: _HEAD.size]).ljust(_HEAD.size))
    if not dimensions:
        return np.empty(0, dtype=kind)
    if dimensions > 1 or has_nulls:
        raise ValueError("a column that holds NULLs, or is no column")
    column: Column = np.frombuffer(data, dtype=_ELEMENT[kind], offset=_HEAD.size)["value"]
    return column
