"""The runner: whatever a stage does wrong, it is named, and the answer stays whole."""

import asyncio
from typing import Any

import numpy as np
import pytest

from feed.candidates import Candidates, Column, Found, Gaps, checked, with_discoveries
from feed.chain import Chain
from feed.errors import Unavailable
from feed.order import NEWEST, OLDEST, Ids, Key, Mask
from feed.query import Query, Viewer
from feed.telemetry import Trace
from mixer.filters import NotServed
from mixer.pipeline import Pipeline, Ranking

pytestmark = pytest.mark.anyio

TRUTH = {4: 4_000, 3: 3_000, 2: 2_000, 1: 1_000}
AUTHOR = 7


def ids(*values: int) -> Ids:
    return np.array(values, dtype=np.int64)


class Truth:
    """Fills gaps from what there is."""

    name = "below_floor"

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    async def fill(self, query: Query, gaps: Gaps, down_to: Key) -> Found:
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer == "hang":
            await asyncio.sleep(60)
        rows = [i for i in TRUTH if len(gaps)]
        return Found(ids(*rows), ids(*(TRUTH[i] for i in rows)), self.name)


class Listed:
    """A source that gives back, or raises, what it is told."""

    name = "pushed_feed"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def find(self, query: Query) -> Found:
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer == "hang":
            await asyncio.sleep(60)
        return self.answer  # type: ignore[no-any-return]

    def unknown(self, query: Query) -> Gaps:
        return Gaps.everywhere(ids(AUTHOR))


class Facts:
    """Columns for every candidate."""

    name = "facts"

    def __init__(self, columns: dict[str, Any] | Exception) -> None:
        self.columns = columns

    async def hydrate(self, query: Query, candidates: Candidates) -> dict[str, Column]:
        if isinstance(self.columns, Exception):
            raise self.columns
        return self.columns


class Keeps:
    name = "keeps"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def keep(self, query: Query, candidates: Candidates) -> Mask:
        return self.mask  # type: ignore[no-any-return]


class Scores:
    name = "scores"

    def __init__(self, scores: Any) -> None:
        self.scores = scores

    def score(self, candidates: Candidates, now_ms: int) -> Any:
        return self.scores(len(candidates))


class Rules:
    name = "rules"

    def __init__(self, change: Any) -> None:
        self.change = change

    def apply(self, candidates: Candidates) -> Any:
        return self.change(candidates)


FINE = Found(ids(4, 3, 2, 1), ids(4_000, 3_000, 2_000, 1_000), "pushed_feed")


def pipeline(**stages: Any) -> tuple[Pipeline, Ranking]:
    """Make a recipe of stages that work, but for those that are given."""
    given = {
        "sources": [Listed(FINE)],
        "discoveries": [],
        "gap_filler": Truth(),
        "hydrators": [],
        "filters": [],
        "fills": asyncio.Semaphore(1),
        "source_deadline_s": 0.05,
        "fill_deadline_s": 0.05,
        "version": "test-1",
        "scorer": Scores(lambda n: np.arange(n, dtype=np.float64)),
        "rules": [],
        **stages,
    }
    ranking = Ranking(*(given.pop(name) for name in ("version", "scorer", "rules")))
    return Pipeline(**given), ranking


QUERY = Query(Viewer(id=1, followees=ids(AUTHOR)), 10, NEWEST, 5_000, discover=True)


async def slate(recipe: tuple[Pipeline, Ranking]) -> tuple[list[int], list[str]]:
    gathering, ranking = recipe
    trace = Trace()
    gathered = await gathering.gather(QUERY, trace)
    candidates = with_discoveries(gathered.candidates, gathered.discovered, 10)
    ranked = await gathering.slate(QUERY, candidates, ranking, trace)
    return ranked.rows.ids.tolist(), trace.degraded


@pytest.mark.parametrize(
    "answer",
    [
        ValueError("broken"),
        "hang",
        None,
        Found(ids(1), ids(1, 2), "pushed_feed"),
        Found(np.array([1.5]), ids(1), "pushed_feed"),  # type: ignore[arg-type]
        Found(ids(1).reshape(1, 1), ids(1).reshape(1, 1), "pushed_feed"),
        Found(ids(1), ids(1), "somebody_else"),
    ],
    ids=["raises", "hangs", "none", "lengths", "floats", "two_dimensions", "name"],
)
async def test_a_failed_source_is_named_and_read_from_the_truth(answer: Any) -> None:
    """Unknown is never empty."""
    assert await slate(pipeline(sources=[Listed(answer)])) == ([1, 2, 3, 4], ["pushed_feed"])


TRIMMED = Found(ids(4, 3), ids(4_000, 3_000), "pushed_feed", Gaps.at(ids(AUTHOR), 2_500))


@pytest.mark.parametrize("answer", [Unavailable("away"), ValueError("broken"), "hang"])
async def test_when_gaps_cannot_be_filled_what_is_above_them_is_a_feed(answer: Any) -> None:
    """It ends where the unknown begins, and says that there is more."""
    gathering, _ = pipeline(sources=[Listed(TRIMMED)], gap_filler=Truth(answer))
    trace = Trace()
    gathered = await gathering.gather(QUERY, trace)
    assert gathered.candidates.ids.tolist() == [4, 3]
    assert (gathered.oldest, gathered.cut) == (Key(3_000, 3), True)
    assert (trace.degraded, trace.unfinished) == (["below_floor"], [])


async def test_when_everything_is_unknown_there_is_no_feed() -> None:
    """Unknown is never empty."""
    gathering, _ = pipeline(
        sources=[Listed(ValueError("broken"))], gap_filler=Truth(ValueError("broken"))
    )
    with pytest.raises(Unavailable):
        await gathering.gather(QUERY, Trace())


async def test_requests_that_fill_gaps_take_turns_and_do_not_wait_for_ever() -> None:
    gathering, _ = pipeline(sources=[Listed(TRIMMED)])
    async with gathering.fills:
        assert (await gathering.gather(QUERY, Trace())).cut
    assert not (await gathering.gather(QUERY, Trace())).cut


@pytest.mark.parametrize(
    "columns",
    [ValueError("broken"), {"author": ids(1)}, {"author": np.array([np.nan, 1, 1, 1])}],
    ids=["raises", "length", "nan"],
)
async def test_a_failed_hydrator_is_named_and_costs_no_row(columns: Any) -> None:
    """Its columns are missing, and what needs them is skipped too."""
    assert await slate(pipeline(hydrators=[Facts(columns)])) == ([1, 2, 3, 4], ["facts"])


@pytest.mark.parametrize("mask", [np.ones(3, bool), np.ones(4), None])
async def test_a_failed_filter_is_named_and_drops_nothing(mask: Any) -> None:
    """Relevance fails open."""
    assert await slate(pipeline(filters=[Keeps(mask)])) == ([1, 2, 3, 4], ["keeps"])


@pytest.mark.parametrize(
    "scores",
    [lambda n: np.full(n, np.nan), lambda n: np.full(n, np.inf), lambda n: np.ones(n + 1)],
    ids=["nan", "infinite", "length"],
)
async def test_without_usable_scores_the_slate_is_in_order_of_time(scores: Any) -> None:
    """NaN can hold no place."""
    assert await slate(pipeline(scorer=Scores(scores))) == ([4, 3, 2, 1], ["scores"])


async def test_equal_scores_fall_back_to_the_one_order() -> None:
    """The tie-break is (ms, id), newest first."""
    assert await slate(pipeline(scorer=Scores(np.zeros))) == ([4, 3, 2, 1], [])


@pytest.mark.parametrize(
    "change",
    [
        lambda candidates: None,
        lambda candidates: candidates.take(np.array([0, 0, 1, 2, 3])),
        lambda candidates: candidates.take(np.array([0])),
        lambda candidates: Candidates(
            candidates.ids, candidates.ms, {"score": np.full(len(candidates), np.nan)}
        ),
    ],
    ids=["none", "doubles", "loses", "nan"],
)
async def test_a_rule_that_doubles_or_loses_rows_or_scores_is_skipped(change: Any) -> None:
    """A rule never loses a post."""
    assert await slate(pipeline(rules=[Rules(change)])) == ([1, 2, 3, 4], ["rules"])


async def test_where_a_rule_gave_way_is_in_the_trace() -> None:
    class GivesWay(Rules):
        def relaxed(self, candidates: Candidates) -> dict[str, int]:
            return {"author_run": len(candidates)}

    gathering, ranking = pipeline(rules=[GivesWay(lambda candidates: candidates)])
    trace = Trace()
    gathered = await gathering.gather(QUERY, trace)
    await gathering.slate(QUERY, gathered.candidates, ranking, trace)
    assert trace.relaxed == {"author_run": 4}


def test_a_trace_knows_what_is_unfinished_and_what_was_skipped() -> None:
    """A stage that failed is unfinished, unless the request goes on without it."""
    trace = Trace()
    with pytest.raises(KeyError), trace.timed("page"):
        with trace.timed("viewer"):
            assert trace.unfinished == ["page", "viewer"]
        raise KeyError
    assert trace.unfinished == ["page"]
    trace.skip("page")
    assert (trace.unfinished, trace.degraded) == ([], ["page"])


def test_a_chain_leaves_out_its_rows_and_other_posts_of_what_they_showed() -> None:
    """A row that showed nothing leaves out itself only."""
    candidates = Candidates(ids(9, 8, 7, 6), ids(9, 8, 7, 6), {"original": ids(1, 1, 2, 2)})
    chain = Chain(ids(9, 7), ids(1, 0))
    query = Query(Viewer(id=1), 4, NEWEST, 0)
    assert NotServed(chain).keep(query, candidates).tolist() == [False, False, False, True]
    bare = Candidates(candidates.ids, candidates.ms)
    assert NotServed(chain).keep(query, bare).tolist() == [False, True, False, True]


def test_the_shape_of_a_source_is_checked_by_name() -> None:
    """A source may not speak for another."""
    with pytest.raises(ValueError, match="own_posts"):
        checked(FINE, "own_posts")
    assert checked(FINE, "pushed_feed") is FINE
    assert OLDEST < NEWEST
