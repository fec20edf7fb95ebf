"""What a chain was served is kept twice; a page is answered when one of the two took it."""

from typing import Any

import numpy as np
import pytest

from feed.chain import Chain
from feed.errors import Unavailable
from feed.telemetry import Trace
from mixer.chains import Chains
from snapshots.cursor import Cursor
from snapshots.snapshot import Head, Snapshot
from storage.served import ServedPage

pytestmark = pytest.mark.anyio

ROWS = Chain(np.array([7, 8]), np.array([7, 0]))
NONE = np.empty(0, dtype=np.int64)
SNAPSHOT = Snapshot(
    Head("snap", "nonce", "session", 0, "affinity_decay", "default-1", None),
    ROWS.ids,
    np.zeros(2, dtype=np.int8),
    NONE,
    np.zeros(3, dtype=np.int64),
)
CURSOR = Cursor(1, "ranked", "slate", "session", 0, "request", snapshot_id="snap", nonce="nonce")


class Memory:
    """One of the two, there or away."""

    def __init__(self, *, away: bool, chain: Chain | None = None) -> None:
        self._away = away
        self._chain = chain

    async def note(self, *_: Any) -> None:
        self._answer()

    async def record(self, page: ServedPage) -> None:
        self._answer()

    async def chain(self, *_: Any) -> Chain | None:
        self._answer()
        return self._chain

    def _answer(self) -> None:
        if self._away:
            raise Unavailable("away")


def chains(cache: Memory, log: Memory) -> Chains:
    return Chains(cache, log, wait_s=60)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cache_away", "log_away", "degraded"),
    [(False, False, []), (True, False, ["chain"]), (False, True, ["served_log"])],
)
async def test_one_memory_is_enough(cache_away: bool, log_away: bool, degraded: list[str]) -> None:
    trace = Trace()
    kept = chains(Memory(away=cache_away), Memory(away=log_away))
    await kept.note(CURSOR, SNAPSHOT, ROWS, trace)
    assert trace.degraded == degraded


async def test_a_page_that_no_memory_took_is_not_answered() -> None:
    """Else the next page could be the same one."""
    kept = chains(Memory(away=True), Memory(away=True))
    with pytest.raises(Unavailable):
        await kept.note(CURSOR, SNAPSHOT, ROWS, Trace())


@pytest.mark.parametrize("cache", [Memory(away=True), Memory(away=False)], ids=["away", "lost"])
async def test_a_chain_that_the_cache_lost_is_read_from_the_log(cache: Memory) -> None:
    kept = chains(cache, Memory(away=False, chain=ROWS))
    assert (await kept.served(CURSOR, 2, Trace())).ids.tolist() == [7, 8]


async def test_a_row_that_no_memory_holds_is_left_out_and_named() -> None:
    hole = Chain(np.array([7, 0]), np.array([7, 0]))
    trace = Trace()
    kept = chains(Memory(away=False), Memory(away=False, chain=hole))
    assert (await kept.served(CURSOR, 2, trace)).ids.tolist() == [7]
    assert trace.degraded == ["served_log"]
