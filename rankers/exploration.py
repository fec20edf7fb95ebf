"""Explores by Plackett-Luce draws: orders drawn at random, with the probability of each choice.

A place is filled by one of the rows that are left, with a probability that goes with
exp(score / temperature). Called when a slate is frozen, and to say how likely another ranker would
have been to choose the same (`training.offpolicy`).
"""

import numpy as np
import numpy.typing as npt

from feed.order import Rows

Scores = npt.NDArray[np.float64]


def rank_scores(n: int) -> Scores:
    """Return the scores (n,) of an order of which only the order is known: -ln(place), from 1.

    With them a temperature means the same whatever ranker made the order: the row at place p is
    drawn first with a probability that goes with p^(-1 / temperature).

    >>> rank_scores(2).round(3).tolist()
    [-0.0, -0.693]
    """
    return np.asarray(-np.log(np.arange(1, n + 1)))


def drawn(scores: Scores, *, temperature: float, rng: np.random.Generator) -> Rows:
    """Draw an order of rows by their scores (n,); at temperature 0 the best first, ties as given.

    Scores with Gumbel noise, sorted, are such a draw (Yellott 1977; Kool et al. 2019, section 2.3).
    """
    if temperature == 0:
        return np.argsort(-scores, kind="stable")
    return np.argsort(-(scores + temperature * rng.gumbel(size=len(scores))), kind="stable")


def propensities(scores: Scores, *, temperature: float) -> Scores:
    """Return how likely each row (n,) was chosen, given those before it; scores in drawn order.

    The product of the first k is the probability that a slate begins with these k rows.

    >>> propensities(np.log([1.0, 2.0, 1.0]), temperature=1).round(3).tolist()
    [0.25, 0.667, 1.0]
    """
    if temperature == 0:
        left = np.maximum.accumulate(scores[::-1])[::-1]
        return np.where(scores >= left, 1.0, 0.0)
    logits = scores / temperature
    total = np.logaddexp.accumulate(logits[::-1])[::-1]
    return np.asarray(np.exp(logits - total))
