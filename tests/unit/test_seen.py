"""What was on the screen: how impressions add up, fade and are packed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed.candidates import Candidates
from feed.errors import Unavailable
from feed.order import NEWEST, Ids
from feed.query import Query, Viewer
from feed.seen import REMEMBERED_AUTHORS, Seen, authors_seen, faded, times_seen
from mixer.seen import SeenMemory
from storage.seen import RECORD, pack, unpack

pytestmark = pytest.mark.anyio

HOUR_S = 3600
NOW_S = 1_790_000_000
WEEK_S = 7 * 86_400


def ids(*values: int) -> Ids:
    return np.array(values, dtype=np.int64)


def seen(*impressions: tuple[int, int, int]) -> Seen:
    """Make a memory of (post, author, hours ago)."""
    posts, authors, ago_h = zip(*impressions, strict=True) if impressions else ((), (), ())
    return Seen(ids(*posts), ids(*authors), NOW_S - HOUR_S * ids(*ago_h))


def test_impressions_of_a_post_add_up_and_fade() -> None:
    """1 now + 1/2 two days ago + 1/4 four days ago, at a half-life of two days."""
    memory = seen((7, 1, 0), (7, 1, 48), (7, 1, 96), (8, 1, 24), (9, 2, 48))
    wanted = ids(9, 7, 5, 8)
    times = times_seen(memory, wanted, wanted, NOW_S, 48 * HOUR_S)
    assert times == pytest.approx([1 / 2, 1 + 1 / 2 + 1 / 4, 0, 2**-0.5])


def test_an_original_seen_through_one_repost_is_seen_through_all() -> None:
    """Posts 5 and 6 repost 4, which is no candidate itself; 7 shows itself."""
    memory = seen((5, 1, 0), (7, 1, 48))
    times = times_seen(memory, ids(4, 4, 7), ids(5, 6, 7), NOW_S, 48 * HOUR_S)
    assert times.tolist() == [1, 1, 0.5]


def test_impressions_of_an_author_add_up_and_fade() -> None:
    """Whatever the post: 1 + 1/2 of the first, 1/4 of the second, at a half-life of a day."""
    memory = seen((7, 1, 0), (8, 1, 24), (9, 2, 48))
    assert authors_seen(memory, ids(1, 2, 3, 1), NOW_S, 24 * HOUR_S).tolist() == [1.5, 0.25, 0, 1.5]


def test_only_the_authors_seen_last_are_remembered() -> None:
    """However often the 65th was seen."""
    last = [(n, n, n) for n in range(1, REMEMBERED_AUTHORS + 1)]
    memory = seen(*last, *[(100 + n, 1_000, 100 + n) for n in range(9)])
    counts = authors_seen(memory, ids(1, REMEMBERED_AUTHORS, 1_000), NOW_S, 24 * HOUR_S)
    assert (counts > 0).tolist() == [True, True, False]


def test_a_row_that_comes_twice_is_one_impression_and_old_ones_are_none() -> None:
    """A rebuild may find in the log what was appended as well."""
    memory = seen((7, 1, 1), (7, 1, 1), (7, 1, 2), (8, 1, 1), (7, 1, 169))
    assert sorted(memory.since(NOW_S - WEEK_S).posts.tolist()) == [7, 7, 8]


def test_what_is_ahead_of_the_clock_counts_one() -> None:
    """Nodes disagree by some seconds; an impression never counts more than one."""
    assert faded(seen((7, 1, -1)), NOW_S, HOUR_S).tolist() == [1.0]


def test_nothing_seen_counts_nothing() -> None:
    """As numbers, so that a rule can weigh with them."""
    none = Seen().since(0)
    assert times_seen(none, ids(1, 2), ids(1, 2), NOW_S, 1).tolist() == [0, 0]
    assert authors_seen(none, ids(1, 2), NOW_S, 1).tolist() == [0, 0]
    assert len(times_seen(seen((1, 1, 1)), ids(), ids(), NOW_S, 1)) == 0


IMPRESSIONS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 400)).map(lambda each: (*each, each[0] % 4))
)


@given(IMPRESSIONS, st.lists(st.integers(1, 12), unique=True), st.floats(0.1, 1_000))
def test_sums_are_those_of_a_loop(
    impressions: list[tuple[int, int, int]], wanted: list[int], half_life_h: float
) -> None:
    """Also of what was packed, in any order, with rows that come twice."""
    memory = unpack(pack(seen(*((post, author, ago) for post, ago, author in impressions))))
    memory = memory.since(NOW_S - WEEK_S)
    posts, authors = dict.fromkeys(wanted, 0.0), dict.fromkeys(range(6), 0.0)
    for post, ago_h, author in set(impressions):
        if ago_h <= 168:
            weight = 0.5 ** (ago_h / half_life_h)
            authors[author] += weight
            if post in posts:
                posts[post] += weight
    half_life_s = half_life_h * HOUR_S
    times = times_seen(memory, ids(*wanted), ids(*wanted), NOW_S, half_life_s)
    assert times == pytest.approx(list(posts.values()))
    assert authors_seen(memory, ids(*authors), NOW_S, half_life_s) == pytest.approx(
        list(authors.values())
    )


def test_a_record_is_20_bytes_little_endian() -> None:
    """Servers of another kind read the same memory."""
    packed = pack(Seen(ids(2**62 + 1), ids(3), ids(2**32 - 1)))
    assert RECORD.itemsize == len(packed) == 20
    assert packed == (2**62 + 1).to_bytes(8, "little") + (3).to_bytes(8, "little") + b"\xff" * 4
    again = unpack(packed)
    assert (again.posts, again.authors, again.at_s) == (2**62 + 1, 3, 2**32 - 1)


CANDIDATES = Candidates(ids(8, 7), ids(8, 7), {"original": ids(8, 7), "author": ids(1, 2)})
MEMORY = SeenMemory(half_life_h=48, author_half_life_h=24, memory_s=WEEK_S)


def query(memory: Seen | None) -> Query:
    return Query(Viewer(id=1, seen=memory), 10, NEWEST, NOW_S * 1000)


async def test_posts_and_authors_fade_with_half_lives_of_their_own() -> None:
    columns = await MEMORY.hydrate(query(seen((7, 2, 48))), CANDIDATES)
    assert {name: column.tolist() for name, column in columns.items()} == {
        "seen": [0, 0.5],
        "author_seen": [0, 0.25],
    }


async def test_what_is_not_known_is_no_memory_of_nothing() -> None:
    """The stage fails then, so that the response names it; a new viewer's is just empty."""
    with pytest.raises(Unavailable):
        await MEMORY.hydrate(query(None), CANDIDATES)
    assert not (await MEMORY.hydrate(query(Seen()), CANDIDATES))["seen"].any()
