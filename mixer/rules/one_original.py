"""One original appears once, however many repost it."""

import numpy as np

from feed.candidates import Candidates


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
