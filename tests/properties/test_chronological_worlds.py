"""Strict chronological over HTTP: newest first, followed and oneself only, nothing else, each once.

Random worlds full of temptations: strangers whom everybody likes, reposts, ties of time, blocks,
mutes, hidden and deleted posts; in the product the ranked feed is the default.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

import pytest

from feed.settings import Settings
from storage.connections import Postgres, RedisClient
from storage.engagements import fold
from tests import oracle
from tests.integration.api_client import Client, running
from tests.integration.fanout_world import World as Delivery
from tests.properties.service import small

WORLDS = int(os.environ.get("TEST_WORLDS", "8"))
ADMIN = 999_999
N_PEOPLE, N_POSTS = 7, 40
Pages = list[dict[str, Any]]


@pytest.fixture
async def api(settings: Settings) -> AsyncIterator[Client]:
    async with running(small(settings)) as client:
        yield client


@pytest.fixture
def delivery(settings: Settings, postgres: Postgres, redis: RedisClient) -> Delivery:
    return Delivery(postgres, redis, small(settings))


class World:
    """Some people with ids of their own, made over HTTP; the first one reads."""

    def __init__(self, api: Client, delivery: Delivery, seed: int) -> None:
        self.api = api
        self.delivery = delivery
        self.rng = Random(seed)
        self.people = range(seed * 100 + 1, seed * 100 + 1 + N_PEOPLE)
        self.reader = self.people[0]
        self.followed = set(self.rng.sample(self.people[1:], self.rng.randrange(1, N_PEOPLE - 1)))
        self.posts: list[int] = []
        self._ids = count(seed * 100_000 + 1)
        self._start = datetime.now(UTC) - timedelta(days=1)

    async def begin(self) -> None:
        """Let people write, before and after the reader's list is made, and undo things."""
        follows = [
            {"kind": "follow", "follower_id": str(self.reader), "followee_id": str(author)}
            for author in self.followed
        ]
        await self.api.people(*self.people)
        await self.api.ingest(*follows[: len(follows) // 2 + 1], *self._written(N_POSTS // 2))
        await self.delivery.drain()
        await self.scroll()
        await self.api.ingest(*follows, *self._written(N_POSTS // 2), *self._likes())
        for _ in range(4):
            await self.meddle()
        await self.delivery.drain()
        async with self.delivery.postgres.transaction() as connection:
            await fold(connection, 86_400)

    def _written(self, n: int) -> Pages:
        lines = []
        for _ in range(n):
            post_id = next(self._ids)
            if self.rng.random() < 0.3:
                post_id += 50_000  # ids say nothing of the order
            line = {
                "kind": "post",
                "author_id": str(self.rng.choice(self.people)),
                "id": str(post_id),
                "body": "words",
                "created_at": (
                    self._start + timedelta(milliseconds=self.rng.randrange(60))
                ).isoformat(),
            }
            if self.posts and self.rng.random() < 0.3:
                parent = self.rng.choice(self.posts)
                line |= {"repost_of": str(parent), "body": self.rng.choice(("", "a quote"))}
            elif self.posts and self.rng.random() < 0.2:
                line["reply_to"] = str(self.rng.choice(self.posts))
            self.posts.append(post_id)
            lines.append(line)
        return lines

    def _likes(self) -> Pages:
        return [
            {
                "kind": "event",
                "viewer_id": str(viewer),
                "event_id": str(UUID(int=self.rng.getrandbits(128))),
                "type": "like",
                "post_id": str(post_id),
                "at": datetime.now(UTC).isoformat(),
            }
            for post_id in self.rng.sample(self.posts, 6)
            for viewer in self.people
        ]

    async def meddle(self) -> None:
        """Delete or hide a post, or break with somebody."""
        post_id, other = self.rng.choice(self.posts), self.rng.choice(self.people[1:])
        does: list[Callable[[], Awaitable[Any]]] = [
            lambda: self.api.ingest({"kind": "delete", "post_id": str(post_id)}),
            lambda: self.api.call("PUT", f"/hidden/{post_id}", self.reader),
            lambda: self.api.call("PUT", f"/mutes/{other}", self.reader),
            lambda: self.api.call("PUT", f"/blocks/{self.reader}", other),
            lambda: self.api.call("DELETE", f"/follows/{other}", self.reader),
        ]
        chosen = self.rng.choices(range(5), (6, 6, 2, 1, 2))[0]
        await does[chosen]()
        if chosen == 4:
            self.followed.discard(other)

    async def post_now(self) -> None:
        """Let somebody write, perhaps the reader."""
        self.posts.append(int(await self.api.post(self.rng.choice(self.people), "news")))

    async def truth(self) -> list[int]:
        async with self.delivery.postgres.connection() as connection:
            return [entry.id for entry in await oracle.home_feed(connection, self.reader)]

    async def scroll(
        self, query: str = "mode=chronological&", between: Any = None, page_limit: int = 50
    ) -> Pages:
        """Read to the end; return the pages."""
        page = await self._page(query, page_limit, "")
        pages = [page]
        while page["next_cursor"]:
            if between:
                await between()
            page = await self._page(query, page_limit, f"&cursor={page['next_cursor']}")
            pages.append(page)
            assert len(pages) < 500
        return pages

    async def _page(self, query: str, page_limit: int, cursor: str) -> dict[str, Any]:
        answer = await self.api.call("GET", f"/feed?{query}limit={page_limit}{cursor}", self.reader)
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        return page

    def check(self, pages: Pages) -> list[int]:
        """Assert what strict means, from nothing but what was answered; return the ids."""
        items = [item for page in pages for item in page["items"]]
        order = [(item["created_at"], int(item["id"])) for item in items]
        assert order == sorted(set(order), reverse=True), "not newest first, or one came twice"
        authors = {int(item["author"]["id"]) for item in items}
        assert authors <= self.followed | {self.reader}, "somebody who is not followed"
        assert all(item["in_network"] for item in items)
        assert not {item["source"] for item in items} & {"popular", "network_likes"}
        assert not any(item["reposted_by"] for item in items), "reposts were folded"
        assert all(page["mode"] == "chronological" and page["snapshot"] is None for page in pages)
        return [id for _, id in order]


async def admin(api: Client, **change: Any) -> None:
    answer = await api.call("PUT", "/admin/modes", ADMIN, change, scope="admin")
    assert answer.status_code == 200, answer.text


async def test_chronological_is_strict_in_random_worlds(api: Client, delivery: Delivery) -> None:
    """Asked for while ranked is the default: exactly what the truth holds, at any page size."""
    lengths, temptations = [], set()
    for seed in range(WORLDS):
        world = World(api, delivery, seed)
        await world.begin()
        for page_limit in (50, world.rng.randrange(1, 8)):
            pages = await world.scroll(page_limit=page_limit)
            assert world.check(pages) == await world.truth(), seed
            assert {page["mode_reason"] for page in pages} == {"request"}
        ranked = await world.scroll("")
        assert ranked[0]["mode"] == "ranked"
        temptations |= {item["source"] for page in ranked for item in page["items"]}
        lengths.append(len(await world.truth()))
    assert max(lengths) > 20
    assert temptations >= {"popular", "network_likes"}, "there is nothing to be strict about"


async def test_every_way_into_chronological_gives_the_same(api: Client, delivery: Delivery) -> None:
    """Preference, override, cohort, holdout, rollout, default and kill switch, not asked for."""
    for seed in range(2):
        world = World(api, delivery, seed)
        await world.begin()
        reader = str(world.reader)
        ways: list[tuple[str, dict[str, Any]]] = [
            ("override", {"overrides": {reader: "chronological"}}),
            ("cohort", {"cohorts": {"old": {"mode": "chronological", "members": [reader]}}}),
            ("holdout", {"holdout_percent": 100, "rollout_percent": 100}),
            ("rollout", {"rollout_percent": 0}),
            ("default", {"default_mode": "chronological"}),
            ("kill_switch", {"kill_switch": "chronological"}),
        ]
        nothing = {
            "overrides": {reader: None},
            "cohorts": {"old": None},
            "holdout_percent": 0,
            "rollout_percent": None,
            "default_mode": "ranked",
            "kill_switch": None,
        }
        for reason, change in ways:
            await admin(api, **{**nothing, **change})
            pages = await world.scroll("", page_limit=7)
            assert {page["mode_reason"] for page in pages} == {reason}
            assert world.check(pages) == await world.truth()
        await admin(api, **nothing)
        await api.call("PUT", "/preferences", world.reader, {"feed_mode": "chronological"})
        pages = await world.scroll("", page_limit=7)
        assert pages[0]["mode_reason"] == "preference"
        assert world.check(pages) == await world.truth()


async def test_nothing_is_inserted_into_a_scroll_while_the_world_goes_on(
    api: Client, delivery: Delivery, redis: RedisClient
) -> None:
    """New posts wait for the next open; what was there comes, unless it was taken away."""
    for seed in range(WORLDS):
        world = World(api, delivery, seed)
        await world.begin()
        at_open = await world.truth()
        ever_gone: set[int] = set()

        async def go_on(
            world: World = world, at_open: list[int] = at_open, ever_gone: set[int] = ever_gone
        ) -> None:
            happens = world.rng.random()
            if happens < 0.5:
                await world.post_now()
            elif happens < 0.8:
                followed = set(world.followed)
                await world.meddle()
                world.followed |= followed  # earlier pages may hold who is unfollowed by now
            elif happens < 0.9:
                await delivery.drain()
            elif happens < 0.93:
                await redis.flushdb()
            ever_gone |= set(at_open) - set(await world.truth())

        got = world.check(await world.scroll(between=go_on, page_limit=world.rng.randrange(1, 5)))
        assert set(got) <= set(at_open), f"inserted {set(got) - set(at_open)}"
        assert set(at_open) - ever_gone <= set(got), f"lost in {seed}"
