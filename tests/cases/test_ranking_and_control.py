"""Complaints about ranking and about who decides, one test each, from public issue trackers."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from feed.settings import Settings
from storage.connections import Postgres, RedisClient
from tests.cases.reader import (
    FRIEND,
    MODES,
    OTHER,
    READER,
    STRANGER,
    Reader,
    authors,
    ids,
    write,
)
from tests.integration.api_client import Client, running
from tests.integration.fanout_world import World
from tests.integration.test_feed_discovery import CROWD, counted, like

pytestmark = pytest.mark.anyio
both_modes = pytest.mark.parametrize("mode", MODES)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Rank all that there is."""
    return replace(settings, candidates=100)


async def test_a_post_that_was_seen_is_not_on_top_for_days(api: Client, reader: Reader) -> None:
    """twitter/the-algorithm#906, #1868. It goes down at the next open, and comes up with time."""
    await write(api, FRIEND, (1, 3, 5))
    await write(api, OTHER, (2, 4, 6))
    first = await reader.page("ranked")  # so that what is seen from now on is remembered
    fresh, older, second = *ids(first)[:2], first["next_cursor"]
    following = await reader.page("ranked", cursor=second)
    await reader.report("impression", fresh)
    await reader.report("impression", older, hours=24)
    assert ids(await reader.page("ranked", cursor=second)) == ids(following), "not in this one"
    assert ids(await reader.page("ranked", limit=6))[-2:] == [older, fresh], "down, not away"


async def test_a_feed_that_was_served_again_and_again_runs_out_of_nothing(
    api: Client, reader: Reader
) -> None:
    """bluesky-social/social-app#7145, bluesky-social/social-app PR 9094: served is not seen."""
    await write(api, FRIEND, (1, 3, 5))
    await write(api, OTHER, (2, 4, 6))
    opened = [await reader.page("ranked", limit=6) for _ in range(5)]
    assert [ids(page) for page in opened] == [ids(opened[0])] * 5
    assert not any(item["viewer"]["seen"] for page in opened for item in page["items"])
    await reader.report("impression", *range(1, 7))
    seen = await reader.page("ranked", limit=6)
    assert sorted(ids(seen)) == [1, 2, 3, 4, 5, 6]
    assert all(item["viewer"]["seen"] for item in seen["items"])


async def test_one_author_does_not_fill_the_screen_here_or_at_the_next_load(
    api: Client, reader: Reader, postgres: Postgres
) -> None:
    """xai-org/x-algorithm#202, twitter/the-algorithm#2002."""
    others = range(20, 28)
    await api.people(*others, *CROWD)
    await reader.follow(*others)
    await write(api, FRIEND, range(101, 113))
    for other in others:
        await write(api, other, [other])
    for post in range(101, 113):
        await like(api, str(post), CROWD[:3])
    await counted(postgres)
    pages = await reader.scroll("ranked", limit=4)
    runs = [(author, len([*run])) for author, run in groupby(authors(*pages))]
    assert max(n for _, n in runs[:-1]) <= 2, "the last run is what is left"
    assert authors(pages[0]).count(FRIEND) == 3
    await reader.report("impression", *ids(pages[0]))
    assert authors(await reader.page("ranked", limit=4)).count(FRIEND) < 2


async def test_one_post_comes_once_however_many_repost_it(api: Client, reader: Reader) -> None:
    """mastodon/mastodon#18693, mastodon/mastodon#12604. Chronological shows what was posted."""
    friends = range(20, 24)
    await api.people(*friends)
    await reader.follow(*friends)
    await write(api, STRANGER, [1])
    await write(api, OTHER, range(2, 6))
    for friend in friends:
        await write(api, friend, [friend], body="", repost_of="1")
    pages = await reader.scroll("ranked")
    (item,) = (each for page in pages for each in page["items"] if each["original"])
    assert item["original"]["id"] == "1"
    assert item["reason"] == "u23, u22 and 2 others reposted this"
    assert [each["name"] for each in item["reposted_by"]] == ["u23", "u22", "u21", "u20"]
    assert len(ids(*pages)) == 5
    assert ids(*await reader.scroll("chronological")) == [23, 22, 21, 20, 5, 4, 3, 2]


async def test_recommendations_never_slip_into_following_and_are_always_labelled(
    api: Client, reader: Reader, postgres: Postgres
) -> None:
    """bluesky-social/social-app#7682, bluesky-social/social-app#7431."""
    liked, popular = 40, 50
    await api.people(*CROWD, liked, popular)
    await write(api, FRIEND, range(1, 8))
    for author, fans in ((liked, (FRIEND, OTHER)), (popular, CROWD)):
        await write(api, author, [author])
        await like(api, str(author), fans)
    await counted(postgres)
    await reader.call("PUT", "/preferences", {"feed_mode": "chronological"})
    for mode in ("chronological", None):  # asked for, and as one's own choice
        assert ids(*await reader.scroll(mode)) == list(range(7, 0, -1))
    items = [item for page in await reader.scroll("ranked") for item in page["items"]]
    outside = {
        int(item["id"]): (item["source"], item["reason"])
        for item in items
        if not item["in_network"]
    }
    assert outside == {
        liked: ("network_likes", "Liked by people you follow"),
        popular: ("popular", "Popular right now"),
    }
    assert {int(item["id"]) for item in items if item["in_network"]} == set(range(1, 8))


async def test_a_chosen_chronological_feed_never_falls_back_to_ranked(
    settings: Settings, reader: Reader, postgres: Postgres, redis: RedisClient
) -> None:
    """twitter/the-algorithm#1405, twitter/the-algorithm#482, dimdenGD/GoodTwitter2#519."""
    await reader.api.people(*CROWD)
    await write(reader.api, FRIEND, range(1, 8))
    await like(reader.api, "5", CROWD)
    await counted(postgres)
    assert ids(await reader.page("ranked"))[0] == 5
    await reader.call("PUT", "/preferences", {"feed_mode": "chronological"})
    away = replace(settings, redis_url="redis://127.0.0.1:1/0")
    for node in (settings, away):  # other processes, one of which has lost its cache
        async with running(node) as api:
            pages = await Reader(api).scroll(None)
            assert ids(*pages) == list(range(7, 0, -1))
            echoed = {(page["mode"], page["mode_reason"]) for page in pages}
            assert echoed == {("chronological", "preference")}
        await redis.flushall()


async def test_every_item_answers_why_do_i_see_this(settings: Settings, reader: Reader) -> None:
    """bluesky-social/social-app#6788. Below the slate too, where the order is that of time."""
    reasons = set()
    async with running(replace(settings, candidates=4)) as api:
        reader = Reader(api)
        await write(api, FRIEND, (1, 2, 3, 5))
        await write(api, READER, [4])
        await write(api, OTHER, [6], body="", repost_of="1")
        opened = await reader.page("ranked")
        for page in await reader.scroll("ranked", first=opened):
            for item in page["items"]:
                path = f"/feed/explain/{item['id']}?snapshot={opened['snapshot']['id']}"
                told = await reader.call("GET", path)
                in_slate = page["snapshot"] is not None
                assert told["status"] == ("in_slate" if in_slate else "not_in_slate")
                assert told["position"] == (item["position"] if in_slate else None)
                assert told["because"]
                reasons.add((in_slate, item["reason"]))
    assert reasons == {
        (True, "Your own post"),
        (True, "u3 reposted this"),
        (True, "You follow u2"),
        (False, "You follow u2"),
    }


@both_modes
async def test_a_refresh_does_not_move_the_readers_place(
    api: Client, reader: Reader, workers: World, mode: str
) -> None:
    """bluesky-social/social-app#976, #4107. What is new waits behind a pill."""
    await write(api, FRIEND, range(1, 8))
    first = await reader.page(mode)
    second = await reader.page(mode, cursor=first["next_cursor"])
    updates = f"/feed/updates?cursor={first['updates_cursor']}"
    assert (await reader.call("GET", updates))["new_count"] == 0
    new = [await api.post(author, "news") for author in (OTHER, OTHER, STRANGER, READER)]
    told = await reader.call("GET", updates)
    assert (told["new_count"], told["authors"]) == (2, [{"id": str(OTHER), "name": "u3"}])
    again = await reader.page(mode, cursor=first["next_cursor"])
    assert [(item["id"], item["position"]) for item in again["items"]] == [
        (item["id"], item["position"]) for item in second["items"]
    ]
    pages = await reader.scroll(mode, first=first)
    assert sorted(ids(*pages)) == list(range(1, 8)), "nothing above, nothing below"
    await workers.drain()
    shown = set(ids(*await reader.scroll(mode)))
    assert shown == {*range(1, 8), *(int(new[n]) for n in (0, 1, 3))}


Wish = Callable[[Reader, dict[str, Any]], Awaitable[str]]
"""From an item that is not wanted to the path that undoes the wish."""


async def not_interested(reader: Reader, item: dict[str, Any]) -> str:
    await reader.report("not_interested", int(item["id"]))
    return f"/hidden/{item['id']}"


async def hide(reader: Reader, item: dict[str, Any]) -> str:
    await reader.call("PUT", f"/hidden/{item['id']}")
    return f"/hidden/{item['id']}"


async def mute(reader: Reader, item: dict[str, Any]) -> str:
    await reader.call("PUT", f"/mutes/{item['author']['id']}")
    return f"/mutes/{item['author']['id']}"


@both_modes
@pytest.mark.parametrize("wish", [not_interested, hide, mute])
async def test_show_less_takes_effect_at_once_is_listed_and_can_be_undone(
    api: Client, reader: Reader, wish: Wish, mode: str
) -> None:
    """bluesky-social/social-app#11727: "show less" hundreds of times, without effect."""
    await write(api, FRIEND, (1, 4, 5, 8))
    await write(api, OTHER, (2, 3, 6, 7))
    first = await reader.page(mode)
    second = await reader.page(mode, cursor=first["next_cursor"])
    unwanted = second["items"][0]
    undo = await wish(reader, unwanted)
    less = await reader.page(mode, cursor=first["next_cursor"])
    assert int(unwanted["id"]) not in ids(less) and len(ids(less)) >= 2
    assert int(unwanted["id"]) not in ids(*await reader.scroll(mode))
    listed = (await reader.call("GET", undo.rpartition("/")[0]))["items"]
    (entry,) = listed
    assert undo.rpartition("/")[2] in (entry.get("post_id"), entry.get("user_id"))
    await reader.call("DELETE", undo)
    assert (await reader.call("GET", undo.rpartition("/")[0]))["items"] == []
    assert ids(await reader.page(mode, cursor=first["next_cursor"])) == ids(second)
