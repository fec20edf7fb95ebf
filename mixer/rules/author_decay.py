"""Further posts of one author count less."""

import numpy as np

from feed.candidates import Candidates, Column
from mixer.rules.weighing import Factors, weighed


class AuthorDecay:
    """Multiplies the score of an author's kth post by (1 - floor) decay^k + floor, k from 0.

    What the viewer saw of an author in earlier sessions counts as posts above the first: the
    column `author_seen` (n,), which fades with time.
    """

    name = "author_decay"

    def __init__(self, *, decay: float, floor: float) -> None:
        """Let each further post count `decay` times the one before, but never less than `floor`."""
        self._decay = decay
        self._floor = floor

    def apply(self, candidates: Candidates) -> Candidates:
        """Return the same rows (n,), weighed."""
        k = occurrence(candidates["author"]) + candidates.columns.get("author_seen", 0.0)
        return weighed(candidates, self.name, decayed(k, decay=self._decay, floor=self._floor))


def decayed(k: Column, *, decay: float, floor: float) -> Factors:
    """Return (1 - floor) decay^k + floor.

    >>> decayed(np.array([0, 1, 2]), decay=0.5, floor=0.25).tolist()
    [1.0, 0.625, 0.4375]
    """
    return np.asarray((1 - floor) * decay**k + floor, dtype=np.float64)


def occurrence(values: Column) -> Column:
    """Number equal values (n,) from 0 in the order in which they come.

    >>> occurrence(np.array([7, 8, 7, 7, 8])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.searchsorted(ordered, ordered, side="left")
    numbers = np.empty(len(values), dtype=np.int64)
    numbers[order] = np.arange(len(values)) - first
    return numbers
