"""Complaints about what was shown to the wrong people, one test each, from public issue trackers.

Every test runs twice: with cached lists, and with everybody pulled.
"""

from dataclasses import replace

import pytest

from feed.settings import Settings
from storage.connections import Postgres
from tests.cases.reader import FRIEND, MODES, OTHER, READER, Page, Reader, authors, ids, write
from tests.integration.api_client import Client, running
from tests.integration.fanout_world import World

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("delivery", ["hybrid", "pull"], indirect=True),
]
both_modes = pytest.mark.parametrize("mode", MODES)

SHUNNED = 66  # named u66

SHUTS_OUT = {
    "block": (READER, "PUT", f"/blocks/{SHUNNED}"),
    "blocked": (SHUNNED, "PUT", f"/blocks/{READER}"),
    "mute": (READER, "PUT", f"/mutes/{SHUNNED}"),
    "hide": (READER, "PUT", "/hidden/10"),
}


async def entangle(api: Client) -> None:
    """Let post 10 of somebody shunned be reposted, quoted and replied to, and those again."""
    await write(api, SHUNNED, [10], body="words that are shunned")
    await write(api, FRIEND, [11], body="", repost_of="10")
    await write(api, FRIEND, [12], body="a quote", repost_of="10")
    await write(api, OTHER, [13], body="", repost_of="12")
    await write(api, FRIEND, [14], body="a reply", reply_to="10")
    await write(api, OTHER, [15], body="", repost_of="14")
    await write(api, FRIEND, [16], body="a quote of a quote", repost_of="12")
    await write(api, OTHER, [17], body="", repost_of="16")
    await write(api, FRIEND, [18], body="a reply to a repost", reply_to="11")
    await write(api, OTHER, [19], body="", repost_of="18")
    await write(api, FRIEND, [20], body="a quote of a reply", repost_of="18")
    await write(api, OTHER, [21], body="", repost_of="20")


def betrays(page: Page) -> bool:
    """Say whether a page holds anything of what was shut out."""
    return any(text in str(page) for text in (f"u{SHUNNED}", "words that are shunned"))


@both_modes
@pytest.mark.parametrize("how", SHUTS_OUT)
async def test_who_is_shut_out_is_not_seen_through_a_repost_a_quote_or_a_reply(
    api: Client, reader: Reader, how: str, mode: str
) -> None:
    """mastodon/mastodon#7299, #7813, #14301; twitter/the-algorithm#16103.

    There are no mentions here: a name in a text is text.
    """
    await api.people(SHUNNED)
    await reader.follow(SHUNNED)
    await entangle(api)
    await write(api, FRIEND, [50])
    await write(api, OTHER, [51])
    first = await reader.page(mode, limit=1)
    assert set(ids(*await reader.scroll(mode, first=first))) >= {50, 51}
    who, method, path = SHUTS_OUT[how]
    assert (await api.call(method, path, who)).status_code == 204
    pages = [*await reader.scroll(mode, first=first), *await reader.scroll(mode)]
    assert not any(betrays(page) for page in pages[1:])
    assert set(ids(*pages[1:])) == {50, 51}, "and nothing else is lost"


@both_modes
async def test_a_deleted_post_takes_its_reposts_and_quotes_along_however_deep(
    api: Client, reader: Reader, mode: str
) -> None:
    """Replies have words of their own, and stay."""
    await api.people(SHUNNED)
    await entangle(api)
    first = await reader.page(mode, limit=1)
    assert (await api.call("DELETE", "/posts/10", SHUNNED)).status_code == 204
    for pages in ([*await reader.scroll(mode, first=first)][1:], await reader.scroll(mode)):
        items = [item for page in pages for item in page["items"]]
        shown = {int(item["id"] if item["body"] else item["repost_of"]) for item in items}
        assert not any(betrays(page) for page in pages) and shown <= {14, 18, 20}
    assert shown == {14, 18, 20}


@both_modes
async def test_when_blocks_cannot_be_looked_up_nothing_is_shown(
    settings: Settings, postgres: Postgres, reader: Reader, mode: str
) -> None:
    """xai-org/x-algorithm#7, #121, #139 (claims): everything passed."""
    await write(reader.api, FRIEND, range(1, 9))
    await write(reader.api, OTHER, range(9, 12))
    first = await reader.page(mode)
    await reader.call("PUT", f"/blocks/{OTHER}")
    async with (
        running(replace(settings, budget_ms=400)) as hurried,
        postgres.transaction() as connection,
    ):
        await connection.execute("LOCK TABLE blocks IN ACCESS EXCLUSIVE MODE")
        for query in (f"mode={mode}", f"mode={mode}&limit=2&cursor={first['next_cursor']}"):
            refused = await hurried.http.get(
                f"/api/v1/feed?{query}", headers={"X-User-Id": str(READER)}
            )
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert "items" not in refused.json()
    pages = await reader.scroll(mode, first=first)
    assert set(authors(*pages[1:])) == {FRIEND}


@both_modes
async def test_a_page_filtered_for_one_reader_is_not_served_to_another_or_for_ever(
    api: Client, reader: Reader, mode: str
) -> None:
    """pixelfed/pixelfed-rn#379, Automattic/wp-calypso#82828."""
    await write(api, FRIEND, (1, 3))
    await write(api, OTHER, (2, 4))
    another = Reader(api, user=77)
    await api.people(another.user)
    await another.follow(FRIEND, OTHER)
    await reader.call("PUT", f"/mutes/{OTHER}")
    assert [sorted(ids(await each.page(mode, 4))) for each in (reader, another, reader)] == [
        [1, 3],
        [1, 2, 3, 4],
        [1, 3],
    ]
    await reader.call("DELETE", f"/mutes/{OTHER}")
    assert sorted(ids(await reader.page(mode, 4))) == [1, 2, 3, 4]
    answer = await api.call("GET", f"/feed?mode={mode}", READER)
    assert answer.headers["cache-control"] == "no-store", "nor does anything on the way keep it"


@both_modes
async def test_posts_of_whom_one_unfollowed_go_at_once_and_do_not_keep_coming(
    api: Client, reader: Reader, workers: World, mode: str
) -> None:
    """andrewgodwin/takahe#366, planetary-social/nos#1529."""
    await write(api, OTHER, range(1, 5))
    await write(api, FRIEND, range(5, 9))
    await workers.drain()
    first = await reader.page(mode)
    await reader.call("DELETE", f"/follows/{OTHER}")
    await write(api, OTHER, (9, 10))
    rest = (await reader.scroll(mode, first=first))[1:]
    assert set(authors(*rest)) <= {FRIEND}, "in the session that was open"
    for _ in range(2):  # before a worker has run, and after
        assert set(authors(*await reader.scroll(mode))) == {FRIEND}
        await workers.drain()
    assert set(await workers.feed(READER) or []) <= set(range(5, 9)), "nor are they kept"


UNDO = {
    "mute": ("PUT", f"/mutes/{OTHER}", "DELETE", f"/mutes/{OTHER}"),
    "block": ("PUT", f"/blocks/{OTHER}", "DELETE", f"/blocks/{OTHER}"),
    "unfollow": ("DELETE", f"/follows/{OTHER}", "PUT", f"/follows/{OTHER}"),
}


@both_modes
@pytest.mark.parametrize("how", UNDO)
async def test_an_undone_mute_block_or_unfollow_brings_posts_back(
    api: Client, reader: Reader, workers: World, how: str, mode: str
) -> None:
    """mastodon/mastodon#33078: they stayed away. Those that were written meanwhile come too."""
    await write(api, FRIEND, (1, 3))
    await write(api, OTHER, (2, 4))
    await reader.page(mode)
    done, undone = UNDO[how][:2], UNDO[how][2:]
    await reader.call(*done)
    await write(api, OTHER, (5,))
    await workers.drain()
    assert set(authors(*await reader.scroll(mode))) == {FRIEND}
    await reader.call(*undone)
    await workers.drain()
    assert sorted(ids(*await reader.scroll(mode))) == [1, 2, 3, 4, 5]


@both_modes
async def test_a_deleted_post_leaves_no_stub(api: Client, reader: Reader, mode: str) -> None:
    """friendica/friendica#16231, bluesky-social/social-app#37."""
    await write(api, FRIEND, range(1, 9))
    await write(api, OTHER, [20], body="", repost_of="1")
    await write(api, OTHER, [21], body="a quote", repost_of="1")
    await write(api, OTHER, [22], body="a reply", reply_to="1")
    first = await reader.page(mode, limit=1)
    for post in (1, 6, 7):  # two of them in the slate
        await api.call("DELETE", f"/posts/{post}", FRIEND)
    inside = (await reader.scroll(mode, first=first))[1:]
    for pages in (inside, await reader.scroll(mode), await reader.scroll(mode)):
        items = [item for page in pages for item in page["items"]]
        assert {int(item["id"]) for item in items} | set(ids(first)) == {2, 3, 4, 5, 8, 22}
        assert all(item["body"] and item["author"]["name"] for item in items)
        assert not any(item["original"] for item in items)


@both_modes
async def test_a_deleted_account_leaves_no_stub(api: Client, reader: Reader, mode: str) -> None:
    """As above: everything that the account wrote is gone."""
    await write(api, FRIEND, (1, 2))
    await write(api, OTHER, (3, 4))
    await write(api, OTHER, [5], body="", repost_of="1")
    await reader.page(mode)
    await api.call("DELETE", f"/users/{FRIEND}", FRIEND)
    for _ in range(2):
        assert sorted(ids(*await reader.scroll(mode))) == [3, 4]
