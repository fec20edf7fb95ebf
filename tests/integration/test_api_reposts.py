"""Reposts over HTTP: what becomes of them when the original or its author goes."""

from typing import Any

import pytest

from tests.integration.api_client import Client

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", ["ranked", "chronological"])]

VIEWER, AUTHOR, FRIEND = 1, 2, 3


@pytest.fixture
async def original(api: Client) -> str:
    """The viewer follows an author, and a friend who reposts the author's post."""
    await api.people(VIEWER, AUTHOR, FRIEND)
    for followee in (AUTHOR, FRIEND):
        await api.call("PUT", f"/follows/{followee}", VIEWER)
    return await api.post(AUTHOR, "the original")


async def read(api: Client, mode: str) -> list[dict[str, Any]]:
    """Open the viewer's feed, and let its list be built for the next time."""
    page = (await api.call("GET", f"/feed?mode={mode}", VIEWER)).json()
    await api.app.state.services.effects.drain()
    assert page["next_cursor"] is None
    items: list[dict[str, Any]] = page["items"]
    return items


def shown(items: list[dict[str, Any]]) -> set[str]:
    """Return the ids of the posts that can be read on a page, reposted ones included."""
    return {item["original"]["id"] if item["original"] else item["id"] for item in items}


async def test_a_quote_keeps_its_words(api: Client, original: str, mode: str) -> None:
    """Without them it would be a repost, and what reposts it an empty card."""
    quote = await api.post(FRIEND, "look at this", repost_of=original)
    refused = await api.call("PATCH", f"/posts/{quote}", FRIEND, {"body": ""})
    assert refused.status_code == 422 and "delete it, and repost" in refused.text
    assert "look at this" in {item["body"] for item in await read(api, mode)}


async def test_reposts_vanish_with_their_original_and_return_with_it(
    api: Client, original: str, mode: str
) -> None:
    """At once, from lists that still hold them, and for quotes too."""
    await api.post(FRIEND, "", repost_of=original)
    quote = await api.post(FRIEND, "look at this", repost_of=original)
    before = await read(api, mode)
    assert shown(before) == {original}
    assert (await api.call("DELETE", f"/posts/{original}", AUTHOR)).status_code == 204
    assert await read(api, mode) == []
    assert await read(api, mode) == []
    assert (await api.call("POST", f"/posts/{original}/restore", AUTHOR)).status_code == 200
    after = await read(api, mode)
    assert shown(after) == {original}
    assert quote in {item["id"] for item in after}


async def test_a_post_stays_reachable_through_somebody_still_followed(
    api: Client, original: str, mode: str
) -> None:
    """Who unfollows its author sees it through the repost, until the friend goes too."""
    repost = await api.post(FRIEND, "", repost_of=original)
    assert original in shown(await read(api, mode))
    assert (await api.call("DELETE", f"/follows/{AUTHOR}", VIEWER)).status_code == 204
    for _ in range(2):
        [item] = await read(api, mode)
        assert (item["id"], item["original"]["id"]) == (repost, original)
        assert item["original"]["author"]["id"] == str(AUTHOR)
    assert (await api.call("DELETE", f"/follows/{FRIEND}", VIEWER)).status_code == 204
    assert await read(api, mode) == []
