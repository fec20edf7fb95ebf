"""How a rule weighs: it multiplies scores by factors, and orders the rows anew."""

import numpy as np
import numpy.typing as npt

from feed.candidates import Candidates

Factors = npt.NDArray[np.float64]


def factor_column(name: str) -> str:
    """Name the column in which a rule leaves its factors; no fact about posts is called so."""
    return f"{name}_factor"


def weighed(candidates: Candidates, name: str, factors: Factors) -> Candidates:
    """Multiply the column score (n,) by factors (n,), and order by it: best, then newest, first.

    The factors stay as the column `factor_column(name)`, so that an explanation can show them. Rows
    without scores (the ranker was skipped) stay as they are: newest first is a promise then.
    """
    if "score" not in candidates.columns:
        return candidates
    score = candidates["score"] * factors
    rows = np.lexsort((candidates.ids, candidates.ms, score))[::-1]
    return candidates.with_columns({"score": score, factor_column(name): factors}).take(rows)
