"""Keeps equal things apart: authors, formats, out-of-network posts, in one pass over the list.

One pass for all limits, since a second one would undo the first.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from feed.candidates import Candidates, Column
from feed.order import Rows


@dataclass(frozen=True, kw_only=True)
class Limit:
    """At most `run` rows in a row with one value of a column, and at most a share of all with it.

    `value`: only rows with this value are limited; None: each value. `share` is of the rows from
    the top down to any place, rounded up, so that a list of one may be of that value.
    """

    name: str
    column: str
    run: int
    value: Any = None
    share: float = 1.0


class Spacing:
    """Moves rows up past those that would break a limit; each waits no longer than it must."""

    name = "spacing"

    def __init__(self, *limits: Limit) -> None:
        """Hold these limits; where not all can hold, the last gives way first."""
        self._limits = limits

    def apply(self, candidates: Candidates) -> Candidates:
        """Return the same rows (n,), spaced."""
        columns = [candidates[limit.column] for limit in self._limits]
        return candidates.take(spaced(columns, self._limits))

    def relaxed(self, candidates: Candidates) -> dict[str, int]:
        """Count, in a list that was spaced, the rows at which each limit gave way."""
        counts = {each.name: n_beyond(candidates[each.column], each) for each in self._limits}
        return {name: n for name, n in counts.items() if n}


def spaced(columns: Sequence[Column], limits: Sequence[Limit]) -> Rows:
    """Return a row order (n,) in which each of `limits` holds over its column of `columns` (n,).

    At every place comes the best row left that no limit bars. Where there is none the last limit
    gives way, then the one before.

    >>> authors = np.array([7, 7, 7, 7, 8])
    >>> spaced([authors], [Limit(name="author_run", column="author", run=2)]).tolist()
    [0, 1, 4, 2, 3]
    """
    watches = [
        _Watch(limit, column.tolist())
        for limit, column in zip(limits, columns, strict=True)
        if _is_at_stake(column, limit)
    ]
    left = list(range(len(columns[0])))
    order: list[int] = []
    while left:
        barring = [watch for watch in watches if watch.bars and watch.n_left < len(left)]
        place = _best(left, barring) if barring else 0
        row = left.pop(place)
        order.append(row)
        for watch in watches:
            watch.put(row)
    return np.array(order, dtype=np.intp)


def _is_at_stake(column: Column, limit: Limit) -> bool:
    """Say whether a limit asks anything of a column: not when all or none of it is limited."""
    if limit.value is None:
        return bool((column != column[:1]).any())
    return bool((column == limit.value).any() and (column != limit.value).any())


class _Watch:
    """One limit over what was placed so far: does it bar a value from coming next, and which?"""

    __slots__ = ("_length", "_limit", "_n", "_n_left", "_n_placed", "barred", "bars", "values")

    def __init__(self, limit: Limit, values: list[Any]) -> None:
        self.values = values
        self.bars = False
        self.barred: Any = None
        self._limit = limit
        self._length = 0
        self._n = self._n_placed = 0
        self._n_left = Counter(values)

    @property
    def n_left(self) -> int:
        """How many rows are left with the value that is barred."""
        return self._n_left[self.barred]

    def put(self, row: int) -> None:
        """Place a row."""
        limit, value = self._limit, self.values[row]
        self._n_placed += 1
        self._n_left[value] -= 1
        if limit.value is not None:
            self._n += value == limit.value
            self._length = self._length + 1 if value == limit.value else 0
            self.barred = limit.value
            self.bars = self._length >= limit.run or self._n >= limit.share * (self._n_placed + 1)
        else:
            self._length = self._length + 1 if value == self.barred else 1
            self.barred = value
            self.bars = self._length >= limit.run


def _best(left: list[int], barring: list[_Watch]) -> int:
    """Return the place in `left` of the first row that nothing bars; the last gives way first."""
    while barring:
        if len(barring) == 1:
            values, barred = barring[0].values, barring[0].barred
            for place, row in enumerate(left):
                if values[row] != barred:
                    return place
        else:
            bars = [(watch.values, watch.barred) for watch in barring]
            for place, row in enumerate(left):
                if all(values[row] != barred for values, barred in bars):
                    return place
        barring = barring[:-1]
    return 0


def n_beyond(values: Column, limit: Limit) -> int:
    """Count the rows (n,) at which a limit is broken.

    >>> n_beyond(np.array([7, 7, 7, 8]), Limit(name="author_run", column="author", run=2))
    1
    """
    limited = np.ones(len(values), dtype=bool) if limit.value is None else values == limit.value
    places = np.arange(len(values))
    begins = np.concatenate([[True], values[1:] != values[:-1]]) if len(values) else limited
    length = places - np.maximum.accumulate(np.where(begins, places, 0)) + 1
    share = np.cumsum(limited) - 1 >= limit.share * (places + 1)
    too_many = share if limit.value is not None and limit.share < 1 else np.zeros_like(limited)
    return int((limited & ((length > limit.run) | too_many)).sum())
