"""How many questions a page costs when much of what it meets may not be shown."""

from typing import Any

import numpy as np
import pytest

from feed.order import NEWEST, Ids, Key, Mask
from mixer.safety import Safety
from snapshots.snapshot import Head, Snapshot, slate_columns

pytestmark = pytest.mark.anyio

SCAN = 200
HEAD = Head("s", "n", "session", 0, "affinity_decay", "w", None)


class Nothing:
    """A page query that refuses everything, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def visible(self, viewer_id: int, ids: Ids, must_follow: Mask) -> list[Any]:
        self.asked.append(len(ids))
        return []


async def test_a_list_of_refused_posts_is_read_to_the_bound_in_few_rounds() -> None:
    nothing = Nothing()

    async def more(below: Key, n: int) -> tuple[Ids, Ids]:
        first = min(below.id, 10_000) - 1
        ids = np.arange(first, first - n, -1, dtype=np.int64)
        return ids, ids

    found, key = await Safety(nothing, scan=SCAN).from_list(1, more, NEWEST, 1)
    assert found == [] and key is not None
    assert SCAN <= sum(nothing.asked) <= SCAN + 10 and len(nothing.asked) <= 6
    assert key.id == 10_000 - sum(nothing.asked), "what was not looked at is left for the next"


async def test_a_slate_of_refused_posts_is_read_to_the_bound_in_few_rounds() -> None:
    nothing = Nothing()
    ids = np.arange(1_000, 0, -1, dtype=np.int64)
    flat, starts = slate_columns([()] * len(ids))
    slate = Snapshot(HEAD, ids, np.zeros(len(ids), np.int8), flat, starts)
    items, row = await Safety(nothing, scan=SCAN).from_slate(1, slate, 0, 1)
    assert (items, row) == ([], SCAN)
    assert sum(nothing.asked) == SCAN and len(nothing.asked) <= 6
