"""The model of a ranked scroll keeps promise P2, and every deliberate fault is caught."""

from random import Random

import pytest

from tests.properties.paging_model import CANDIDATES, Fault, Feed

SIZES_AT_OPEN = (0, 1, 3, CANDIDATES, CANDIDATES + 1, 20, 30)


def walked(rng: Random, feed: Feed) -> tuple[list[int], set[int]]:
    """Scroll to the end while everything moves; return what came, and what was ever hidden."""
    got, cursor = feed.open()
    ever_hidden: set[int] = set()
    seen = set()
    while cursor is not None:
        assert cursor not in seen, "a cursor came back"
        seen.add(cursor)
        for _ in range(rng.randrange(4)):
            feed.write()
        if rng.random() < 0.3 and feed.posts:
            post = rng.choice(list(feed.posts))
            feed.hidden ^= {post}
            ever_hidden.add(post)
        if rng.random() < 0.4:
            feed.snapshots.clear()
        if rng.random() < 0.3:
            feed.page(cursor)  # an answer that got lost; the client asks again
            if rng.random() < 0.2:
                feed.snapshots.clear()
        asked = cursor
        page, cursor = feed.page(asked)
        got += page
        if rng.random() < 0.2:
            if rng.random() < 0.3:
                feed.snapshots.clear()
            feed.page(asked)  # the same request twice; the first answer counts
        assert len(got) < 500, "no end"
    return got, ever_hidden


def check_history(seed: int, fault: Fault | None = None) -> None:
    rng = Random(seed)
    feed = Feed(rng, fault)
    for _ in range(rng.choice(SIZES_AT_OPEN)):
        feed.write()
    at_open = set(feed.posts)
    got, ever_hidden = walked(rng, feed)
    assert len(got) == len(set(got)), "a post came twice"
    assert at_open - ever_hidden <= set(got), "a post was lost"


def test_a_scroll_repeats_nothing_and_loses_nothing() -> None:
    for seed in range(3_000):
        check_history(seed)


@pytest.mark.parametrize("fault", Fault)
def test_every_fault_is_caught(fault: Fault) -> None:
    with pytest.raises(AssertionError):
        for seed in range(3_000):
            check_history(seed, fault)
