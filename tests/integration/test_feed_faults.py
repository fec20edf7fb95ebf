"""Each stage of the home feed breaks in each way, asked over HTTP: a feed, or 503, and no lie.

The tables below are the whole story: stage, where it is called, what goes wrong there, and what
then holds. A stage that does not wait (filter, scorer, rule) is given columns and cannot hang.
The viewer's cached lists are stale on purpose: they hold what may not be shown any more.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import numpy as np
import pytest

from feed.candidates import Candidates, Found
from feed.settings import Settings
from mixer.filters import NotServed
from mixer.home_feed import HomeFeed
from mixer.rules import AuthorDecay, NewAuthor, OneOriginal, OutOfNetwork, SeenLater, Spacing
from mixer.seen import SeenMemory
from rankers.light import AffinityDecay
from snapshots.traces import TraceStore
from storage.connections import Postgres
from tests.conftest import cloned
from tests.integration.api_client import Client, running

pytestmark = pytest.mark.anyio

VIEWER, FRIEND, OTHER, LARGE, STRANGER, LIKED, POPULAR = 1, 2, 3, 4, 5, 6, 7
BLOCKED, MUTED, LEFT, BLOCKS_VIEWER = 11, 12, 13, 14
FOLLOWED = (FRIEND, OTHER, LARGE, BLOCKED, MUTED, LEFT, BLOCKS_VIEWER)

# Who wrote which posts; a larger id is a newer post.
POSTS = {
    FRIEND: (100, 104, 108, 112, 116, 124, 125),
    OTHER: (101, 105, 109, 113),
    LARGE: (102, 106, 110),
    VIEWER: (103, 117),
    STRANGER: (90,),
    **{BLOCKED: (120,), MUTED: (121,), LEFT: (122,), BLOCKS_VIEWER: (123,)},
    **{LIKED: (131,), POPULAR: (130,)},
}
REPOSTS = {118: FRIEND, 119: OTHER}  # of 90
FORBIDDEN = set(range(120, 126))
IN_NETWORK = {90, *(post for who in (FRIEND, OTHER, LARGE, VIEWER) for post in POSTS[who])}
IN_NETWORK -= FORBIDDEN
ALL = IN_NETWORK | {130, 131}
IN_ORDER = sorted(IN_NETWORK - {90} | set(REPOSTS), reverse=True)


# ---------------------------------------------------------------------- what goes wrong


def raises(answer: Any) -> Any:
    """Fail as a bug does, before anything is done."""
    raise ValueError("broken")


def hangs(answer: Any) -> Any:
    """Never answer, nor do anything (`broken` sees to it)."""


def nothing(answer: Any) -> Any:
    """Answer None."""


def longer(answer: Any) -> Any:
    """Answer with a column that has a row more than the others."""
    if isinstance(answer, Found):
        return replace(answer, ids=np.append(answer.ids, 1))
    if isinstance(answer, Candidates):
        return answer.take(np.array([0, *range(len(answer))]))
    if isinstance(answer, dict):
        return {name: np.append(column, column[:1]) for name, column in answer.items()}
    return np.append(answer, answer[:1])


def nan(answer: Any) -> Any:
    """Answer with numbers that are none."""
    if isinstance(answer, Found):
        return replace(answer, ids=np.full(len(answer.ids), np.nan))
    if isinstance(answer, Candidates):
        return replace(answer, columns={**answer.columns, "score": np.full(len(answer), np.nan)})
    if isinstance(answer, dict):
        return {name: np.full(len(column), np.nan) for name, column in answer.items()}
    return np.full(len(answer), np.nan)


def empty(answer: Any) -> Any:
    """Answer that there is nothing, as if that were known."""
    if isinstance(answer, Found):
        return Found(answer.ids[:0], answer.ms[:0], answer.source)
    if isinstance(answer, Candidates):
        return answer.take(np.arange(0))
    return {} if isinstance(answer, dict) else answer[:0]


def unasked(answer: Any) -> Any:
    """Answer with a post twice."""
    return [*answer, *answer[:1]]


Fault = Callable[[Any], Any]
WAITS = (raises, hangs, nothing, longer, nan)
COLUMNS = (raises, nothing, longer, nan)
STORE = (raises, hangs, nothing)


def broken(original: Callable[..., Any], fault: Fault) -> Callable[..., Any]:
    """Return a function that goes wrong in the place of another."""

    async def waiting(*args: Any, **named: Any) -> Any:
        if fault is hangs:
            await asyncio.Event().wait()
        return fault(None if fault is raises else await original(*args, **named))

    def direct(*args: Any, **named: Any) -> Any:
        return fault(None if fault is raises else original(*args, **named))

    return waiting if inspect.iscoroutinefunction(original) else direct


# ---------------------------------------------------------------------- where


def ranked(home: HomeFeed) -> Any:
    return home._ranked


def chronological(home: HomeFeed) -> Any:
    return home._chronological


@dataclass(frozen=True)
class At:
    """A stage, the place where it is called, and what may go wrong there."""

    stage: str
    place: Callable[[HomeFeed], Any]
    method: str
    faults: tuple[Fault, ...]

    def goes_wrong(self, api: Client, fault: Fault, patch: pytest.MonkeyPatch) -> None:
        """Put something broken in its place."""
        owner = self.place(api.app.state.services.home_feed)
        patch.setattr(owner, self.method, broken(getattr(owner, self.method), fault))


def source(n: int, stage: str, *faults: Fault) -> At:
    return At(stage, lambda home: ranked(home)._pipeline.sources[n], "find", faults or WAITS)


def discovery(n: int, stage: str) -> At:
    place = lambda home: ranked(home)._pipeline.discoveries[n]  # noqa: E731
    return At(stage, place, "find", (*WAITS, empty))


def hydrator(n: int, stage: str) -> At:
    return At(stage, lambda home: ranked(home)._pipeline.hydrators[n], "hydrate", WAITS)


def keeps(n: int, stage: str) -> At:
    return At(stage, lambda home: ranked(home)._pipeline.filters[n], "keep", (*COLUMNS, empty))


def rule(made: type, stage: str) -> At:
    return At(stage, lambda home: made, "apply", (*COLUMNS, empty))


def snapshots(method: str, stage: str, *faults: Fault) -> At:
    return At(stage, lambda home: ranked(home)._rooms.snapshots, method, faults)


def served_log(method: str) -> At:
    return At("served_log", lambda home: ranked(home)._rooms.chains._log, method, (raises, hangs))


GAPS = At("below_floor", lambda home: ranked(home)._pipeline.gap_filler, "fill", WAITS)
PAGE = At("page", lambda home: ranked(home)._safety._posts, "visible", (*STORE, unasked))

# A whole feed, page after page to its end; the stage is named.
WHOLE = [
    source(0, "pushed_feed"),
    source(1, "author_outbox"),
    source(2, "below_floor"),
    source(3, "own_posts"),
    GAPS,
    hydrator(0, "post_signals"),
    hydrator(1, "affinity"),
    At("seen_memory", lambda home: ranked(home)._rooms.viewers_with_seen._seen, "read", STORE),
    At("seen_memory", lambda home: SeenMemory, "hydrate", WAITS),
    keeps(0, "deleted"),
    keeps(1, "hidden_authors"),
    keeps(2, "unfollowed"),
    keeps(3, "doubles"),
    At("not_served", lambda home: NotServed, "keep", (*COLUMNS, empty)),
    At("affinity_decay", lambda home: AffinityDecay, "score", (*COLUMNS, empty)),
    rule(OneOriginal, "one_original"),
    rule(OutOfNetwork, "out_of_network"),
    rule(SeenLater, "seen_later"),
    rule(AuthorDecay, "author_decay"),
    rule(Spacing, "spacing"),
    rule(NewAuthor, "new_author"),
    snapshots("freeze", "snapshot", *STORE),
    snapshots("read", "snapshot", raises, hangs),
    snapshots("note", "chain", raises, hangs),
    snapshots("chain", "chain", raises, hangs),
]

# A feed without what nobody is promised, or without what nobody can know to be missing.
LESS = [
    discovery(0, "network_likes"),
    discovery(1, "popular"),
    source(0, "pushed_feed", empty),
    source(1, "author_outbox", empty),
    source(3, "own_posts", empty),
]

# 503 at once, and the feed again as soon as the stage is well.
REFUSED = [
    At("viewer", lambda home: ranked(home)._rooms.viewers_with_seen, "load", STORE),
    PAGE,
]

# The slate, then 503 where it ends: the tail cannot tell what it showed.
NO_TAIL = [served_log("record"), served_log("shown_in_tail")]

# Chronological mode: the whole list in order, or 503.
IN_TIME = [source(0, "pushed_feed", raises, nothing), source(3, "own_posts", raises, nothing)]
IN_TIME_REFUSED = [
    At("viewer", lambda home: chronological(home)._viewers, "load", STORE),
    At("page", lambda home: chronological(home)._safety._posts, "visible", (*STORE, unasked)),
]


def name(at: At) -> str:
    return f"{at.stage}.{at.method}"


# ---------------------------------------------------------------------- the world


@pytest.fixture(scope="module")
async def world(postgres_server: str, template: str, valkey_server: str) -> AsyncIterator[Client]:
    """A viewer whose cached lists were complete, and who then turned away from much.

    The pushed feed has a floor, the slate does not reach the end; reading changes neither.
    """
    with cloned(postgres_server, template) as url:
        settings = Settings(
            postgres_url=url,
            redis_url=valkey_server,
            auth="dev",
            cursor_keys="a secret of the tests, long enough to sign with",
            candidates=14,
            feed_cap=8,
            budget_ms=2_000,
            building_ttl_s=2,
            redis_timeout_s=2.0,
        )
        async with running(settings) as api:
            await api.app.state.services.redis.flushall()
            await peopled(api)
            yield api


async def peopled(api: Client) -> None:
    await api.people(VIEWER, *range(FRIEND, BLOCKS_VIEWER + 1))
    for author in FOLLOWED:
        assert (await api.call("PUT", f"/follows/{author}", VIEWER)).status_code == 204
    await write(api.app.state.services.postgres)
    assert (await api.call("GET", "/feed", VIEWER)).json()["state"] == "building"
    await api.app.state.services.effects.drain()
    for path in (f"/blocks/{BLOCKED}", f"/mutes/{MUTED}", "/hidden/124"):
        assert (await api.call("PUT", path, VIEWER)).status_code == 204
    await api.call("PUT", f"/blocks/{VIEWER}", BLOCKS_VIEWER)
    await api.call("DELETE", f"/follows/{LEFT}", VIEWER)
    await api.call("DELETE", "/posts/125", FRIEND)


async def write(postgres: Postgres) -> None:
    """Write the posts; two strangers' are liked, one by those whom the viewer follows."""
    newest = datetime.now(UTC)
    rows = [(post, author, None, f"post {post}") for author in POSTS for post in POSTS[author]]
    rows += [(post, author, 90, "") for post, author in REPOSTS.items()]
    made = {post: newest - timedelta(minutes=200 - post) for post, *_ in rows}
    async with postgres.transaction() as connection, connection.cursor() as cursor:
        await cursor.executemany(
            "INSERT INTO posts (id, author_id, repost_of, body, format, created_at, received_at,"
            " effective_ms, delivery) VALUES (%s, %s, %s, %s, 'text', %s, now(), %s, 'push')",
            [(*row, made[row[0]], int(made[row[0]].timestamp() * 1000)) for row in rows],
        )
        await connection.execute(
            "INSERT INTO author_delivery (author_id, readers_pull, writers_pull)"
            " VALUES (%s, true, true)",
            [LARGE],
        )
        await connection.execute(
            "INSERT INTO post_stats (post_id, heat, heat_s)"
            " VALUES (130, 50, extract(epoch FROM now()))"
        )
        await cursor.executemany(
            "INSERT INTO reactions (viewer_id, post_id, kind, active, at, event_id)"
            " VALUES (%s, 131, 'like', true, now(), gen_random_uuid())",
            [(FRIEND,), (OTHER,)],
        )


async def get(api: Client, mode: str, cursor: str = "") -> httpx.Response:
    path = f"/api/v1/feed?mode={mode}&limit=5" + (f"&cursor={cursor}" if cursor else "")
    async with asyncio.timeout(60):  # a hang that nobody bounds fails here
        return await api.http.get(path, headers={"X-User-Id": str(VIEWER)})


async def scroll(
    api: Client, mode: str = "ranked", cursor: str = ""
) -> tuple[list[dict[str, Any]], httpx.Response]:
    """Return the pages to the end, or to the first refusal; and the last answer.

    Whatever went wrong: nothing is repeated, nothing leaks, and no answer is anything else.
    """
    pages: list[dict[str, Any]] = []
    answer = await get(api, mode, cursor)
    while answer.status_code == 200:
        pages.append(answer.json())
        assert len(pages) < 50, "a scroll without an end"
        if not pages[-1]["next_cursor"]:
            break
        answer = await get(api, mode, pages[-1]["next_cursor"])
    shown = ids(*pages)
    assert len(shown) == len(set(shown)), f"repeated in {shown}"
    assert not FORBIDDEN & {*shown, *originals(*pages)}, f"leaked in {shown}"
    if answer.status_code != 200:
        is_refused(answer)
    return pages, answer


def is_refused(answer: httpx.Response) -> None:
    """Insist on 503 as the contract has it."""
    assert answer.status_code == 503, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["code"] == "unavailable"
    assert "broken" not in answer.text


def ids(*pages: dict[str, Any]) -> list[int]:
    return [int(item["id"]) for page in pages for item in page["items"]]


def originals(*pages: dict[str, Any]) -> set[int]:
    return {int(item["repost_of"] or item["id"]) for page in pages for item in page["items"]}


def named(*pages: dict[str, Any]) -> set[str]:
    return {stage for page in pages for stage in page["degraded"]}


# ---------------------------------------------------------------------- what then holds


async def test_with_everything_well_the_feed_is_whole_and_names_nothing(world: Client) -> None:
    """What the other tests compare with."""
    pages, answer = await scroll(world)
    assert (answer.status_code, originals(*pages), named(*pages)) == (200, ALL, set())
    assert pages[0]["snapshot"]["ranker"] == "affinity_decay"
    pages, _ = await scroll(world, "chronological")
    assert (ids(*pages), named(*pages)) == (IN_ORDER, set())


@pytest.mark.parametrize("at", WHOLE, ids=name)
async def test_a_stage_that_fails_is_named_and_costs_no_post(
    world: Client, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fault in at.faults:
        with monkeypatch.context() as patch:
            at.goes_wrong(world, fault, patch)
            pages, answer = await scroll(world)
        told = f"{at.stage} {fault.__name__}"
        assert (answer.status_code, originals(*pages)) == (200, ALL), told
        assert at.stage in named(*pages), told
        assert "degraded" in {page["state"] for page in pages}, told


@pytest.mark.parametrize("at", LESS, ids=name)
async def test_a_stage_that_nothing_stands_in_for_costs_only_what_is_its_own(
    world: Client, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fault in at.faults:
        with monkeypatch.context() as patch:
            at.goes_wrong(world, fault, patch)
            pages, answer = await scroll(world)
        told = f"{at.stage} {fault.__name__}"
        assert answer.status_code == 200, told
        assert originals(*pages) < ALL and originals(*pages), told
        assert (at.stage in named(*pages)) == (fault is not empty), told
        again = (await scroll(world))[0]
        assert at.stage in {item["source"] for page in again for item in page["items"]}, told


@pytest.mark.parametrize("at", REFUSED, ids=name)
async def test_what_decides_who_may_see_what_fails_closed(
    world: Client, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fault in at.faults:
        with monkeypatch.context() as patch:
            at.goes_wrong(world, fault, patch)
            pages, answer = await scroll(world)
            assert (pages, answer.status_code) == ([], 503), f"{at.stage} {fault.__name__}"
        assert originals(*(await scroll(world))[0]) == ALL


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
    for fault in at.faults:
        with monkeypatch.context() as patch:
            at.goes_wrong(world, fault, patch)
            before, answer = await scroll(world)
        assert (answer.status_code, len(before) > 0) == (503, True), fault.__name__
        after, answer = await scroll(world, cursor=before[-1]["next_cursor"])
        assert (answer.status_code, originals(*before, *after)) == (200, ALL), fault.__name__
        assert len(ids(*before, *after)) == len(set(ids(*before, *after)))


@pytest.mark.parametrize("fault", STORE)
async def test_without_what_decides_the_mode_the_feed_ranks_nothing_and_says_so(
    world: Client, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    from storage.modes import load_mode_inputs

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
    for fault in at.faults:
        with monkeypatch.context() as patch:
            at.goes_wrong(world, fault, patch)
            pages, _ = await scroll(world, "chronological")
        assert (ids(*pages), named(*pages)) == (IN_ORDER, {at.stage}), fault.__name__


@pytest.mark.parametrize("at", IN_TIME_REFUSED, ids=name)
async def test_in_chronological_mode_too_it_fails_closed(
    world: Client, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fault in at.faults:
        with monkeypatch.context() as patch:
            at.goes_wrong(world, fault, patch)
            pages, answer = await scroll(world, "chronological")
            assert (pages, answer.status_code) == ([], 503), f"{at.stage} {fault.__name__}"


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
    source(1, "author_outbox").goes_wrong(world, raises, monkeypatch)
    GAPS.goes_wrong(world, raises, monkeypatch)
    for mode in ("ranked", "chronological"):
        pages, answer = await scroll(world, mode)
        assert (pages, answer.status_code) == ([], 503), mode


async def test_stages_are_timed_and_their_failures_counted(
    world: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For Prometheus, and in the one line of the request, also of one that is refused."""
    before = await measured(world)
    source(0, "pushed_feed").goes_wrong(world, raises, monkeypatch)
    await scroll(world)
    PAGE.goes_wrong(world, raises, monkeypatch)
    with caplog.at_level("INFO", logger="foryou.request"):
        await scroll(world)
    after = await measured(world)
    for sample, grown in {
        'foryou_feed_stage_failures_total{request="degraded",stage="pushed_feed"}': 2,
        'foryou_feed_stage_failures_total{request="refused",stage="page"}': 1,
        'foryou_feed_dropped_posts_total{filter="hidden_authors"}': 6,
        **{f'foryou_feed_stage_seconds_count{{stage="{each}"}}': 2 for each in GATHERED},
    }.items():
        assert after[sample] - before.get(sample, 0) == grown, sample
    (line,) = [vars(each) for each in caplog.records if each.name == "foryou.request"]
    assert (line["status"], line["unfinished"]) == (503, ["page"])
    assert line["degraded"] == ["pushed_feed"] and line["stage_ms"]["page"] >= 0
    relaxed = 'foryou_feed_relaxed_rows_total{limit="format_run"}'
    assert after[relaxed] - before.get(relaxed, 0) == 2 * line["relaxed"]["format_run"] > 0


# Stages of an open, each of which comes once in it.
GATHERED = {"mode", "viewer", "sources"} | {
    at.stage for at in (*WHOLE, *LESS) if at.stage not in ("below_floor", "snapshot", "chain")
}


async def measured(api: Client) -> dict[str, float]:
    """Scrape the metrics: each sample with its value."""
    lines = (await api.http.get("/metrics")).text.splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}
