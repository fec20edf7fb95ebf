"""Push or pull by cost: what is cheaper, between which bounds, and how long an author dwells."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.plan import advise
from fanout.plan import (
    Step,
    decided_by,
    next_step,
    pull_is_cheap,
    pull_ms,
    push_ms,
    wants_pull,
)
from feed.settings import Settings
from storage.costs import AuthorCost

SETTINGS = Settings(
    switch_policy="cost",
    cost_push_below_followers=1_000,
    cost_pull_from_followers=50_000,
    cost_insert_us=30,
    cost_lookup_us=900,
    cost_opens_per_day=4,
    cost_dwell_s=3_600,
    switch_grace_s=10,
)
BUSY = AuthorCost(
    author_id=1,
    followers=6_000,
    active_followers=5_000,
    posts_per_day=200,
    opens_per_day=20_000,
    pulled=False,
)


def test_costs_are_rate_times_followers_and_opens_of_followers() -> None:
    assert push_ms(BUSY, SETTINGS) == 200 * 5_000 * 30 / 1000
    assert pull_ms(BUSY, SETTINGS) == 20_000 * 900 / 1000
    assert pull_is_cheap(BUSY, SETTINGS)
    assert not pull_is_cheap(replace(BUSY, posts_per_day=100), SETTINGS)


def test_without_a_log_every_active_follower_is_said_to_open_so_often() -> None:
    assert pull_ms(replace(BUSY, opens_per_day=None), SETTINGS) == 5_000 * 4 * 900 / 1000


def test_an_author_whom_nobody_reads_is_left_as_it_is_or_pushed() -> None:
    nobody = replace(BUSY, active_followers=0, opens_per_day=0.0)
    assert not pull_is_cheap(nobody, SETTINGS)


@pytest.mark.parametrize("is_cheap", [True, False, None])
@pytest.mark.parametrize("pulled", [True, False])
def test_beyond_the_bounds_cost_does_not_count(is_cheap: bool | None, pulled: bool) -> None:
    wanted = {
        followers: wants_pull(followers, pulled=pulled, is_cheap=is_cheap, settings=SETTINGS)
        for followers in (0, 999, 50_000, 10**6)
    }
    assert wanted == {0: False, 999: False, 50_000: True, 10**6: True}
    assert decided_by(999, SETTINGS) == decided_by(50_000, SETTINGS) == "size"


def test_between_the_bounds_it_does_and_unmeasured_authors_stay() -> None:
    for followers in (1_000, 49_999):
        assert decided_by(followers, SETTINGS) == "cost"
        for pulled in (True, False):
            for is_cheap, wanted in ((True, True), (False, False), (None, pulled)):
                found = wants_pull(followers, pulled=pulled, is_cheap=is_cheap, settings=SETTINGS)
                assert found is wanted


@given(st.integers(0, 200_000), st.booleans(), st.none() | st.booleans())
def test_by_followers_no_cost_counts(followers: int, pulled: bool, is_cheap: bool | None) -> None:
    settings = replace(SETTINGS, switch_policy="followers")
    found = wants_pull(followers, pulled=pulled, is_cheap=is_cheap, settings=settings)
    assert found == (followers >= 10_000 or (pulled and followers >= 8_000))
    assert decided_by(followers, settings) == "size"


def step(
    *, readers: bool, writers: bool, is_cheap: bool | None, settled_s: float, followers: int = 6_000
) -> Step:
    return next_step(
        followers=followers,
        readers_pull=readers,
        writers_pull=writers,
        because="cost",
        is_cheap=is_cheap,
        settled_s=settled_s,
        settings=SETTINGS,
    )


def test_an_author_dwells_in_each_state_and_what_has_begun_is_finished() -> None:
    assert step(readers=False, writers=False, is_cheap=True, settled_s=3_599) is Step.STAY
    assert step(readers=False, writers=False, is_cheap=True, settled_s=3_600) is Step.TELL_READERS
    assert step(readers=True, writers=False, is_cheap=True, settled_s=9) is Step.WAIT
    assert step(readers=True, writers=False, is_cheap=True, settled_s=10) is Step.STOP_PUSHING
    assert step(readers=True, writers=True, is_cheap=False, settled_s=3_599) is Step.STAY
    assert step(readers=True, writers=True, is_cheap=False, settled_s=3_600) is Step.PUSH_AGAIN
    assert step(readers=True, writers=False, is_cheap=False, settled_s=0) is Step.PUSH_AGAIN


def test_the_bounds_do_not_wait() -> None:
    large, small = {"followers": 50_000}, {"followers": 999}
    tell = step(readers=False, writers=False, is_cheap=False, settled_s=0, **large)
    again = step(readers=True, writers=True, is_cheap=True, settled_s=0, **small)
    assert (tell, again) == (Step.TELL_READERS, Step.PUSH_AGAIN)


def test_advice_is_what_the_policy_would_do_and_says_where_a_bound_holds_it() -> None:
    advice = advise(BUSY, replace(SETTINGS, switch_policy="followers"))
    assert (advice.best, advice.saves_ms, advice.bound) == ("pull", 30_000 - 18_000, False)
    small = advise(replace(BUSY, followers=999), SETTINGS)
    assert (small.best, small.saves_ms, small.bound) == ("push", 0, True)
    large = advise(replace(BUSY, followers=60_000, posts_per_day=1), SETTINGS)
    assert (large.best, large.saves_ms, large.bound) == ("pull", 150 - 18_000, True)
