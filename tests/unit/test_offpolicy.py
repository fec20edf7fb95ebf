"""Off-policy estimates against sums by hand, a known truth, and the logs of a real shop."""

import gzip
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from feed.errors import Invalid
from feed.order import Rows
from rankers.exploration import drawn, propensities
from training.metrics import Values
from training.offpolicy import choices, estimated, slates

OPEN_BANDIT = Path(__file__).parents[2] / "samples" / "open_bandit"

REWARD = np.array([1.0, 0, 1, 0])
LOGGED = np.array([0.5, 0.5, 0.02, 0.25])
TARGET = np.array([0.25, 0.5, 0.4, 0.5])
# So that the weights are 1/2, 1, 20, 2.


def test_the_estimates_are_the_sums_of_their_formulas() -> None:
    predicted, expected = np.array([0.5, 0.1, 0.9, 0]), np.array([0.2, 0.3, 0.4, 0.1])
    logs = choices(REWARD, LOGGED, TARGET, predicted=predicted, expected=expected)
    found = estimated(logs, seed=0, least=0)
    said = {name: each.mean for name, each in found.values.items()}
    assert said == pytest.approx(
        {
            "ips": (1 / 2 + 20) / 4,
            "clipped": (1 / 2 + 10) / 4,
            "snips": (1 / 2 + 20) / (1 / 2 + 1 + 20 + 2),
            "dr": (0.2 + 0.5 * 0.5 + 0.3 - 0.1 + 0.4 + 20 * 0.1 + 0.1) / 4,
        }
    )
    assert found.logged.mean == 2 / 4
    assert found.ess == pytest.approx(23.5**2 / (0.25 + 1 + 400 + 4))
    assert found.max_weight == pytest.approx(20)


def test_a_slate_earns_the_sum_of_its_places_weighted_as_is_assumed() -> None:
    reward, starts = np.array([1.0, 1, 0, 1]), np.array([0, 2, 4])
    logged, target = np.array([0.5, 0.5, 0.5, 0.25]), np.array([1.0, 0.25, 0.25, 0.5])
    # Ratios 2, 1/2 and 1/2, 2; down to each place 2, 1 and 1/2, 1.
    by_place = estimated(
        slates(reward, logged, target, starts, assumes="position"), seed=0, least=0
    )
    cascade = estimated(slates(reward, logged, target, starts, assumes="cascade"), seed=0, least=0)
    assert by_place.values["ips"].mean == pytest.approx((2 + 0.5 + 2) / 2)
    assert cascade.values["ips"].mean == pytest.approx((2 + 1 + 1) / 2)
    assert by_place.values["snips"].mean == pytest.approx(2 / 2.5 + 2.5 / 2.5)
    assert cascade.values["snips"].mean == pytest.approx(2 / 2.5 + 2 / 2)
    assert cascade.n == 2


def test_who_is_judged_by_his_own_log_earned_what_was_logged() -> None:
    found = estimated(choices(REWARD, LOGGED, LOGGED), seed=0, least=0)
    assert {each.mean for each in found.values.values()} == {0.5}
    assert found.ess == 4


def test_slates_drawn_at_one_temperature_tell_what_another_earns() -> None:
    scores, worth, k = np.array([1.0, 0.6, 0.2, -0.5]), np.array([0.1, 0.9, 0.3, 0.6]), 2
    rng = np.random.default_rng(4)

    def orders(n: int, by: Values) -> list[Rows]:
        return [drawn(by, temperature=1, rng=rng)[:k] for _ in range(n)]

    def said(order: Rows, by: Values) -> Values:
        whole = np.concatenate([order, np.setdiff1d(np.arange(4), order)])
        return propensities(by[whole], temperature=1)[:k]

    target = worth * 2
    logged = orders(1_500, scores)
    reward = np.concatenate([worth[each] / [1, 2] for each in logged])
    pairs = [np.array(each) for each in permutations(range(4), k)]
    truth = sum(said(each, target).prod() * (worth[each] / [1, 2]).sum() for each in pairs)
    logs = slates(
        reward,
        np.concatenate([said(each, scores) for each in logged]),
        np.concatenate([said(each, target) for each in logged]),
        np.arange(0, 2 * 1_500 + 1, 2),
        assumes="cascade",
    )
    found = estimated(logs, seed=1)
    for name in ("ips", "snips"):
        assert found.required()[name].low < truth < found.required()[name].high
    assert not found.logged.low < truth < found.logged.high


def _open_bandit(name: str) -> tuple[Values, Values]:
    with gzip.open(OPEN_BANDIT / f"bts_{name}.csv.gz", "rt") as file:
        click, propensity = np.loadtxt(file, delimiter=",", skiprows=1).T
    return click, propensity


def test_open_bandit_men_covers_what_the_uniform_ranker_really_earned() -> None:
    click, propensity = _open_bandit("men")
    found = estimated(choices(click, propensity, np.full(10_000, 1 / 34)), seed=0)
    assert found.ess == pytest.approx(656, abs=1)
    for name in ("ips", "clipped", "snips"):
        assert found.required()[name].low < 46 / 10_000 < found.required()[name].high


def test_open_bandit_women_is_refused_since_two_choices_carry_it_all() -> None:
    click, propensity = _open_bandit("women")
    found = estimated(choices(click, propensity, np.full(10_000, 1 / 46)), seed=0)
    assert found.values == {}
    assert found.ess == pytest.approx(2, abs=0.5)
    assert found.max_weight == pytest.approx(21_739, abs=1)
    with pytest.raises(Invalid, match=r"10,000 logged choices count as 2\.\d .* weighs 21,739"):
        found.required()


@pytest.mark.parametrize(
    ("logged", "target", "why"),
    [(0.0, 0.5, "logged"), (1.5, 0.5, "logged"), (np.nan, 0.5, "logged"), (0.5, -1, "target")],
)
def test_what_is_no_propensity_is_refused(logged: float, target: float, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        choices(np.array([1.0]), np.array([logged]), np.array([target]))
