"""What the write side decides, without any server."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanout.plan import (
    Step,
    follower_ranges,
    is_calm,
    next_step,
    next_threshold,
    reaches_followers,
    retry_after_s,
)
from feed.order import MAX_ID
from feed.settings import Settings

SETTINGS = Settings(switch_grace_s=10)


def step(
    followers: int, readers: bool, writers: bool, settled_s: float = 99, because: str = "size"
) -> Step:
    return next_step(
        followers=followers,
        readers_pull=readers,
        writers_pull=writers,
        because=because,
        is_cheap=None,
        settled_s=settled_s,
        settings=SETTINGS,
    )


@given(st.lists(st.integers(1, MAX_ID - 1), unique=True).map(sorted))
def test_ranges_cover_every_follower_exactly_once(ends: list[int]) -> None:
    ranges = follower_ranges(ends)
    assert (ranges[0][0], ranges[-1][1]) == (0, MAX_ID)
    assert all(one[1] == other[0] for one, other in pairwise(ranges))


def test_waits_double_up_to_a_minute_and_spread() -> None:
    assert [retry_after_s(n, 0.0) for n in (1, 2, 3, 9, 99)] == [0.25, 0.5, 1.0, 60.0, 60.0]
    assert retry_after_s(1, 1.0) == 0.375


def test_an_author_is_pulled_from_ten_thousand_and_pushed_again_below_eight() -> None:
    assert step(9_999, False, False) is Step.STAY
    assert step(10_000, False, False) is Step.TELL_READERS
    assert step(10_000, True, False, settled_s=9.9) is Step.WAIT
    assert step(10_000, True, False, settled_s=10) is Step.STOP_PUSHING
    assert step(8_000, True, True) is Step.STAY
    assert step(7_999, True, True) is Step.PUSH_AGAIN
    assert step(7_999, True, False) is Step.PUSH_AGAIN


def test_a_pulled_post_goes_to_followers_when_its_author_is_no_longer_pulled() -> None:
    assert reaches_followers("push", readers_pull=True)
    assert reaches_followers("pull", readers_pull=False)
    assert not reaches_followers("pull", readers_pull=True)


def test_who_is_pulled_because_of_lag_is_left_alone_unless_the_count_asks() -> None:
    assert step(0, True, False, because="lag") is Step.STAY
    assert step(9_999, True, False, because="lag") is Step.STAY
    assert step(10_000, True, False, because="lag") is Step.TELL_READERS


def threshold(
    now: int | None, lag_s: float, *, changed_s: float = 999, calm_s: float = 999
) -> int | None:
    return next_threshold(now, lag_s=lag_s, changed_s=changed_s, calm_s=calm_s, settings=SETTINGS)


def test_under_lag_the_threshold_halves_down_to_the_lowest() -> None:
    assert [threshold(now, 10.1) for now in (None, 5_000, 2_500, 1_250, 1_000)] == [
        5_000,
        2_500,
        1_250,
        1_000,
        1_000,
    ]
    assert threshold(None, 10.1, changed_s=4.9) is None
    assert threshold(2_500, 10.1, changed_s=4.9) == 2_500
    assert threshold(2_500, 10.0) == 5_000  # not over the bound; and calm for long


def test_the_threshold_doubles_after_a_long_calm_up_to_no_pressure() -> None:
    assert [threshold(now, 0) for now in (1_000, 2_000, 4_000, 8_000, 5_000, None)] == [
        2_000,
        4_000,
        8_000,
        None,
        None,
        None,
    ]
    assert threshold(1_000, 0, calm_s=59.9) == 1_000
    assert threshold(1_000, 0, changed_s=59.9) == 1_000
    assert is_calm(4.9, SETTINGS) and not is_calm(5.0, SETTINGS)


@pytest.mark.parametrize("delivery", ["push", "pull"])
def test_without_a_choice_between_push_and_pull_there_is_no_pressure(delivery: Any) -> None:
    settings = replace(SETTINGS, delivery=delivery)
    found = next_threshold(5_000, lag_s=99, changed_s=999, calm_s=0, settings=settings)
    assert found is None


@given(st.integers(1, 100_000), st.none() | st.integers(1, 200_000), st.floats(0, 100))
def test_the_threshold_stays_between_its_bounds(
    pull_from: int, now: int | None, lag_s: float
) -> None:
    settings = Settings(pull_from_followers=pull_from, push_below_followers=1)
    found = next_threshold(now, lag_s=lag_s, changed_s=999, calm_s=999, settings=settings)
    assert found is None or 1 <= found <= pull_from
