"""The one order of posts: newest first, ties by id, the key as a place in it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from feed.candidates import Found, Gaps, merged, oldest_of_newest
from feed.order import MAX_ID, MAX_MS, NEWEST, OLDEST, Key, at_or_above, below, newest_first

# Few milliseconds, so that ties are common; ids up to the largest.
entries = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 9) | st.integers(MAX_ID - 3, MAX_ID)), max_size=12
)
keys = st.builds(Key, st.integers(0, 3), st.integers(1, 9))


def columns(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    ms, ids = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    return ms, ids


@given(entries)
def test_newest_first_is_the_order_of_the_keys(rows: list[tuple[int, int]]) -> None:
    ms, ids = columns(rows)
    order = newest_first(ms, ids)
    assert [(ms[row], ids[row]) for row in order] == sorted(rows, reverse=True)


@given(entries, keys)
def test_every_row_is_either_below_a_key_or_not(rows: list[tuple[int, int]], key: Key) -> None:
    ms, ids = columns(rows)
    assert below(ms, ids, key).tolist() == [row < key for row in rows]
    assert at_or_above(ms, ids, key).tolist() == [row >= key for row in rows]


@given(entries, keys, st.integers(1, 4))
def test_pages_by_key_give_every_row_once(
    rows: list[tuple[int, int]], key: Key, limit: int
) -> None:
    ms, ids = columns(list(set(rows)))
    order = newest_first(ms, ids)
    ms, ids, place, got = ms[order], ids[order], NEWEST, []
    while len(page := np.flatnonzero(below(ms, ids, place))[:limit]):
        got += [(ms[row], ids[row]) for row in page]
        place = Key(int(ms[page[-1]]), int(ids[page[-1]]))
    assert got == sorted(set(rows), reverse=True)


@given(entries, entries)
def test_merging_gives_each_post_once_in_order(
    pushed: list[tuple[int, int]], pulled: list[tuple[int, int]]
) -> None:
    # One post has one time: the pulled list says the same of a post that both hold.
    times = {post: ms for ms, post in pulled} | {post: ms for ms, post in pushed}
    lists = [
        Found(np.array(ids, dtype=np.int64), np.array([times[i] for i in ids], np.int64), source)
        for ids, source in (
            ([post for _, post in pushed], "pushed_feed"),
            ([post for _, post in pulled], "author_outbox"),
        )
    ]
    both = merged(lists)
    wanted = sorted(((ms, post) for post, ms in times.items()), reverse=True)
    assert list(zip(both.ms.tolist(), both.ids.tolist(), strict=True)) == wanted


def test_the_ends_of_the_order_hold_everything() -> None:
    ms, ids = columns([(0, 1), (MAX_MS, MAX_ID - 1)])
    assert below(ms, ids, NEWEST).all()
    assert at_or_above(ms, ids, OLDEST).all()


def test_a_list_shorter_than_asked_for_reaches_to_the_oldest() -> None:
    two = merged([Found(np.array([1, 2]), np.array([10, 20]), "pushed_feed")])
    assert oldest_of_newest(two, 3) == OLDEST
    assert oldest_of_newest(two, 2) == Key(10, 1)


def test_an_untrimmed_list_has_no_gap_and_a_missing_one_has_it_at_the_top() -> None:
    authors = np.array([7, 8])
    assert len(Gaps()) == 0
    assert len(Gaps.everywhere(authors).reaching(Key(MAX_MS, MAX_ID))) == 2
    assert len(Gaps.at(authors, 50).reaching(Key(51, 1))) == 0
    assert len(Gaps.at(authors, 50).reaching(Key(50, MAX_ID))) == 2
