"""Each stage of the home feed breaks in each way, asked over HTTP: a feed, or 503, and no lie.

The tables below are the whole story: stage, where it is called, what goes wrong there, and what
then holds. A stage that does not wait (filter, scorer, rule) is given columns and cannot hang.
The viewer's cached lists are stale on purpose: they hold what may not be shown any more.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from feed.profile import Profile
from feed.settings import Settings
from mixer.filters import NotServed
from mixer.heavy import HeavyScores
from mixer.home_feed import HomeFeed, ranking
from mixer.rules import AuthorDecay, NewAuthor, OneOriginal, OutOfNetwork, SeenLater, Spacing
from mixer.seen import SeenMemory
from rankers.heavy import Heavy
from rankers.light import AffinityDecay
from snapshots.traces import TraceStore
from storage.modes import load_mode_inputs
from tests.conftest import cloned
from tests.fitted import ranker
from tests.integration.api_client import Client, running
from tests.integration.faults import (
    At,
    Fault,
    broken,
    empty,
    hangs,
    longer,
    nan,
    nothing,
    raises,
    twice,
    unasked,
)
from tests.integration.models import crowned
from tests.integration.turned_away import (
    ALL,
    IN_ORDER,
    VIEWER,
    ids,
    measured,
    named,
    originals,
    peopled,
    scroll,
)

pytestmark = pytest.mark.anyio

WAITS = (raises, hangs, nothing, longer, nan)  # it reads columns somewhere
COLUMNS = (raises, nothing, longer, nan, empty)  # it is given columns
STORE = (raises, hangs, nothing)  # it reads or writes something else
SAFETY = (*STORE, twice, unasked)


def pipeline(home: HomeFeed) -> Any:
    return home._ranked._pipeline


def rooms(home: HomeFeed) -> Any:
    return home._ranked._rooms


def called(stages: Any, name: str) -> Any:
    """Return the stage of this name."""
    return next(stage for stage in stages if stage.name == name)


def source(name: str, *faults: Fault) -> At:
    return At(name, lambda home: called(pipeline(home).sources, name), "find", faults or WAITS)


def discovery(name: str) -> At:
    faults = (*WAITS, empty)
    return At(name, lambda home: called(pipeline(home).discoveries, name), "find", faults)


def hydrator(name: str) -> At:
    return At(name, lambda home: called(pipeline(home).hydrators, name), "hydrate", WAITS)


def keeps(name: str) -> At:
    return At(name, lambda home: called(pipeline(home).filters, name), "keep", COLUMNS)


def made(kind: Any, method: str, *faults: Fault) -> At:
    """Break a stage that is made anew for each request."""
    name = kind.name
    return At(name, lambda home: kind, method, faults or COLUMNS)


def snapshots(stage: str, method: str, *faults: Fault) -> At:
    return At(stage, lambda home: rooms(home).snapshots, method, faults)


def served_log(method: str) -> At:
    return At("served_log", lambda home: rooms(home).chains._log, method, (raises, hangs))


GAPS = At("below_floor", lambda home: pipeline(home).gap_filler, "fill", WAITS)
PAGE = At("page", lambda home: home._ranked._safety._posts, "visible", SAFETY)
SEEN = At("seen_memory", lambda home: rooms(home).viewers_with_seen._seen, "read", STORE)
VIEWERS = At("viewer", lambda home: rooms(home).viewers_with_seen, "load", STORE)
VIEWERS_IN_TIME = At("viewer", lambda home: home._chronological._viewers, "load", STORE)
PAGE_IN_TIME = At("page", lambda home: home._chronological._safety._posts, "visible", SAFETY)

# A whole feed, page after page to its end; the stage is named.
WHOLE = [
    source("pushed_feed"),
    source("author_outbox"),
    source("below_floor"),
    source("own_posts"),
    GAPS,
    hydrator("post_signals"),
    hydrator("affinity"),
    SEEN,
    made(SeenMemory, "hydrate", *WAITS),
    keeps("deleted"),
    keeps("hidden_authors"),
    keeps("unfollowed"),
    keeps("doubles"),
    made(NotServed, "keep"),
    made(AffinityDecay, "score"),
    made(HeavyScores, "hydrate", *WAITS),
    made(Heavy, "apply"),
    made(OneOriginal, "apply"),
    made(OutOfNetwork, "apply"),
    made(SeenLater, "apply"),
    made(AuthorDecay, "apply"),
    made(Spacing, "apply"),
    made(NewAuthor, "apply"),
    snapshots("snapshot", "freeze", *STORE),
    snapshots("snapshot", "read", raises, hangs),
    snapshots("chain", "note", raises, hangs),
    snapshots("chain", "chain", raises, hangs),
]

# A feed without what nobody is promised, or without what nobody can know to be missing.
LESS = [
    discovery("network_likes"),
    discovery("popular"),
    source("pushed_feed", empty),
    source("author_outbox", empty),
    source("own_posts", empty),
]

# 503, and the feed again as soon as the stage is well.
REFUSED = [("ranked", VIEWERS), ("ranked", PAGE)]
REFUSED += [("chronological", VIEWERS_IN_TIME), ("chronological", PAGE_IN_TIME)]

# The slate, then 503 where it ends: the tail could not tell what it showed.
NO_TAIL = [served_log("record"), served_log("shown_in_tail")]

# Chronological mode: the whole list, in its order.
IN_TIME = [source("pushed_feed", raises, nothing), source("own_posts", raises, nothing)]

# Stages of an open, each of which comes once in it.
OPENING = {"mode", "viewer", "sources", *(at.stage for at in (*WHOLE, *LESS))}
OPENING -= {"below_floor", "snapshot", "chain"}


def name(at: At) -> str:
    return f"{at.stage}.{at.method}"


@pytest.fixture(scope="module")
async def world(postgres_server: str, template: str, valkey_server: str) -> AsyncIterator[Client]:
    """Serve the viewer, whose pushed feed has a floor and whose slate does not reach the end.

    One for all tests: reading changes neither.
    """
    with cloned(postgres_server, template) as url:
        settings = Settings(
            postgres_url=url,
            redis_url=valkey_server,
            auth="dev",
            cursor_keys="a secret of the tests, long enough to sign with",
            candidates=14,
            feed_cap=8,
            budget_ms=4_000,
            building_ttl_s=2,
            redis_timeout_s=2.0,
            heavy_deadline_ms=400,
        )
        async with running(settings) as api:
            await api.app.state.services.redis.flushall()
            await peopled(api)
            await crowned(api, ranker())
            yield api


async def test_no_stage_of_the_recipe_is_left_out_here(world: Client) -> None:
    recipe = pipeline(world.app.state.services.home_feed)
    order = ranking(Profile())
    gathered = (*recipe.sources, *recipe.discoveries, recipe.gap_filler)
    ordered = (*recipe.hydrators, *recipe.filters, *order.hydrators, order.scorer, *order.rules)
    assert {stage.name for stage in (*gathered, *ordered)} <= {at.stage for at in (*WHOLE, *LESS)}


async def test_with_everything_well_the_feed_is_whole_and_names_nothing(world: Client) -> None:
    """What the other tests compare with."""
    pages, answer = await scroll(world)
    assert (answer.status_code, originals(*pages), named(*pages)) == (200, ALL, set())
    assert pages[0]["snapshot"]["ranker"] == "heavy"
    pages, _ = await scroll(world, "chronological")
    assert (ids(*pages), named(*pages)) == (IN_ORDER, set())


async def each_fault(
    world: Client, at: At, monkeypatch: pytest.MonkeyPatch, mode: str = "ranked"
) -> AsyncIterator[tuple[Fault, list[Any], Any]]:
    """Scroll while a stage is broken, in each of its ways; it is whole again when told of."""
    for fault in at.faults:
        with monkeypatch.context() as patch:
            at.goes_wrong(world, fault, patch)
            pages, answer = await scroll(world, mode)
        yield fault, pages, answer


@pytest.mark.parametrize("at", WHOLE, ids=name)
async def test_a_stage_that_fails_is_named_and_costs_no_post(
    world: Client, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    async for fault, pages, answer in each_fault(world, at, monkeypatch):
        told = f"{at.stage} {fault.__name__}"
        assert (answer.status_code, originals(*pages)) == (200, ALL), told
        assert at.stage in named(*pages), told
        assert "degraded" in {page["state"] for page in pages}, told


@pytest.mark.parametrize("at", LESS, ids=name)
async def test_a_stage_that_nothing_stands_in_for_costs_only_what_is_its_own(
    world: Client, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    async for fault, pages, answer in each_fault(world, at, monkeypatch):
        told = f"{at.stage} {fault.__name__}"
        assert answer.status_code == 200, told
        assert originals(*pages) < ALL and originals(*pages), told
        assert (at.stage in named(*pages)) == (fault is not empty), told
        again = (await scroll(world))[0]
        assert at.stage in {item["source"] for page in again for item in page["items"]}, told


@pytest.mark.parametrize(("mode", "at"), REFUSED, ids=lambda each: getattr(each, "stage", each))
async def test_what_decides_who_may_see_what_fails_closed(
    world: Client, mode: str, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    async for fault, pages, answer in each_fault(world, at, monkeypatch, mode):
        assert (pages, answer.status_code) == ([], 503), f"{at.stage} {fault.__name__}"
        again, answer = await scroll(world, mode)
        assert (answer.status_code, named(*again)) == (200, set())


async def test_new_posts_are_not_counted_by_what_fails(
    world: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pill says who wrote: that too is for the page query to decide."""
    (first, *_), _ = await scroll(world)
    PAGE_IN_TIME.goes_wrong(world, raises, monkeypatch)
    path = f"/api/v1/feed/updates?cursor={first['updates_cursor']}"
    answer = await world.http.get(path, headers={"X-User-Id": str(VIEWER)})
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")


async def test_a_page_query_that_finds_nothing_shows_nothing_and_says_why(
    world: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is believed: it may well be so."""
    PAGE.goes_wrong(world, lambda rows: [], monkeypatch)
    pages, answer = await scroll(world)
    assert (answer.status_code, ids(*pages)) == (200, [])
    assert pages[-1]["next_cursor"] is None
    assert pages[0]["empty_because"] == "all_filtered"


@pytest.mark.parametrize("at", NO_TAIL, ids=name)
async def test_without_the_served_log_there_is_a_slate_and_no_tail(
    world: Client, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tail goes on from the same cursor when the log is back."""
    async for fault, before, answer in each_fault(world, at, monkeypatch):
        assert (answer.status_code, len(before) > 0) == (503, True), fault.__name__
        after, answer = await scroll(world, cursor=before[-1]["next_cursor"])
        assert (answer.status_code, originals(*before, *after)) == (200, ALL), fault.__name__
        assert len(ids(*before, *after)) == len(set(ids(*before, *after)))


@pytest.mark.parametrize("fault", STORE)
async def test_without_what_decides_the_mode_the_feed_ranks_nothing_and_says_so(
    world: Client, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.feed.load_mode_inputs", broken(load_mode_inputs, fault))
    pages, answer = await scroll(world)
    assert (answer.status_code, ids(*pages)) == (200, IN_ORDER)
    assert (pages[0]["mode"], pages[0]["mode_reason"]) == ("chronological", "fallback")
    assert named(pages[0]) == {"mode"}


@pytest.mark.parametrize("fault", [raises, hangs])
async def test_a_trace_that_is_not_kept_costs_the_explanation_not_the_feed(
    world: Client, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written beside the answer: counted, and the post is not explained."""
    before = await measured(world)
    monkeypatch.setattr(TraceStore, "keep", broken(TraceStore.keep, fault))
    pages, answer = await scroll(world)
    assert (answer.status_code, originals(*pages), named(*pages)) == (200, ALL, set())
    await world.app.state.services.effects.drain()
    after = await measured(world)
    failed = "foryou_side_effects_failed_total"
    assert after[failed] - before[failed] == 1
    path = f"/feed/explain/{ids(*pages)[0]}?snapshot={pages[0]['snapshot']['id']}"
    assert (await world.call("GET", path, VIEWER)).status_code == 404


@pytest.mark.parametrize("at", IN_TIME, ids=name)
async def test_in_chronological_mode_a_failed_source_costs_neither_post_nor_order(
    world: Client, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    async for fault, pages, _ in each_fault(world, at, monkeypatch, "chronological"):
        assert (ids(*pages), named(*pages)) == (IN_ORDER, {at.stage}), fault.__name__


@pytest.mark.parametrize("fault", WAITS)
async def test_a_chronological_list_that_cannot_be_filled_ends_in_503_not_in_silence(
    world: Client, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Down to the floor of the cached list it is given; from there it goes on afterwards."""
    with monkeypatch.context() as patch:
        GAPS.goes_wrong(world, fault, patch)
        before, answer = await scroll(world, "chronological")
    assert (answer.status_code, named(*before)) == (503, {"below_floor"})
    after, _ = await scroll(world, "chronological", cursor=before[-1]["next_cursor"])
    assert ids(*before) and ids(*before, *after) == IN_ORDER


async def test_what_cannot_be_filled_at_all_is_503(
    world: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that cannot be read, and a truth that does not answer: unknown is never empty."""
    source("author_outbox").goes_wrong(world, raises, monkeypatch)
    GAPS.goes_wrong(world, raises, monkeypatch)
    for mode in ("ranked", "chronological"):
        pages, answer = await scroll(world, mode)
        assert (pages, answer.status_code) == ([], 503), mode


async def test_stages_are_timed_and_their_failures_counted(
    world: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For Prometheus, and in the one line of the request, also of one that is refused."""
    before = await measured(world)
    source("own_posts").goes_wrong(world, raises, monkeypatch)
    await scroll(world)
    PAGE.goes_wrong(world, raises, monkeypatch)
    with caplog.at_level("INFO", logger="foryou.request"):
        await scroll(world)
    after = await measured(world)
    for sample, grown in {
        'foryou_feed_stage_failures_total{request="degraded",stage="own_posts"}': 2,
        'foryou_feed_stage_failures_total{request="refused",stage="page"}': 1,
        'foryou_feed_dropped_posts_total{filter="hidden_authors"}': 6,
        **{f'foryou_feed_stage_seconds_count{{stage="{each}"}}': 2 for each in OPENING},
    }.items():
        assert after[sample] - before.get(sample, 0) == grown, sample
    (line,) = [vars(each) for each in caplog.records if each.name == "foryou.request"]
    assert (line["status"], line["unfinished"]) == (503, ["page"])
    assert line["degraded"] == ["own_posts"] and line["stage_ms"]["page"] >= 0
    relaxed = 'foryou_feed_relaxed_rows_total{limit="format_run"}'
    assert after[relaxed] - before.get(relaxed, 0) == 2 * line["relaxed"]["format_run"] > 0
