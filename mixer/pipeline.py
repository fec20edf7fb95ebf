"""Runs any recipe: sources side by side, the truth where they are silent, filters, scores, rules.

`Pipeline` gathers and hydrates; a `Ranking`, made from a profile, orders.

The runner owns concurrency, deadlines, timing, shape checks and failure; a stage owns its rule.
A stage here decides relevance only. When it fails it is skipped and named in `degraded`, and a
failed source is read from the truth instead: unknown is never empty. When the truth fails too,
what lies above everything unknown is a feed, and without that there is none. Safety is
`mixer.safety`.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from feed.candidates import (
    Candidates,
    Found,
    Gaps,
    checked,
    empty_ids,
    merged,
    oldest_of_newest,
)
from feed.errors import Unavailable
from feed.order import OLDEST, Ids, Key, above
from feed.query import Query
from feed.stages import Filter, GapFiller, Hydrator, Rule, Scorer, Source
from feed.telemetry import Trace

log = logging.getLogger("foryou.pipeline")


@dataclass(frozen=True)
class Gathered:
    """The newest candidates (n,), newest first, and the lists that should be rebuilt.

    `oldest` is the place of the oldest candidate when there may be more below it, else None:
    W in docs/architecture.md. `cut` when there are fewer than asked for and may be more below.
    """

    candidates: Candidates
    oldest: Key | None
    cut: bool
    missing: dict[str, tuple[int, ...]]
    discovered: list[Found]


@dataclass(frozen=True)
class Ranking:
    """What orders candidates: a formula and the rules after it, of one version of a profile.

    `hydrators` give columns that depend on the profile. `heavy`, if there is a model, says what
    that thinks of the scorer's best, after the filters; a rule then orders by it.
    """

    version: str
    scorer: Scorer
    rules: Sequence[Rule]
    hydrators: Sequence[Hydrator] = ()
    heavy: Hydrator | None = None

    def ranker(self, trace: Trace) -> str:
        """Name what ordered a slate: the heavy ranker, else the scorer, else time."""
        if self.scorer.name in trace.degraded:
            return "chronological"
        if self.heavy and self.heavy.name not in trace.degraded:
            return self.heavy.name
        return self.scorer.name

    def skipped(self, trace: Trace) -> tuple[str, ...]:
        """Name the stages that had to be skipped."""
        names = (self.scorer.name, *(rule.name for rule in self.rules))
        return tuple(name for name in names if name in trace.degraded)


@dataclass(frozen=True)
class Slate:
    """The candidates in the order to be shown, and what led to it.

    `weighed` are the rows (n,) that the ranking was given, with every column it reads; `dropped`
    are the ids that each filter took out before.
    """

    rows: Candidates
    weighed: Candidates
    dropped: dict[str, Ids]


@dataclass(frozen=True)
class Pipeline:
    """A recipe: which stages, in which order (`mixer.home_feed`).

    `discoveries` are sources of posts from outside the network. `fills` are the requests that may
    read from the truth at the same time what cached lists are silent about: a cache that is lost
    must not take the truth with it. Each waits and reads for at most `fill_deadline_s`.
    """

    sources: Sequence[Source]
    discoveries: Sequence[Source]
    gap_filler: GapFiller
    hydrators: Sequence[Hydrator]
    filters: Sequence[Filter]
    fills: asyncio.Semaphore
    source_deadline_s: float
    fill_deadline_s: float

    async def gather(self, query: Query, trace: Trace) -> Gathered:
        """Return the newest `query.n` candidates below `query.before`, whatever the caches hold.

        Raises:
            Unavailable: A cached list is silent and the truth cannot be reached.
        """
        asked = [*self.sources, *(self.discoveries if query.discover else ())]
        with trace.timed("sources"):
            answers = await asyncio.gather(*(self._find(each, query, trace) for each in asked))
        found, discovered = answers[: len(self.sources)], answers[len(self.sources) :]
        # Gaps wholly below the nth newest row need no filling: nothing there is among the n.
        seen = merged(found)
        down_to = oldest_of_newest(seen, query.n)
        gaps = Gaps.joined([each.gaps for each in found]).reaching(down_to)
        cut = False
        if len(gaps):
            below = await self._fill(query, gaps, down_to, trace)
            cut = below is None
            seen = _above(seen, gaps) if below is None else merged([*found, below])
        newest = seen.take(np.arange(min(len(seen), query.n)))
        oldest = oldest_of_newest(newest, len(newest) if cut else query.n)
        trace.n_candidates = len(newest)
        trace.building = trace.building or any(each.missing for each in found)
        return Gathered(
            newest,
            None if oldest == OLDEST else oldest,
            cut,
            {each.source: each.missing for each in found if each.missing},
            discovered,
        )

    async def slate(
        self,
        query: Query,
        candidates: Candidates,
        ranking: Ranking,
        trace: Trace,
        more_filters: Sequence[Filter] = (),
    ) -> Slate:
        """Return the candidates in the order to be shown; only filters and collapsing drop rows.

        `more_filters` belong to this request, after those of the recipe.
        """
        for hydrator in [*self.hydrators, *ranking.hydrators]:
            candidates = await self._hydrate(hydrator, query, candidates, trace)
        dropped: dict[str, Ids] = {}
        for each in [*self.filters, *more_filters]:
            kept = _filtered(each, query, candidates, trace)
            if len(kept) < len(candidates):
                dropped[each.name] = np.setdiff1d(candidates.ids, kept.ids)
            candidates = kept
        if ranking.heavy:
            candidates = await self._hydrate(ranking.heavy, query, candidates, trace)
        rows = ranked(ranking, candidates, query.now_ms, trace)
        return Slate(rows, candidates, dropped)

    async def _find(self, source: Source, query: Query, trace: Trace) -> Found:
        try:
            with trace.timed(source.name):
                async with asyncio.timeout(self.source_deadline_s):
                    return checked(await source.find(query), source.name)
        except Exception as error:
            skipped(source.name, error, trace)
            return Found(empty_ids(), empty_ids(), source.name, source.unknown(query))

    async def _fill(self, query: Query, gaps: Gaps, down_to: Key, trace: Trace) -> Found | None:
        """Read from the truth what the lists are silent about; None when it cannot be read now."""
        name = self.gap_filler.name
        try:
            with trace.timed(name):
                async with asyncio.timeout(self.fill_deadline_s), self.fills:
                    return checked(await self.gap_filler.fill(query, gaps, down_to), name)
        except Exception as error:
            skipped(name, error, trace)
            return None

    async def _hydrate(
        self, hydrator: Hydrator, query: Query, candidates: Candidates, trace: Trace
    ) -> Candidates:
        try:
            with trace.timed(hydrator.name):
                async with asyncio.timeout(self.source_deadline_s):
                    columns = await hydrator.hydrate(query, candidates)
            return candidates.with_columns(columns)
        except Exception as error:
            skipped(hydrator.name, error, trace)
            return candidates


def _above(candidates: Candidates, gaps: Gaps) -> Candidates:
    """Return the candidates above everything that is unknown: those are complete.

    Raises:
        Unavailable: There are none, and unknown is never empty.
    """
    key = gaps.highest()
    known = candidates.take(above(candidates.ms, candidates.ids, key))
    if not len(known):
        raise Unavailable("What cached lists are silent about cannot be read from the truth now")
    return known


def ranked(ranking: Ranking, candidates: Candidates, now_ms: int, trace: Trace) -> Candidates:
    """Return the candidates (n,) in the order of a ranking; a stage that fails is skipped."""
    *_, (_, rows) = stages(ranking, candidates, now_ms, trace)
    return rows


def stages(
    ranking: Ranking,
    candidates: Candidates,
    now_ms: int,
    trace: Trace,
    without: Collection[str] = (),
) -> Iterator[tuple[str, Candidates]]:
    """Give each stage of a ranking in turn, with the rows as it leaves them; skip those named."""
    if ranking.scorer.name not in without:
        candidates = _ordered(ranking.scorer, candidates, now_ms, trace)
    yield ranking.scorer.name, candidates
    for rule in ranking.rules:
        if rule.name not in without:
            candidates = _ruled(rule, candidates, trace)
        yield rule.name, candidates


def _filtered(each: Filter, query: Query, candidates: Candidates, trace: Trace) -> Candidates:
    try:
        with trace.timed(each.name):
            mask = each.keep(query, candidates)
        if mask.shape != (len(candidates),) or mask.dtype != np.bool_:
            raise ValueError(f"a mask of shape {mask.shape} and type {mask.dtype}")
    except Exception as error:
        skipped(each.name, error, trace)
        return candidates
    trace.dropped[each.name] = n_dropped = len(mask) - int(np.count_nonzero(mask))
    return candidates.take(mask) if n_dropped else candidates


def _ordered(scorer: Scorer, candidates: Candidates, now_ms: int, trace: Trace) -> Candidates:
    """Order by score, then by place; without usable scores the candidates stay newest first.

    Rules change the column score; light stays as it was, for the log.
    """
    try:
        with trace.timed(scorer.name):
            scores = scorer.score(candidates, now_ms)
        _check_scores(scores, len(candidates))
    except Exception as error:
        skipped(scorer.name, error, trace)
        return candidates
    rows = np.lexsort((candidates.ids, candidates.ms, scores))[::-1]
    return candidates.with_columns({"score": scores, "light": scores}).take(rows)


def _check_scores(scores: npt.NDArray[np.float64], n: int) -> None:
    if scores.shape != (n,):
        raise ValueError(f"scores of shape {scores.shape}, not ({n},)")
    if not np.isfinite(scores).all():
        # NaN compares as neither larger nor smaller, and could hold the top for ever.
        raise ValueError("scores that are not finite")


def _ruled(rule: Rule, candidates: Candidates, trace: Trace) -> Candidates:
    try:
        with trace.timed(rule.name):
            ruled = _checked_rows(rule.apply(candidates), candidates)
            if hasattr(rule, "relaxed"):
                trace.relaxed |= rule.relaxed(ruled)
            return ruled
    except Exception as error:
        skipped(rule.name, error, trace)
        return candidates


def _checked_rows(ruled: Candidates, candidates: Candidates) -> Candidates:
    """Refuse a rule that doubles, invents or loses rows, or scores; folded ones are not lost."""
    if ruled is candidates:
        return ruled
    if not np.array_equal(np.sort(_posts(ruled)), np.sort(_posts(candidates))):
        raise ValueError("a rule that does not return the rows it was given")
    if "score" in ruled.columns:
        _check_scores(ruled["score"], len(ruled))
    return ruled


def _posts(candidates: Candidates) -> Ids:
    """Return all posts of a list (m,), folded ones too."""
    folded = candidates.columns.get("folded")
    if folded is None:
        return candidates.ids
    return np.concatenate([candidates.ids, np.fromiter(chain.from_iterable(folded), np.int64)])


def skipped(stage: str, error: Exception, trace: Trace) -> None:
    """Note that a request goes on without a stage, and log why."""
    trace.skip(stage)
    log.warning("stage skipped", extra={"stage": stage, "error": repr(error)})
