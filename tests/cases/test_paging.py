"""Complaints about paging, one test each; what they are about is in public issue trackers.

Every test runs twice: with cached lists, and with everybody pulled.
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from feed.settings import Settings
from storage.connections import Postgres, RedisClient
from tests.cases.reader import FRIEND, MODES, OTHER, READER, YESTERDAY, Reader, ids, write
from tests.integration.api_client import Client
from tests.integration.fanout_world import CAP, World
from tests.integration.test_feed_discovery import CROWD, counted, like

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("delivery", ["hybrid", "pull"], indirect=True),
]
both_modes = pytest.mark.parametrize("mode", MODES)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Look at five rows for a page, so that filters can empty one."""
    return replace(settings, scan_bound=5)


async def test_page_two_does_not_repeat_page_one_when_ranks_move(
    api: Client, reader: Reader, workers: World, postgres: Postgres
) -> None:
    """LemmyNet/lemmy#3547, LemmyNet/lemmy#4961, forem#14709, gorse-io/gorse#802."""
    await api.people(*CROWD)
    await write(api, FRIEND, range(1, 13))
    first = await reader.page("ranked")
    for post in (ids(first)[-1], 7):  # one that was shown, and one that was not yet
        await like(api, str(post), CROWD)
    await counted(postgres)
    await write(api, OTHER, (13, 14))
    await workers.drain()
    pages = await reader.scroll("ranked", first=first)
    assert sorted(ids(*pages)) == list(range(1, 13))
    assert set(ids(await reader.page("ranked", limit=2))) == {ids(first)[-1], 7}, "ranks moved"


@both_modes
async def test_a_page_that_filters_emptied_is_not_the_end(
    api: Client, reader: Reader, mode: str
) -> None:
    """bluesky-social/atproto#2616, bluesky-social/atproto#2134, bluesky-social/atproto#4871."""
    await write(api, FRIEND, (1, 2, 3))
    await write(api, OTHER, range(4, 24))
    first = await reader.page(mode, limit=1)
    for post in range(4, 24):
        await reader.call("PUT", f"/hidden/{post}")
    pages = await reader.scroll(mode, first=first)
    assert ids(*pages[1:]) == [3, 2, 1]
    assert any(not page["items"] and page["next_cursor"] for page in pages), "one was empty"


@both_modes
async def test_a_cursor_advances_and_is_there_exactly_while_more_is_left(
    api: Client, reader: Reader, workers: World, mode: str
) -> None:
    """bluesky-social/atproto#2989, bluesky-social/atproto#1176, bluesky-social/atproto#3039."""
    n = 0
    for more in (0, 1, 2, 5, 1, 3):  # 0, 1, 3, 8, 9 and 12 posts
        await write(api, FRIEND, range(n + 1, n + more + 1))
        await workers.drain()
        n += more
        pages = await reader.scroll(mode)
        cursors = [page["next_cursor"] for page in pages]
        assert len(set(cursors)) == len(cursors), "a cursor came back"
        assert all(page["items"] for page in pages) or n == 0, "a cursor, and nothing was left"
        assert sorted(ids(*pages)) == list(range(1, n + 1))


@both_modes
async def test_posts_of_one_millisecond_are_neither_lost_nor_repeated_at_a_page_border(
    api: Client, reader: Reader, mode: str
) -> None:
    """bluesky-social/atproto#2199, bluesky-social/atproto#2468."""
    await write(api, FRIEND, range(1, 17, 2), after_s=0)
    await write(api, OTHER, range(2, 17, 2), after_s=0)
    await write(api, OTHER, range(17, 21), created_at=(YESTERDAY + timedelta(hours=1)).isoformat())
    for _ in range(2):  # from the truth, and from the list that the first open has made
        got = ids(*await reader.scroll(mode))
        assert sorted(got) == list(range(1, 21))
        assert mode == "ranked" or got == list(range(20, 0, -1))


async def test_an_old_cursor_goes_on_in_a_renewed_snapshot_that_says_so(
    api: Client, reader: Reader, redis: RedisClient
) -> None:
    """bluesky-social/atproto#3334: it gave an empty page. A retry gets the same one."""
    await write(api, FRIEND, range(1, 7))
    first = await reader.page("ranked")
    for key in await redis.keys("snap:*"):
        await redis.delete(key)
    again = [await reader.page("ranked", cursor=first["next_cursor"]) for _ in "ab"]
    assert [page["snapshot"]["renewed"] for page in again] == [True, True]
    assert ids(again[0]) == ids(again[1])
    assert sorted(ids(first, again[0])) == list(range(1, 7))


@both_modes
async def test_the_scroll_goes_on_where_the_cache_ends(
    api: Client, reader: Reader, workers: World, mode: str
) -> None:
    """mastodon/mastodon#20173, tschellenbach/Stream-Framework#137."""
    await write(api, FRIEND, range(1, 21))
    await reader.page(mode)
    assert len(await workers.feed(READER) or []) <= CAP
    pages = await reader.scroll(mode)
    assert pages[0]["state"] == "ready"
    assert sorted(ids(*pages)) == list(range(1, 21))


NOT_UNDERSTOOD = (
    "page=2", "offset=3", "max_id=5", "since_id=5", "before=5", "Cursor=x", "limits=3",
    "cursor=", "cursor=0", "cursor=2", "cursor=eyJ2IjoxfQ", "limit=0", "limit=-3", "limit=ten",
    "limit=", "limit=3&limit=4", "mode=latest",
)  # fmt: skip


@both_modes
async def test_a_paging_parameter_is_obeyed_or_refused_and_never_ignored(
    api: Client, reader: Reader, mode: str
) -> None:
    """pixelfed/pixelfed#5969, pixelfed/pixelfed#7128: the first page for ever."""
    await write(api, FRIEND, range(1, 8))
    for query in NOT_UNDERSTOOD:
        answer = await api.call("GET", f"/feed?{query}", READER)
        assert answer.status_code in (400, 422), query
    for limit in (1, 2, 5):
        first = await reader.page(mode, limit)
        second = await reader.page(mode, limit, first["next_cursor"])
        assert (len(ids(first)), len(ids(first, second))) == (limit, min(7, 2 * limit))
        assert len(set(ids(first, second))) == len(ids(first, second))


@both_modes
async def test_ids_are_compared_as_numbers_and_written_as_text(
    api: Client, reader: Reader, mode: str
) -> None:
    """mastodon/mastodon PR 7180. Any positive bigint, in any order, at one moment."""
    numbers = (9, 10, 2**53, 2**53 + 1, 2**63 - 1)
    await write(api, FRIEND, numbers, after_s=0)
    await write(api, OTHER, (11, 5), created_at=(YESTERDAY - timedelta(hours=1)).isoformat())
    for _ in range(2):  # from the truth, and from the list that the first open has made
        pages = await reader.scroll(mode)
        assert all(isinstance(item["id"], str) for page in pages for item in page["items"])
        assert sorted(ids(*pages)) == sorted((*numbers, 5, 11))
        assert mode == "ranked" or ids(*pages) == [*reversed(numbers), 11, 5]
