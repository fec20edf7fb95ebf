"""Plackett-Luce draws: what is said of a draw's probability is how often it happens."""

from collections import Counter
from itertools import permutations
from math import prod, sqrt

import numpy as np
import pytest

from rankers.exploration import drawn, propensities, rank_scores

N = 10_000


def test_orders_come_up_as_often_as_the_product_of_their_propensities_says() -> None:
    scores, rng = np.array([0.3, 1.1, -0.4]), np.random.default_rng(5)
    seen = Counter(tuple(drawn(scores, temperature=0.7, rng=rng).tolist()) for _ in range(N))
    total = 0.0
    for order in permutations(range(3)):
        said = prod(propensities(scores[list(order)], temperature=0.7))
        total += said
        assert abs(seen[order] / N - said) < 4 * sqrt(said * (1 - said) / N)
    assert total == pytest.approx(1, abs=1e-12)


def test_each_place_has_the_probability_of_its_row_among_those_left() -> None:
    weights = np.array([4.0, 1, 2, 1])
    said = propensities(np.log(weights), temperature=1)
    assert said.tolist() == pytest.approx([4 / 8, 1 / 4, 2 / 3, 1])


def test_temperature_is_a_power_of_the_weights() -> None:
    said = propensities(rank_scores(3), temperature=0.5)
    assert said.tolist() == pytest.approx([1 / (1 + 1 / 4 + 1 / 9), (1 / 4) / (1 / 4 + 1 / 9), 1])


def test_a_cold_draw_is_the_order_of_scores_and_temperature_0_is_exactly_it() -> None:
    scores, rng = np.array([0.1, 0.9, 0.5, 0.9]), np.random.default_rng(1)
    assert drawn(scores, temperature=0, rng=rng).tolist() == [1, 3, 2, 0]
    assert propensities(np.array([0.9, 0.9, 0.5, 0.1]), temperature=0).tolist() == [1, 1, 1, 1]
    assert propensities(np.array([0.1, 0.9]), temperature=0).tolist() == [0, 1]
    distinct = np.array([0.1, 0.9, 0.5, 0.8])
    orders = {tuple(drawn(distinct, temperature=1e-4, rng=rng)) for _ in range(200)}
    assert orders == {(1, 3, 2, 0)}
    assert propensities(distinct[[1, 3, 2, 0]], temperature=1e-4).tolist() == [1, 1, 1, 1]


def test_nothing_is_lost_or_doubled_and_a_seed_gives_its_order_again() -> None:
    scores = np.random.default_rng(2).normal(size=500)
    orders = [drawn(scores, temperature=1, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert all(np.array_equal(np.sort(each), np.arange(500)) for each in orders)
    assert np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2])


def test_huge_scores_neither_overflow_nor_lose_probability() -> None:
    said = propensities(np.array([-1e5, 1e5, 1e5]), temperature=0.5)
    assert said.tolist() == pytest.approx([0, 0.5, 1])
    assert len(propensities(np.empty(0), temperature=1)) == 0
