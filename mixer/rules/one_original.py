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
        _, first, group = np.unique(candidates["original"], return_index=True, return_inverse=True)
        if len(first) == len(candidates):
            return candidates
        best = first[group]  # of each row (n,): the best-ranked row with its original
        folded: dict[int, tuple[int, ...]] = {}
        for row in np.flatnonzero(best != np.arange(len(candidates))).tolist():
            kept = int(best[row])
            folded[kept] = (*folded.get(kept, ()), int(candidates.ids[row]))
        kept_rows = np.sort(first)
        column = np.empty(len(first), dtype=object)
        column[:] = [folded.get(row, ()) for row in kept_rows.tolist()]
        return candidates.take(kept_rows).with_columns({"folded": column})
