"""What the write side decides, without any server."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fanout.plan import Step, follower_ranges, next_step, reaches_followers, retry_after_s
from feed.order import MAX_ID
from feed.settings import Settings

SETTINGS = Settings(switch_grace_s=10)


def step(followers: int, readers: bool, writers: bool, settled_s: float = 99) -> Step:
    return next_step(
        followers=followers,
        readers_pull=readers,
        writers_pull=writers,
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
    assert reaches_followers("push", readers_pull=True, policy="hybrid")
    assert reaches_followers("pull", readers_pull=False, policy="hybrid")
    assert not reaches_followers("pull", readers_pull=True, policy="hybrid")
    assert not reaches_followers("push", readers_pull=False, policy="pull")
