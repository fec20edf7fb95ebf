"""The log beside the responses: bounded, counted, and on its feet again after a failure."""

import asyncio
from typing import Any

import numpy as np
import pytest

from feed.candidates import Candidates
from feed.chain import Chain
from feed.order import NEWEST
from feed.query import Query, Viewer
from mixer.facts import Known
from mixer.logbook import Frozen, Logbook, Logged
from mixer.side_effects import SideEffects
from rankers.features import NAMES
from snapshots.snapshot import Head
from storage.served import ServedPage
from storage.slates import LoggedSlate
from tests.unit.test_features import facts

PAGE = ServedPage(1, "s", "", "", "chronological", 0, 0, Chain(), "chronological", b"")
HEAD = Head("id", "nonce", "s", 1_000, "affinity_decay", "w1", None)
QUERY = Query(Viewer(7), 500, NEWEST, 1_000)


class Kept:
    """A log that fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.pages: list[ServedPage] = []
        self.slates: list[LoggedSlate] = []

    async def record(self, pages: list[ServedPage], slates: list[LoggedSlate]) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("away")
        self.pages += pages
        self.slates += slates


class NoFacts:
    async def of(self, *_: Any) -> Known:
        raise AssertionError("a heavy ranker's features are not read again")


def logbook(kept: Kept, *, share: float = 0.0, bound: int = 3) -> tuple[Logbook, SideEffects]:
    effects = SideEffects(bound=2, deadline_s=5)
    logged = Logged(rows=2, others=1, with_features=share, bound=bound)
    return Logbook(effects, kept, NoFacts(), logged), effects


@pytest.mark.anyio
async def test_more_than_it_holds_is_dropped_and_counted() -> None:
    kept = Kept()
    book, effects = logbook(kept)
    for _ in range(5):
        book.page(PAGE)
    await effects.drain()
    assert (len(kept.pages), book.written, book.dropped) == (3, 3, 2)
    book.page(PAGE)
    await effects.drain()
    assert (book.written, book.dropped) == (4, 2)


@pytest.mark.anyio
async def test_who_wants_no_log_has_none_and_nothing_is_lost() -> None:
    kept = Kept()
    book, effects = logbook(kept, bound=0)
    book.page(PAGE)
    await effects.drain()
    assert (len(kept.pages), book.written, book.dropped) == (0, 0, 0)


@pytest.mark.anyio
async def test_what_could_not_be_written_is_counted_and_the_next_is_written() -> None:
    kept = Kept(failures=1)
    book, effects = logbook(kept)
    book.page(PAGE)
    await effects.drain()
    book.page(PAGE)
    await effects.drain()
    assert (book.written, book.dropped, effects.failed) == (1, 1, 1)


@pytest.mark.anyio
async def test_what_comes_while_a_batch_is_written_is_written_after_it() -> None:
    class Slow(Kept):
        async def record(self, pages: list[ServedPage], slates: list[LoggedSlate]) -> None:
            if not self.pages:
                book.page(PAGE)
            await super().record(pages, slates)

    kept = Slow()
    book, effects = logbook(kept)
    book.page(PAGE)
    await effects.drain()
    assert (len(kept.pages), book.dropped) == (2, 0)


@pytest.mark.anyio
async def test_a_heavy_rankers_features_are_logged_as_it_was_given_them() -> None:
    """Rows of which it knew nothing are not logged: nobody knows what it would have been given."""
    kept = Kept()
    book, effects = logbook(kept, share=1.0)
    rows = Candidates(
        np.array([30, 20, 10]),
        np.array([3, 2, 1]),
        {"source": np.zeros(3, np.int8), "heavy": np.array([0.9, 0.1, 0.5])},
    )
    known = Known(np.array([10, 30]), facts(), fold=4)
    book.slate(QUERY, Frozen(HEAD, rows, model="abc", known=known))
    await asyncio.sleep(0)
    await effects.drain()
    [slate] = kept.slates
    assert (slate.model, slate.fold, slate.n_rows) == ("abc", 4, 3)
    assert slate.rows["id"].tolist() == [30, 10] and slate.rows["position"].tolist() == [0, 2]
    assert slate.rows["heavy"].tolist() == [np.float32(0.9), np.float32(0.5)]
    assert slate.features is not None
    likes = slate.features[:, NAMES.index("likes")]
    assert np.isnan(likes[0]) and likes[1] == 3, "rows and features stand in one order"
