"""The one order of posts, newest first by (effective_ms, id), and the numbers that go with it."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

MAX_ID = 2**63 - 1
MAX_MS = 2**53 - 1  # a Redis score is a double, exact only up to here


class Key(NamedTuple):
    """A place in the total order; tuples compare as the order does, larger is newer."""

    ms: int
    id: int


NEWEST = Key(MAX_MS, MAX_ID)
OLDEST = Key(-1, 0)


def newest_first(ms: Ids, ids: Ids) -> Rows:
    """Return the row indexes (n,) that sort by (ms, id), descending."""
    return np.lexsort((ids, ms))[::-1]


def among(values: Ids, known: Ids) -> Mask:
    """Mark the values (n,) that are in `known` (k,), which is sorted.

    >>> among(np.array([3, 4]), np.array([1, 3])).tolist()
    [True, False]
    """
    if not len(known):
        return np.zeros(len(values), dtype=np.bool_)
    at = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.asarray(known[at] == values)


def newest(ms: Ids, n: int) -> Rows:
    """Return the rows of the n newest of these times (m,), in the order given; ties all stay.

    >>> newest(np.array([5, 9, 7, 7]), 2).tolist()
    [1, 2, 3]
    """
    if len(ms) <= n:
        return np.arange(len(ms))
    return np.flatnonzero(ms >= np.partition(ms, -n)[-n])


def below(ms: Ids, ids: Ids, key: Key) -> Mask:
    """Mark the rows (n,) whose place is strictly older than `key`."""
    return np.asarray((ms < key.ms) | ((ms == key.ms) & (ids < key.id)))


def above(ms: Ids, ids: Ids, key: Key) -> Mask:
    """Mark the rows (n,) whose place is strictly newer than `key`."""
    return np.asarray((ms > key.ms) | ((ms == key.ms) & (ids > key.id)))


def at_or_above(ms: Ids, ids: Ids, key: Key) -> Mask:
    """Mark the rows (n,) whose place is `key` or newer."""
    return ~below(ms, ids, key)
