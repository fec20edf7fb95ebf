"""Evaluation: the same queries for everybody, slices ranked among themselves, and the baselines."""

from dataclasses import replace

import numpy as np
import pytest

from feed.errors import Invalid
from tests.slates import slates
from training.baselines import FORMULAS, logistic_regression
from training.dataset import Dataset
from training.evaluate import MAIN, evaluate, gini
from training.metrics import interval, ndcg
from training.split import split

FEATURES = ("affinity", "likes", "comments", "age_h")


@pytest.fixture(scope="module")
def test() -> Dataset:
    return slates(200, features=FEATURES)


def scores(test: Dataset) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    rng = np.random.default_rng(3)
    truth = test.gains + rng.random(len(test))
    return {"model": truth, "chance": rng.random(len(test)), "same": np.zeros(len(test))}


def test_the_model_is_compared_on_the_same_queries(test: Dataset) -> None:
    found = evaluate(test, scores(test), model="model", seed=1)
    each = {
        name: ndcg(test.gains, value, test.starts, k=10) for name, value in scores(test).items()
    }
    assert found.rankers["chance"][MAIN] == interval(each["chance"], seed=1)
    assert found.lift["chance"] == interval(each["model"] - each["chance"], seed=1)
    assert set(found.lift) == set(found.beaten) == {"chance", "same"}
    assert found.n_queries == 200 and found.n_empty == np.isnan(each["model"]).sum()


def test_only_what_lies_below_as_a_whole_is_beaten(test: Dataset) -> None:
    both = {"model": scores(test)["chance"], "chance": scores(test)["chance"]}
    found = evaluate(test, both, model="model", seed=1)
    assert found.beaten == () and found.lift["chance"].mean == 0


def test_a_slice_is_ranked_among_itself(test: Dataset) -> None:
    found = {each.name: each for each in evaluate(test, scores(test), model="model", seed=1).slices}
    assert {"cold viewer", "warm viewer", "cold author", "format text", "source popular"} <= set(
        found
    )
    cold = test["cold_author"]
    part = test.take(cold)
    value = ndcg(part.gains, scores(test)["chance"][cold], part.starts)
    wanted = interval(np.where(part.sizes > 1, value, np.nan), seed=1)
    assert found["cold author"].rankers["chance"] == wanted
    assert found["cold author"].n_rows == cold.sum()


def test_spread_says_whose_posts_stand_in_the_first_ten() -> None:
    whole = slates(50, rows=40, features=FEATURES)
    authors = np.tile(np.arange(40) // 2, 50)
    posts = np.arange(len(whole))
    dataset = replace(whole, columns={**whole.columns, "author_id": authors, "post_id": posts})
    same_five = {"model": -authors * 1.0}
    found = evaluate(dataset, same_five, model="model", seed=1).spread["model"]
    assert found.coverage == 10 / 40
    assert found.top_tenth == 2 / 5  # two authors of twenty have 200 of 500 places
    assert found.gini == pytest.approx(15 / 20)  # five share all alike


def test_the_gini_coefficient_of_hand_sums() -> None:
    assert gini(np.array([1, 1, 1])) == 0 and gini(np.array([0, 0, 0, 4])) == 0.75
    assert gini(np.array([1, 3])) == pytest.approx(0.25)


def test_scores_that_are_no_numbers_are_refused(test: Dataset) -> None:
    wrong = {**scores(test), "chance": np.full(len(test), np.nan)}
    with pytest.raises(Invalid, match="chance gives scores that are not finite"):
        evaluate(test, wrong, model="model", seed=1)
    nothing = {**test.columns, "label": np.zeros(len(test), np.int8)}
    with pytest.raises(Invalid, match="nothing to judge"):
        evaluate(replace(test, columns=nothing), scores(test), model="model", seed=1)


def test_baselines_are_the_orders_they_are_named_for() -> None:
    one = slates(1, rows=3, features=FEATURES)
    matrix = np.array([[0.3, 0, 0, 1], [0.9, 0, 0, 2], [0.3, 10, 2, 3]], dtype=np.float32)
    rows = replace(one, matrix=matrix)
    order = {name: np.argsort(-ranker(rows)).tolist() for name, ranker in FORMULAS.items()}
    assert order["chronological"] == [0, 1, 2]
    assert order["popularity"][0] == 2
    scored = FORMULAS["engagement_decay"](replace(one, matrix=matrix[[2, 2, 2]]))
    assert scored[0] == pytest.approx((1 + 2 * 10 + 3 * 2) / 5**1.5)
    affine = FORMULAS["affinity_decay"](replace(one, matrix=matrix[[1, 1, 1]]))
    assert affine[0] == pytest.approx(0.9 / 4**1.5)


def test_what_is_unknown_counts_as_nothing_in_a_formula() -> None:
    one = slates(1, rows=3, features=FEATURES)
    rows = replace(one, matrix=np.full((3, 4), np.nan, dtype=np.float32))
    assert all(np.isfinite(ranker(rows)).all() for ranker in FORMULAS.values())
    with pytest.raises(Invalid, match="no feature 'likes'"):
        FORMULAS["popularity"](slates(1))


def test_logistic_regression_learns_what_made_the_data() -> None:
    parts = split(slates(600))
    ranker = logistic_regression(parts.train)
    both = {"model": ranker(parts.test), "chance": np.zeros(len(parts.test))}
    assert evaluate(parts.test, both, model="model", seed=1).beaten == ("chance",)
    assert np.array_equal(ranker(parts.test), logistic_regression(parts.train)(parts.test))
