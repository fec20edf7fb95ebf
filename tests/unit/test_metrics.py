"""Ranking metrics against sums of fractions that a hand can check, and ties at their worst."""

from fractions import Fraction
from math import log, log2

import numpy as np
import pytest

from training.metrics import (
    Interval,
    Metric,
    auc,
    average_precision,
    calibration_bins,
    calibration_error,
    interval,
    ndcg,
    reciprocal_rank,
    relative_cross_entropy,
)

# Two queries: 4 rows and 3 rows. The first is ranked 0, 3, 0, 1; the second 2, 0, 0.
GAINS = np.array([1.0, 0, 3, 0, 0, 2, 0])
SCORES = np.array([0.1, 0.9, 0.8, 0.5, 0.2, 0.7, 0.1])
STARTS = np.array([0, 4, 7])


def test_ndcg_is_the_sum_of_discounted_gains_over_the_best_sum() -> None:
    first = (3 / log2(3) + 1 / log2(5)) / (3 / log2(2) + 1 / log2(3))
    assert ndcg(GAINS, SCORES, STARTS).tolist() == pytest.approx([first, 1.0], abs=1e-15)


def test_ndcg_at_k_counts_k_places_in_the_best_order_too() -> None:
    first = (3 / log2(3)) / (3 / log2(2) + 1 / log2(3))
    assert ndcg(GAINS, SCORES, STARTS, k=3).tolist() == pytest.approx([first, 1.0], abs=1e-15)
    assert ndcg(GAINS, SCORES, STARTS, k=1).tolist() == [0.0, 1.0]


def test_average_precision_is_the_mean_of_the_precisions_at_hits() -> None:
    first = (Fraction(1, 2) + Fraction(2, 4)) / 2
    assert average_precision(GAINS, SCORES, STARTS).tolist() == [float(first), 1.0]


def test_reciprocal_rank_is_one_over_the_first_hit() -> None:
    assert reciprocal_rank(GAINS, SCORES, STARTS).tolist() == [0.5, 1.0]


def test_auc_is_the_share_of_pairs_in_the_right_order() -> None:
    # Of 2 x 2 pairs of the first query only (3, the second 0) is right.
    assert auc(GAINS, SCORES, STARTS).tolist() == [float(Fraction(1, 4)), 1.0]


@pytest.mark.parametrize(
    ("metric", "worst"),
    [
        (ndcg, (2 / log2(4)) / 2),
        (average_precision, 1 / 3),
        (reciprocal_rank, 1 / 3),
        (auc, 0.0),
    ],
)
def test_who_says_the_same_of_everything_is_taken_at_the_worst(
    metric: Metric, worst: float
) -> None:
    gains = np.array([2.0, 0, 0])
    for order in ([0, 1, 2], [1, 0, 2], [1, 2, 0]):
        value = metric(gains[order], np.zeros(3), np.array([0, 3]))
        assert value.tolist() == pytest.approx([worst], abs=1e-15)


@pytest.mark.parametrize("metric", [ndcg, average_precision, reciprocal_rank, auc])
def test_a_query_without_anything_relevant_has_no_metric(metric: Metric) -> None:
    gains = np.array([0.0, 0, 1, 0])
    value = metric(gains, np.arange(4.0), np.array([0, 2, 4]))
    assert np.isnan(value[0]) and not np.isnan(value[1])


def test_auc_of_only_relevant_rows_is_unknown() -> None:
    assert np.isnan(auc(np.ones(2), np.arange(2.0), np.array([0, 2]))[0])


def test_calibration_error_is_the_distance_weighed_by_rows() -> None:
    happened = np.array([0.0, 0, 0, 1, 1, 1])
    said = np.array([0.1, 0.1, 0.1, 0.1, 0.8, 0.8])
    # Four rows said 0.1 and 1 in 4 happened; two said 0.8 and both did.
    wanted = Fraction(4, 6) * (Fraction(1, 4) - Fraction(1, 10)) + Fraction(2, 6) * Fraction(2, 10)
    assert calibration_error(happened, said, bins=2) == pytest.approx(float(wanted), abs=1e-15)
    assert calibration_bins(happened, said, bins=2)[2].tolist() == [4, 2]


def test_relative_cross_entropy_compares_with_always_saying_the_base_rate() -> None:
    happened = np.array([1.0, 0])
    assert relative_cross_entropy(happened, np.array([0.5, 0.5]), 0.5) == pytest.approx(0)
    ours = -(log(0.75) + log(0.75)) / 2
    wanted = 100 * (1 - ours / log(2))
    assert relative_cross_entropy(happened, np.array([0.75, 0.25]), 0.5) == pytest.approx(wanted)
    assert relative_cross_entropy(happened, np.array([0.25, 0.75]), 0.5) < 0


def test_an_interval_is_that_of_its_seed_and_as_wide_as_theory_says() -> None:
    values = np.random.default_rng(1).normal(5, 2, size=400)
    found = interval(np.append(values, np.nan), seed=3)
    assert found == interval(values, seed=3) != interval(values, seed=4)
    assert found.n == 400 and found.low < found.mean < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)


def test_intervals_of_the_stated_level_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(2)
    found = [interval(rng.normal(1, 1, 100), seed=n, resamples=300) for n in range(300)]
    covered = sum(each.low <= 1 <= each.high for each in found) / len(found)
    assert 0.89 <= covered <= 0.97


def test_only_intervals_that_do_not_touch_are_above_one_another() -> None:
    low, high = Interval(0.5, 0.4, 0.6, 9), Interval(0.7, 0.6, 0.8, 9)
    assert not high.above(low) and Interval(0.7, 0.61, 0.8, 9).above(low)
    assert np.isnan(interval(np.array([np.nan]), seed=1).mean)
