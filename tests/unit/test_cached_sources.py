"""Sources that read cached lists: the newest are found, and what is not known is said."""

import numpy as np
import pytest

from candidate_sources.author_outboxes import AuthorOutboxes
from candidate_sources.pushed_feed import PushedFeed
from feed.order import NEWEST, Ids, Key
from feed.query import Query, Viewer
from storage import keys
from storage.feeds import CachedList

pytestmark = pytest.mark.anyio


def ids(*values: int) -> Ids:
    return np.array(values, dtype=np.int64)


class Held:
    """Cached lists, newest first, with ids that are their times."""

    def __init__(self, lists: dict[str, CachedList]) -> None:
        self.lists = lists

    async def read(self, names: list[str]) -> list[CachedList | None]:  # type: ignore[override]
        return [self.lists.get(name) for name in names]


def listed(*times: int, floor_ms: int | None = None) -> CachedList:
    return CachedList(ids(*times), ids(*times), floor_ms)


def query(n: int, before: Key = NEWEST) -> Query:
    viewer = Viewer(id=1, followees=ids(2, 3, 4, 5), pulled=ids(2, 3, 4))
    return Query(viewer, n, before, 0)


async def test_of_many_outboxes_the_newest_posts_are_found_and_every_floor_is_said() -> None:
    held = Held(
        {
            keys.outbox(2): listed(90, 70, 50, floor_ms=40),
            keys.outbox(3): listed(80, 60, floor_ms=55),
        }
    )
    found = await AuthorOutboxes(held).find(query(3))  # type: ignore[arg-type]
    assert sorted(found.ids.tolist()) == [70, 80, 90]
    gaps = dict(zip(found.gaps.authors.tolist(), found.gaps.ms.tolist(), strict=True))
    assert (gaps[2], gaps[3]) == (40, 55)
    assert found.missing == (4,), "and what is missing is missing at any depth"


async def test_outboxes_are_read_from_the_place_of_the_page_on() -> None:
    held = Held({keys.outbox(2): listed(90, 70, 50), keys.outbox(3): listed(80, 60)})
    found = await AuthorOutboxes(held).find(query(2, before=Key(80, 80)))  # type: ignore[arg-type]
    assert sorted(found.ids.tolist()) == [60, 70]


async def test_of_a_pushed_feed_no_more_is_found_than_is_asked_for() -> None:
    held = Held({keys.feed(1): listed(90, 80, 70, floor_ms=60)})
    found = await PushedFeed(held).find(query(1, before=Key(90, 90)))  # type: ignore[arg-type]
    assert found.ids.tolist() == [80]
    assert (found.gaps.authors.tolist(), found.gaps.ms.tolist()) == ([5], [60])
