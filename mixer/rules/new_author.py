"""One slot for somebody new, so that an author without an audience can find one."""

import numpy as np

from feed.candidates import Candidates


class NewAuthor:
    """Lifts the best post of a new author to one slot, when all of them are below it.

    Applied last, on the final list; the column `author_age_d` (n,) is the age of an account.
    """

    name = "new_author"

    def __init__(self, *, slot: int, days: float) -> None:
        """Keep position `slot`, from 0, for somebody whose account is less than `days` old."""
        self._slot = slot
        self._days = days

    def apply(self, candidates: Candidates) -> Candidates:
        """Return the same rows (n,), at most one of them moved up."""
        rows = np.flatnonzero(candidates["author_age_d"] < self._days)
        if not len(rows) or rows[0] <= self._slot:
            return candidates
        order = np.delete(np.arange(len(candidates)), rows[0])
        return candidates.take(np.insert(order, self._slot, rows[0]))
