"""What can happen to a ranked scroll, at each of its positions, over HTTP: one thing at a time.

Pages of one post each, eight posts in the slate and five below it. Before each of these pages the
snapshot expires, all of Redis is lost, other sessions crowd the snapshot out, or another profile is
in force; and meanwhile a post is written and another one is liked.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from feed.settings import Settings
from mixer.profiles import LOOK_EVERY_S
from storage.connections import Postgres, RedisClient
from tests.properties.nodes import Nodes, two_nodes
from tests.properties.service import small

READER, FRIEND, OTHER, STRANGER, FANS = 1, 2, 3, 4, range(10, 16)
ORIGINAL, REPOSTS = 100, (101, 102)
POSTS = range(1, 12)  # of the two who are followed, by turns; 11 is the newest
IN_SLATE = 7  # items of the slate: of its 8 candidates, two show the original
ITEMS = {*POSTS, ORIGINAL}
PER_VIEWER = 3


WHOLE = 50  # a limit above all there is


@dataclass(frozen=True)
class Page:
    """What one page of one post shows, and where its chain goes on."""

    shows: list[int]
    next: str | None
    position: int | None
    slate: str | None
    weights: str | None
    renewed: bool


@pytest.fixture
async def nodes(
    settings: Settings, postgres: Postgres, redis: RedisClient, tmp_path: Path
) -> AsyncIterator[Nodes]:
    """Run two nodes, with a reader who follows two people and has a list of what they wrote."""
    settings = replace(small(settings), scan_bound=200, snapshots_per_viewer=PER_VIEWER)
    async with two_nodes("every position", settings, postgres, redis, tmp_path) as nodes:
        await nodes.first.people(READER, FRIEND, OTHER, STRANGER, *FANS)
        for author in (FRIEND, OTHER):
            await nodes.first.call("PUT", f"/follows/{author}", READER)
        lines = [post(each, (FRIEND, OTHER)[each % 2], each) for each in POSTS]
        lines += [post(ORIGINAL, STRANGER, 0)]
        lines += [
            post(each, author, 9, repost_of=str(ORIGINAL))
            for each, author in zip(REPOSTS, (FRIEND, OTHER), strict=True)
        ]
        assert not (await nodes.first.ingest(*lines))["rejected"]
        await opened(nodes)
        await nodes.settle()
        yield nodes


def post(id: int, author: int, hour: int, **more: str) -> dict[str, Any]:
    at = datetime.now(UTC) - timedelta(days=1) + timedelta(hours=hour)
    line = {"kind": "post", "id": str(id), "author_id": str(author), "created_at": at.isoformat()}
    return {**line, "body": "" if more else "words", **more}


async def page(nodes: Nodes, cursor: str | None, *, limit: int = 1, node: int = 0) -> Page:
    answer = await nodes.get(
        nodes.clients[node], "/feed", READER, mode="ranked", limit=limit, cursor=cursor
    )
    assert answer.status_code == 200, answer.text
    told = answer.json()
    items, snapshot = told["items"], told["snapshot"] or {}
    return Page(
        [int(item["repost_of"] or item["id"]) for item in items],
        told["next_cursor"],
        items[0]["position"] if items else None,
        snapshot.get("id"),
        snapshot.get("weights_version"),
        snapshot.get("renewed", False),
    )


async def opened(nodes: Nodes, n: int = 1) -> list[Page]:
    """Open a feed and read n pages."""
    pages = [await page(nodes, None)]
    while len(pages) < n:
        pages.append(await page(nodes, pages[-1].next))
    return pages


async def rest(nodes: Nodes, cursor: str | None, *, limit: int = 1, node: int = 0) -> list[Page]:
    """Read on to the end."""
    pages: list[Page] = []
    while cursor is not None:
        pages.append(await page(nodes, cursor, limit=limit, node=node))
        cursor = pages[-1].next
        assert len(pages) < 100, "no end"
    return pages


def shown(pages: list[Page]) -> list[int]:
    return [each for page in pages for each in page.shows]


def check_whole(pages: list[Page], news: int = 0) -> None:
    """Assert that each item came once; what is new need not come."""
    got = shown(pages)
    assert len(got) == len(set(got)), f"again: {got}"
    assert ITEMS <= set(got) <= {*ITEMS, news}, f"lost {ITEMS - set(got)}"


@asynccontextmanager
async def changes(nodes: Nodes) -> AsyncIterator[int]:
    """Let what is oldest in the slate be liked by all, and write a post until the block ends."""
    kinds = [(fan, kind) for fan in FANS for kind in ("like", "comment")]
    likes = [
        {
            "kind": "event",
            "viewer_id": str(fan),
            "event_id": str(uuid4()),
            "type": kind,
            "post_id": "6",
            "at": datetime.now(UTC).isoformat(),
        }
        for fan, kind in kinds
    ]
    assert not (await nodes.first.ingest(*likes))["rejected"]
    await nodes.aggregate()
    news = await nodes.first.post(FRIEND, "new")
    yield int(news)
    await nodes.first.call("DELETE", f"/posts/{news}", FRIEND)
    await nodes.settle()


async def expire(nodes: Nodes) -> None:
    await nodes.expire()


async def flush(nodes: Nodes) -> None:
    await nodes.flush()


async def crowd_out(nodes: Nodes) -> None:
    """Open so many other sessions that this one's snapshot goes."""
    for _ in range(PER_VIEWER):
        await page(nodes, None)


Loss = Callable[[Nodes], Awaitable[None]]
LOSSES: tuple[Loss, ...] = (expire, flush, crowd_out)
PLACES = range(1, len(ITEMS))  # pages read before it happens


@pytest.mark.parametrize("lose", LOSSES)
async def test_a_snapshot_may_be_lost_at_every_position(nodes: Nodes, lose: Loss) -> None:
    """The scroll goes on in a new slate, says so, and repeats and loses nothing."""
    for n in PLACES:
        pages = await opened(nodes, n)
        await lose(nodes)
        async with changes(nodes) as news:
            later = await rest(nodes, pages[-1].next)
            check_whole([*pages, *later], news)
            # A deleted post may have taken a place of the slate, so that its last item is below.
            assert later[0].renewed == (later[0].slate is not None) >= (n < IN_SLATE - 1)
            assert not any(each.renewed for each in later[1:])


@pytest.mark.parametrize("lose", [expire, flush])
async def test_a_snapshot_may_be_lost_at_every_two_positions(nodes: Nodes, lose: Loss) -> None:
    """The second time it is the new slate that goes; one session, gone on with time and again."""
    first = await opened(nodes, len(PLACES))
    for n in PLACES:
        for more in range(1, len(ITEMS) - n):
            pages = first[:n]
            await lose(nodes)
            for _ in range(more):
                pages.append(await page(nodes, pages[-1].next))
            await lose(nodes)
            check_whole([*pages, *await rest(nodes, pages[-1].next, limit=2)])


@pytest.mark.parametrize("lose", [expire, flush])
async def test_an_answer_may_get_lost_at_every_position(nodes: Nodes, lose: Loss) -> None:
    """Asked again after a loss, and by an earlier cursor as well: either chain is whole."""
    for n in PLACES:
        pages = await opened(nodes, n)
        one = await page(nodes, pages[-1].next)
        await lose(nodes)
        async with changes(nodes) as news:
            other = await page(nodes, pages[-1].next, limit=3)
            for answer in (one, other):
                later = await rest(nodes, answer.next, limit=2)
                check_whole([*pages, answer, *later], news)


@pytest.mark.parametrize("lose", [expire, flush])
async def test_another_snapshot_under_the_same_id_is_another(nodes: Nodes, lose: Loss) -> None:
    """A renewed slate is lost, and an older cursor brings one of the same id, in another order."""
    for n in range(1, IN_SLATE - 1):
        pages = await opened(nodes, n)
        await lose(nodes)
        one = await page(nodes, pages[-1].next, limit=2)
        await lose(nodes)
        async with changes(nodes) as news:
            other = await page(nodes, pages[-1].next, limit=2)
            assert one.slate == other.slate
            later = await rest(nodes, one.next)
            check_whole([*pages, one, *later], news)
            assert later[0].renewed or later[0].slate is None


async def test_a_page_is_the_same_whenever_it_is_asked_for(nodes: Nodes) -> None:
    """Twice, at once, after all later pages, with any limit, whatever is liked or written."""
    pages = await opened(nodes)
    pages += await rest(nodes, pages[0].next)
    order = shown(pages)
    check_whole(pages)
    assert [each.slate is None for each in pages] == [n >= IN_SLATE for n in range(len(pages))]
    async with changes(nodes):
        for n in (*reversed(PLACES), *PLACES):
            cursor = pages[n - 1].next
            answers = await asyncio.gather(
                *(page(nodes, cursor, node=each % 2) for each in range(4))
            )
            assert [each.shows for each in answers] == [[order[n]]] * 4
            assert {each.position for each in answers} == {pages[n].position}
            for limit in (2, WHOLE):
                end = n + limit if n >= IN_SLATE else min(n + limit, IN_SLATE)
                assert (await page(nodes, cursor, limit=limit)).shows == order[n:end]


async def test_the_end_is_where_nothing_is_left_at_every_position(nodes: Nodes) -> None:
    """All that comes later is hidden: there is no next page, neither in the slate nor below."""
    pages = await opened(nodes)
    pages += await rest(nodes, pages[0].next)
    order = shown(pages)
    for n in reversed(PLACES[1:]):
        await nodes.first.call("PUT", f"/hidden/{order[n]}", READER)
        answer = await page(nodes, pages[n - 2].next)
        assert (answer.shows, answer.next) == ([order[n - 1]], None), n


async def test_a_renewal_asked_for_at_once_is_one(nodes: Nodes) -> None:
    """Whoever is first freezes the slate, and all get the same page of it."""
    for n in PLACES:
        pages = await opened(nodes, n)
        await expire(nodes)
        asked = (page(nodes, pages[-1].next, node=each % 2) for each in range(4))
        one, *others = await asyncio.gather(*asked)
        assert [each.shows for each in others] == [one.shows] * len(others)
        check_whole([*pages, one, *await rest(nodes, others[-1].next)])


async def test_a_slate_without_rows_is_frozen_once_too(nodes: Nodes) -> None:
    """Nothing is left when it is renewed; the other node, with other weights, finds it."""
    (first,) = await opened(nodes)
    for author in (FRIEND, OTHER):
        await nodes.first.call("PUT", f"/mutes/{author}", READER)
    await expire(nodes)
    one, other = [await page(nodes, first.next, node=node) for node in range(2)]
    assert (one.shows, one.next, one.renewed) == ([], None, True)
    assert one == other


async def test_an_open_snapshot_is_not_ranked_again_at_any_position(nodes: Nodes) -> None:
    """Neither by the weights of another node, nor by new ones in the file of this one."""
    opening = await opened(nodes)
    order = [*opening[0].shows, *(await page(nodes, opening[0].next, limit=WHOLE)).shows]
    assert len(order) == IN_SLATE
    scrolls = [opening]
    for n in range(1, IN_SLATE):
        scrolls.append([*scrolls[-1], await page(nodes, scrolls[-1][-1].next, node=n % 2)])
    async with changes(nodes):
        nodes.swap_profile(1)
        await asyncio.sleep(1.1 * LOOK_EVERY_S)
        for pages in scrolls:
            for node in range(2):
                whole = [*pages, *await rest(nodes, pages[-1].next, node=node)]
                check_whole(whole)
                assert shown(whole)[:IN_SLATE] == order
        weights = {(await page(nodes, None, node=node)).weights for node in range(2)}
        assert len({*weights, opening[0].weights}) == 3, "both nodes have others in force"
