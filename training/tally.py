"""Counts what had happened before a moment, for many keys and moments at once."""

import numpy as np
import numpy.typing as npt

from feed.order import Ids

Amounts = npt.NDArray[np.float64]


class Tally:
    """Events (e,) of whole-numbered keys, ready to be counted up to any moment.

    >>> tally = Tally(key=np.array([7, 7]), ms=np.array([100, 200]))
    >>> tally.before(np.array([7, 7, 8]), np.array([200, 201, 201])).tolist()
    [1.0, 2.0, 0.0]
    """

    def __init__(self, *, key: Ids, ms: Ids, weight: Amounts | None = None) -> None:
        """Take events; without `weight` each counts one."""
        self._keys = np.unique(key)
        order = np.lexsort((ms, key))
        self._rank = np.searchsorted(self._keys, key[order])
        self._ms = ms[order]
        self._first = int(ms.min()) if len(ms) else 0
        self._span = (int(ms.max()) - self._first if len(ms) else 0) + 2
        self._code = self._rank * self._span + (self._ms - self._first)
        amounts = np.ones(len(ms)) if weight is None else weight[order]
        self._total = np.concatenate(([0.0], np.cumsum(amounts)))

    def before(self, key: Ids, at_ms: Ids) -> Amounts:
        """Sum the events of each key (n,) strictly before its moment (n,)."""
        begin, end = self._bounds(key, at_ms)
        return np.asarray(self._total[end] - self._total[begin])

    def since(self, key: Ids, from_ms: Ids, at_ms: Ids) -> Amounts:
        """Sum the events of each key (n,) from a moment on, strictly before another."""
        return np.asarray(self.before(key, at_ms) - self.before(key, from_ms))

    def last_ms(self, key: Ids, at_ms: Ids) -> Ids:
        """Return when each key (n,) last had an event strictly before its moment; -1: never."""
        begin, end = self._bounds(key, at_ms)
        if not len(self._ms):
            return np.full(len(key), -1, dtype=np.int64)
        return np.where(end > begin, self._ms[np.maximum(end - 1, 0)], -1)

    def first_ms(self, key: Ids, at_ms: Ids) -> Ids:
        """Return when each key (n,) first had an event, if strictly before its moment; else -1."""
        begin, end = self._bounds(key, at_ms)
        if not len(self._ms):
            return np.full(len(key), -1, dtype=np.int64)
        return np.where(end > begin, self._ms[np.minimum(begin, len(self._ms) - 1)], -1)

    def _bounds(self, key: Ids, at_ms: Ids) -> tuple[Ids, Ids]:
        """Return between which rows the events of each key (n,) before its moment stand."""
        if not len(self._keys):
            none = np.zeros(len(key), dtype=np.int64)
            return none, none
        rank = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        known = self._keys[rank] == key
        moment = np.clip(at_ms - self._first, 0, self._span - 1)
        begin = np.searchsorted(self._code, rank * self._span)
        end = np.searchsorted(self._code, rank * self._span + moment)
        return begin, np.where(known, end, begin)
