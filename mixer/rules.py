"""Diversity rules over the ordered list: small pure functions, the same output for the same input.

A rule never loses a post. `OneOriginal` folds reposts of one original into one row, which still
names them; `AuthorSpacing` is relaxed where only one author is left.
"""

from collections import deque

import numpy as np

from feed.candidates import Candidates
from feed.order import Rows


class OneOriginal:
    """One original appears once, however many repost it.

    The best-ranked row of each original stays; where rows were folded, the column `folded` (n,)
    of tuples names the other posts of each group in ranked order, so that they can stand in.
    """

    name = "one_original"

    def apply(self, candidates: Candidates) -> Candidates:
        """Return one row per original (k,), in the order of their best rows."""
        if len(np.unique(candidates["original"])) == len(candidates):
            return candidates
        groups: dict[int, list[int]] = {}
        for row, original in enumerate(candidates["original"].tolist()):
            groups.setdefault(original, []).append(row)
        ids = candidates.ids.tolist()
        folded = np.empty(len(groups), dtype=object)
        folded[:] = [tuple(ids[row] for row in rows[1:]) for rows in groups.values()]
        first = np.array([rows[0] for rows in groups.values()], dtype=np.intp)
        return candidates.take(first).with_columns({"folded": folded})


class AuthorSpacing:
    """At most `run` posts of one author in a row, as long as others are left."""

    name = "author_spacing"

    def __init__(self, *, run: int) -> None:
        """Allow `run` in a row, at least 1."""
        self._run = run

    def apply(self, candidates: Candidates) -> Candidates:
        """Return the same rows (n,), spaced."""
        return candidates.take(spaced(candidates["author"].tolist(), run=self._run))


def spaced(authors: list[int], *, run: int) -> Rows:
    """Return the row order (n,) in which no author has more than `run` rows one after the other.

    Rows keep their order except that a row which would make a run too long waits for the next
    row of somebody else. Rows that nobody is left to separate come last, as they are.

    >>> spaced([7, 7, 7, 7, 8], run=2).tolist()
    [0, 1, 4, 2, 3]
    """
    waiting: deque[int] = deque()  # all of the author whose run is full
    order: list[int] = []
    length = 0

    def put(row: int) -> None:
        nonlocal length
        same = bool(order) and authors[order[-1]] == authors[row]
        length = length + 1 if same else 1
        order.append(row)

    for row, author in enumerate(authors):
        if order and length >= run and authors[order[-1]] == author:
            waiting.append(row)
            continue
        put(row)
        while waiting and not (authors[order[-1]] == authors[waiting[0]] and length >= run):
            put(waiting.popleft())
    for row in waiting:
        put(row)
    return np.array(order, dtype=np.intp)
