"""How good an order is: ranking metrics by query, calibration, and intervals from a bootstrap.

Ties are taken pessimistically: among equal scores, what the viewer cared for least comes first, so
that a ranker which says the same of everything earns nothing by it. A query without anything
relevant has no ranking metric (NaN) and is left out of means; how many those are is reported.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from feed.order import Rows

Values = npt.NDArray[np.float64]
Starts = npt.NDArray[np.int64]
Metric = Callable[[Values, Values, Starts], Values]

BINS = 20
RESAMPLES = 1_000
AT_ONCE = 100
"""Resamples drawn at a time: 100 of 100,000 queries take 80 MB."""


def worst_case_order(gains: Values, scores: Values, starts: Starts) -> Rows:
    """Return rows (n,) by query, then by score, best first; of equal scores the least gain first.

    >>> worst_case_order(np.array([1., 0., 2.]), np.array([5., 5., 7.]), np.array([0, 3])).tolist()
    [2, 1, 0]
    """
    group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return np.lexsort((gains, -scores, group))


def ndcg(gains: Values, scores: Values, starts: Starts, *, k: int = 10) -> Values:
    """Return NDCG@k of each query (q,): sum of gain / log2(place + 2) over the best possible sum.

    Jaervelin and Kekaelaeinen, TOIS 2002; gains as given, e.g. 2^label - 1.
    """
    found = _discounted(gains[worst_case_order(gains, scores, starts)], starts, k)
    best = _discounted(gains[worst_case_order(gains, gains, starts)], starts, k)
    return _ratio(found, best)


def average_precision(gains: Values, scores: Values, starts: Starts) -> Values:
    """Return the average precision of each query (q,); relevant is what has a gain."""
    hit = gains[worst_case_order(gains, scores, starts)] > 0
    so_far = _running(hit, starts)
    precision = np.where(hit, so_far / (_place(starts) + 1), 0.0)
    return _ratio(_summed(precision, starts), _summed(hit, starts))


def reciprocal_rank(gains: Values, scores: Values, starts: Starts) -> Values:
    """Return 1 / (place of the first relevant row, from 1) of each query (q,)."""
    hit = gains[worst_case_order(gains, scores, starts)] > 0
    first = hit & (_running(hit, starts) == 1)
    value = _summed(np.where(first, 1 / (_place(starts) + 1), 0.0), starts)
    return np.where(value > 0, value, np.nan)


def auc(gains: Values, scores: Values, starts: Starts) -> Values:
    """Return the share of (relevant, irrelevant) pairs in the right order, of each query (q,).

    A tied pair counts as wrong. NaN also where everything is relevant.
    """
    hit = gains[worst_case_order(gains, scores, starts)] > 0
    n_hits = _summed(hit, starts)
    wrong_before = _place(starts) + 1 - _running(hit, starts)
    wrong = _summed(np.where(hit, wrong_before, 0), starts)
    pairs = n_hits * (np.diff(starts) - n_hits)
    return 1 - _ratio(wrong, pairs)


def calibration_bins(
    happened: Values, probability: Values, bins: int = BINS
) -> tuple[Values, Values, Values]:
    """Return (mean probability, observed rate, rows) of bins of about equally many rows.

    Equal probabilities share a bin, so there may be fewer than `bins` of them.
    """
    rank = np.searchsorted(np.sort(probability), probability)
    bin_of = rank * bins // len(probability)
    rows = np.bincount(bin_of).astype(np.float64)
    used = rows > 0
    said = np.bincount(bin_of, weights=probability, minlength=len(rows))[used] / rows[used]
    seen = np.bincount(bin_of, weights=happened, minlength=len(rows))[used] / rows[used]
    return said, seen, rows[used]


def calibration_error(happened: Values, probability: Values, bins: int = BINS) -> float:
    """Return ECE: the mean distance of what was said from what happened, over the bins' rows.

    >>> calibration_error(np.array([0., 1.]), np.array([0.25, 0.5]))
    0.375
    """
    said, seen, rows = calibration_bins(happened, probability, bins)
    return float(np.average(np.abs(said - seen), weights=rows))


def relative_cross_entropy(happened: Values, probability: Values, base: float) -> float:
    """Return how many percent better than always saying `base`, in cross-entropy; 0: no better.

    The metric of the RecSys challenges of 2020 and 2021; `base` is the rate in the training part.
    """
    ours = _cross_entropy(happened, probability)
    return 100 * (1 - ours / _cross_entropy(happened, np.full(len(happened), base)))


@dataclass(frozen=True)
class Interval:
    """A mean over `n` queries, and between what it lies in 95 of 100 resamples of them."""

    mean: float
    low: float
    high: float
    n: int

    def above(self, other: "Interval") -> bool:
        """Say whether all of this lies above all of the other."""
        return self.low > other.high


def interval(values: Values, *, seed: int, resamples: int = RESAMPLES) -> Interval:
    """Return the mean of values (q,) with its percentile bootstrap interval; NaNs are left out."""
    known = values[~np.isnan(values)]
    n = len(known)
    if n == 0:
        return Interval(np.nan, np.nan, np.nan, 0)
    rng = np.random.default_rng(seed)
    means = [
        known[rng.integers(0, n, size=(min(AT_ONCE, resamples - done), n))].mean(axis=1)
        for done in range(0, resamples, AT_ONCE)
    ]
    low, high = np.quantile(np.concatenate(means), (0.025, 0.975))
    return Interval(float(known.mean()), float(low), float(high), n)


def _place(starts: Starts) -> Rows:
    """Return the place (n,) of each row in its query, from 0."""
    return np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))


def _summed(values: npt.NDArray[np.generic], starts: Starts) -> Values:
    return np.add.reduceat(values.astype(np.float64), starts[:-1])


def _running(hit: npt.NDArray[np.bool_], starts: Starts) -> npt.NDArray[np.int64]:
    """Count the hits of each query up to and with each row (n,)."""
    total = np.concatenate(([0], np.cumsum(hit)))
    return np.asarray(total[1:] - np.repeat(total[starts[:-1]], np.diff(starts)))


def _discounted(gains: Values, starts: Starts, k: int) -> Values:
    place = _place(starts)
    return _summed(np.where(place < k, gains / np.log2(place + 2), 0.0), starts)


def _ratio(found: Values, best: Values) -> Values:
    known = best > 0
    return np.asarray(np.divide(found, best, out=np.full(len(best), np.nan), where=known))


def _cross_entropy(happened: Values, probability: Values) -> float:
    safe = np.clip(probability, 1e-15, 1 - 1e-15)
    return float(-np.mean(happened * np.log(safe) + (1 - happened) * np.log1p(-safe)))
