"""The heavy ranker: a fitted model over the light ranker's best K, the others in their order after.

Scores of a model may be any numbers. Rules multiply scores, and a multiplier would raise a negative
one, so the scores are mapped into (0, 1) first, in the same order.
"""

import numpy as np
import numpy.typing as npt

from feed.candidates import Candidates

Scores = npt.NDArray[np.float64]

NAME = "heavy"
"""Of the stage, of its rule, and of the column that holds what a model said; 0: it said nothing."""


def as_share(raw: Scores) -> Scores:
    """Map scores (n,) into (0, 1) in the same order; unlike a logistic it keeps large ones apart.

    >>> as_share(np.array([-9.0, 0.0, 3.0])).round(6).tolist()
    [0.05, 0.5, 0.875]
    """
    return np.asarray(0.5 + 0.5 * raw / (1 + np.abs(raw)))


class Heavy:
    """Puts the rows that a model scored first, by its scores; the others keep their order.

    A rule, after the light ranker: what the model said is a fact about the rows by then, so that a
    slate can be ranked again without the model.
    """

    name = NAME

    def apply(self, candidates: Candidates) -> Candidates:
        """Order by the column heavy (n,): shares in (0, 1), or 0 where the model said nothing.

        Rows without a light score (that ranker was skipped) stay newest first.
        """
        if NAME not in candidates.columns or "score" not in candidates.columns:
            return candidates
        score = cascaded(candidates[NAME])
        rows = np.lexsort((candidates.ids, candidates.ms, score))[::-1]
        return candidates.with_columns({"score": score}).take(rows)


def cascaded(shares: Scores) -> Scores:
    """Return scores (n,) for rows in light order: shares as they are, the others evenly below.

    >>> cascaded(np.array([0.0, 0.5, 0.75, 0.0])).round(3).tolist()
    [0.333, 0.5, 0.75, 0.167]
    """
    others = shares == 0
    n = int(np.count_nonzero(others))
    least = shares[~others].min(initial=1.0)
    scores = shares.copy()
    scores[others] = least * np.arange(n, 0, -1) / (n + 1)
    return scores
