"""Writes down, beside the responses, what was served and why: slates, and chronological pages.

What a ranked page showed is logged before its answer (`mixer.chains`): a scroll depends on it.
This only teaches, so it is bounded, counted, and lost when Postgres is away for long.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Protocol
from zlib import crc32

import numpy as np

from feed.candidates import Candidates
from feed.order import Ids, Rows
from feed.query import Query
from mixer.facts import Known
from mixer.side_effects import SideEffects
from rankers.features import build, schema_hash
from snapshots.snapshot import Codes, Head
from storage.served import ServedPage
from storage.slates import ROW, LoggedSlate

PAUSE_S = 0.05
"""What comes within this time is written together."""

BATCH = 100


class FactReader(Protocol):
    """Where facts are read (`mixer.facts.KnownFacts`)."""

    async def of(self, viewer_id: int, ids: Ids, sources: Codes, now_ms: int) -> Known:
        """Return what is known now of these posts (n,), found by these sources (n,)."""
        ...


class Log(Protocol):
    """Where it is written (`storage.slates.LearningLog`)."""

    async def record(self, pages: list[ServedPage], slates: list[LoggedSlate]) -> None:
        """Write all of them or none."""
        ...


@dataclass(frozen=True)
class Logged:
    """How much is logged: so many first rows, so many others, and features for a share.

    `bound` of 0: nothing at all.
    """

    rows: int
    others: int
    with_features: float
    bound: int


@dataclass(frozen=True)
class Frozen:
    """A slate as it was frozen: its rows (n,) in order, and how they came to stand there.

    `rows` may have the columns light, heavy (0: not scored) and propensity (1 without).
    """

    head: Head
    rows: Candidates
    skipped: tuple[str, ...] = ()
    model: str | None = None
    explored: bool = False
    known: Known | None = None


class Logbook:
    """Holds at most `bound` pages and slates until they are written; more are dropped, counted."""

    def __init__(self, effects: SideEffects, log: Log, facts: FactReader, logged: Logged) -> None:
        """Write to `log`, beside the responses."""
        self._effects = effects
        self._log = log
        self._facts = facts
        self._logged = logged
        self._pages: list[ServedPage] = []
        self._slates: list[tuple[LoggedSlate, Known | None]] = []
        self._writing = False
        self.dropped = 0
        self.written = 0

    def page(self, page: ServedPage) -> None:
        """Log a page that was answered."""
        if self._has_room():
            self._pages.append(page)
            self._write()

    def slate(self, query: Query, frozen: Frozen) -> None:
        """Log a slate that was frozen for a query."""
        if self._has_room():
            self._slates.append((self._packed(query, frozen), frozen.known))
            self._write()

    def _has_room(self) -> bool:
        if len(self._pages) + len(self._slates) < self._logged.bound:
            return True
        self.dropped += self._logged.bound > 0
        return False

    def _write(self) -> None:
        if not self._writing:
            self._writing = self._effects.start("log", self._written())

    async def _written(self) -> None:
        """Write a batch; what came meanwhile is another side effect, with a deadline of its own."""
        try:
            await asyncio.sleep(PAUSE_S)
            await self._write_batch()
        finally:
            self._writing = False
            if self._pages or self._slates:
                self._write()

    async def _write_batch(self) -> None:
        pages, self._pages = self._pages[:BATCH], self._pages[BATCH:]
        slates, self._slates = self._slates[:BATCH], self._slates[BATCH:]
        try:
            whole = [await self._with_features(slate, known) for slate, known in slates]
            await self._log.record(pages, whole)
        except BaseException:
            self.dropped += len(pages) + len(slates)
            raise
        self.written += len(pages) + len(slates)

    def _packed(self, query: Query, frozen: Frozen) -> LoggedSlate:
        head, known = frozen.head, frozen.known
        places = np.arange(len(frozen.rows))
        if known is not None:  # of the others nobody knows the features that they had
            places = places[np.isin(frozen.rows.ids, known.ids)]
        places = drawn(places, self._logged.rows, self._logged.others, seed=_seed(head.nonce))
        rows = frozen.rows.take(places)
        packed = np.zeros(len(places), dtype=ROW)
        packed["id"], packed["source"], packed["position"] = rows.ids, rows["source"], places
        for name, unknown in (("light", np.nan), ("heavy", 0.0), ("propensity", 1.0)):
            packed[name] = rows.columns.get(name, np.full(len(places), unknown))
        packed["heavy"][packed["heavy"] == 0] = np.nan
        return LoggedSlate(
            viewer_id=query.viewer.id,
            session_id=head.session_id,
            snapshot_id=head.id,
            nonce=head.nonce,
            now_ms=head.created_ms,
            ranker=head.ranker,
            weights=head.weights,
            model=frozen.model,
            explored=frozen.explored,
            skipped=frozen.skipped,
            n_rows=len(frozen.rows),
            rows=packed,
        )

    async def _with_features(self, slate: LoggedSlate, known: Known | None) -> LoggedSlate:
        """Add the features of a sampled slate: those that a heavy ranker was given, if one was."""
        if _seed(f"features:{slate.nonce}") / 2**32 >= self._logged.with_features:
            return slate
        ids = slate.rows["id"].astype(np.int64)
        if known is None:
            sources = slate.rows["source"].astype(np.int8)
            known = await self._facts.of(slate.viewer_id, ids, sources, slate.now_ms)
        matrix = build(known.facts)[_places(known.ids, ids)]
        return replace(slate, fold=known.fold, schema_hash=schema_hash(), features=matrix)


def drawn(places: Rows, first: int, others: int, *, seed: int) -> Rows:
    """Return the first of these places, and some of the others drawn by lot, in order.

    >>> drawn(np.arange(6), 2, 2, seed=1).tolist()
    [0, 1, 2, 5]
    """
    rest = np.random.default_rng(seed).permutation(places[first:])[:others]
    return np.concatenate([places[:first], np.sort(rest)])


def _seed(text: str) -> int:
    """Draw a number below 2^32 from a nonce, which nobody can guess."""
    return crc32(text.encode())


def _places(known: Ids, ids: Ids) -> Rows:
    order = np.argsort(known)
    return np.asarray(order[np.searchsorted(known[order], ids)])
