"""Team-draft interleaving: fair to both rankers, and it finds the better one."""

import numpy as np
import pytest

from training.interleaving import Interleaved, credit, judged, sign_test, team_draft
from training.metrics import Values


def test_no_row_is_lost_or_doubled_and_teams_are_balanced_at_each_even_place() -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(0, 40))
        slate = team_draft(rng.permutation(n), rng.permutation(n), rng=rng)
        assert sorted(slate.ids.tolist()) == list(range(n))
        of_challenger = np.cumsum(slate.teams)[1::2]
        assert of_challenger.tolist() == list(range(1, n // 2 + 1))


def test_each_team_places_its_best_row_that_is_left_in_drawn_turns() -> None:
    a, b = np.array([1, 2, 3, 4]), np.array([3, 1, 4, 2])
    found = {
        tuple(zip(each.ids.tolist(), each.teams.tolist(), strict=True))
        for seed in range(60)
        for each in [team_draft(a, b, rng=np.random.default_rng(seed))]
    }
    assert found == {
        ((1, 0), (3, 1), (2, 0), (4, 1)),
        ((1, 0), (3, 1), (4, 1), (2, 0)),
        ((3, 1), (1, 0), (2, 0), (4, 1)),
        ((3, 1), (1, 0), (4, 1), (2, 0)),
    }


def test_a_seed_gives_its_slate_again() -> None:
    a, b = np.arange(30), np.arange(30)[::-1]
    one, other = (team_draft(a, b, rng=np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(one.ids, other.ids) and np.array_equal(one.teams, other.teams)


def test_credit_goes_to_the_team_that_placed_the_row() -> None:
    slate = Interleaved(np.array([7, 8, 9]), np.array([1, 0, 1], dtype=np.int8))
    assert credit(slate, np.array([1, 3, 0.5])) == (3, 1.5)


def test_the_sign_test_is_the_binomial_sum_and_leaves_ties_out() -> None:
    assert sign_test(9, 1) == 2 * (1 + 10) / 2**10
    assert sign_test(1, 9) == sign_test(9, 1)
    assert sign_test(5, 5) == 1
    assert 0 < sign_test(1_400, 1_000) < 1e-12
    verdict = judged(np.array([[1.0, 0], [0, 2], [1, 1], [0, 1]]))
    assert (verdict.champion, verdict.challenger, verdict.ties) == (1, 2, 1)
    assert verdict.p == 1


def _clicks(better: float, seed: int, n: int = 400) -> Values:
    """Return credits of a world where the challenger sees relevance with noise 1 - `better`."""
    rng = np.random.default_rng(seed)
    credits = []
    for _ in range(n):
        relevance = rng.uniform(size=20)
        noise = rng.normal(size=(2, 20))
        champion = np.argsort(-(relevance + noise[0]))
        challenger = np.argsort(-(relevance + (1 - better) * noise[1]))
        slate = team_draft(champion, challenger, rng=rng)
        examined = 1 / np.arange(1, 21)
        clicks = rng.uniform(size=20) < relevance[slate.ids] * examined
        credits.append(credit(slate, clicks))
    return np.array(credits)


def test_a_better_ranker_wins_in_a_world_of_clicks_that_fall_with_the_place() -> None:
    verdict = judged(_clicks(0.9, seed=1))
    assert verdict.winner == "challenger"
    assert verdict.sentence.startswith("The challenger is preferred: of 400 slates")


def test_of_two_equal_rankers_neither_is_preferred_more_often_than_chance_says() -> None:
    found = [judged(_clicks(0.0, seed=seed, n=100)) for seed in range(2, 22)]
    assert sum(verdict.winner is not None for verdict in found) <= 4  # 20 at 5 %: 5+ once in 390
    assert found[0].sentence.startswith("No preference can be told")


def test_the_first_place_is_not_given_to_one_ranker() -> None:
    a, b = np.array([1, 2]), np.array([2, 1])
    rng = np.random.default_rng(0)
    firsts = [int(team_draft(a, b, rng=rng).teams[0]) for _ in range(1_000)]
    assert sum(firsts) == pytest.approx(500, abs=65)
