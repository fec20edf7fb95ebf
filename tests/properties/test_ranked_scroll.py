"""P2 on the real service: a ranked scroll repeats nothing and loses nothing, whatever happens.

The histories are those of `test_paging_model.py`: expiry at any point, answers that get lost,
requests sent twice, deletes, blocks and more, all undone again, new posts, likes; and the loss of
all of Redis. P3 on the way: each page holds only what the viewer may see at that moment.
"""

import os
from collections.abc import AsyncIterator
from functools import partial
from random import Random

import pytest

from feed.settings import Settings
from mixer.page import Page
from storage import graph, keys, posts
from storage.connections import Postgres, RedisClient
from tests import oracle
from tests.properties.history import FEW, FORGET_EVERYTHING, PEOPLE_ARRIVE, written
from tests.properties.service import Service, small

VIEWER, AUTHORS = 1, (1, 2, 3)
STRANGER = 4  # not followed: seen only where a followee reposts
LIMIT = 3
SIZES_AT_OPEN = (0, 1, 3, 8, 9, 20, 30)
HISTORIES = int(os.environ.get("TEST_SCROLLS", "60"))
LIKE = """
INSERT INTO post_stats (post_id, likes) VALUES (%s, 100)
ON CONFLICT (post_id) DO UPDATE SET likes = post_stats.likes + 100
"""


@pytest.fixture
async def service(
    settings: Settings, postgres: Postgres, redis: RedisClient
) -> AsyncIterator[Service]:
    service = Service(small(settings), postgres, redis)
    yield service
    await service.effects.drain()


class Scroll:
    """One viewer who scrolls to the end while everything moves."""

    def __init__(self, service: Service, seed: int) -> None:
        self._service = service
        self._rng = Random(seed)
        self._original: dict[int, int] = {}
        self._ms = 1_000
        self._got: list[int] = []
        self._ever_hidden: set[int] = set()

    async def check(self) -> None:
        """Play the history, then assert that nothing came twice and nothing was lost."""
        await self._begin()
        at_open = set(await self._visible())
        page = await self._service.open(VIEWER, "ranked", LIMIT)
        await self._take(page)
        cursors = set()
        while page.next is not None:
            assert page.next not in cursors, "a cursor came back"
            cursors.add(page.next)
            await self._meanwhile()
            page = await self._next(page)
        assert len(self._got) == len(set(self._got)), "a post came twice"
        # A repost and its original are one item: it was there if either was.
        lost = {self._original[post] for post in at_open - self._ever_hidden} - set(self._got)
        assert not lost, f"lost {lost}"

    async def _begin(self) -> None:
        await self._service.effects.drain()
        async with self._service.postgres.transaction() as connection:
            await connection.execute(FORGET_EVERYTHING)
            await connection.execute(PEOPLE_ARRIVE, [[*AUTHORS, STRANGER], FEW])
            for author in AUTHORS[1:]:
                await graph.follow(connection, VIEWER, author)
        await self._service.redis.flushall()
        for _ in range(self._rng.choice(SIZES_AT_OPEN)):
            await self._write()

    async def _next(self, page: Page) -> Page:
        """Ask for the next page, now and then twice, or again after an answer that got lost."""
        rng, cursor = self._rng, page.next
        assert cursor is not None
        if rng.random() < 0.3:
            await self._service.next(cursor, LIMIT)
            await self._lose(0.2)
        page = await self._service.next(cursor, LIMIT)
        await self._take(page)
        if rng.random() < 0.2:
            await self._lose(0.3)
            await self._service.next(cursor, LIMIT)
        return page

    async def _meanwhile(self) -> None:
        rng = self._rng
        for _ in range(rng.randrange(3)):
            await self._write()
        if rng.random() < 0.4 and self._original:
            await self._hide_or_show(rng.choice(list(self._original)))
        if rng.random() < 0.3 and self._original:
            async with self._service.postgres.connection() as connection:
                await connection.execute(LIKE, [rng.choice(list(self._original))])
        await self._lose(0.4)

    async def _lose(self, chance: float) -> None:
        """Let every snapshot expire, or lose all of Redis."""
        if self._rng.random() < chance:
            if self._rng.random() < 0.3:
                await self._service.redis.flushall()
            elif snapshots := await self._service.redis.keys(keys.snapshot(VIEWER, "*")):
                await self._service.redis.delete(*snapshots)

    async def _write(self) -> None:
        self._ms += self._rng.choice([0, 0, 1])
        post = len(self._original) + 1
        parent = self._rng.randrange(1, post) if post > 1 and self._rng.random() < 0.2 else None
        quotes = self._rng.random() < 0.3  # a quote shows its own words, a plain repost does not
        self._original[post] = self._original[parent] if parent and not quotes else post
        more = {"repost_of": parent, "body": "words" if quotes else ""}
        author = self._rng.choice((*AUTHORS, STRANGER))
        async with self._service.postgres.transaction() as connection:
            await written(connection, post, author, self._ms, more)

    async def _hide_or_show(self, post: int) -> None:
        """Delete a post, hide it, or break with an author; or undo that."""
        before = set(await self._visible())
        author = self._rng.choice(AUTHORS[1:])
        does, undoes, what = self._rng.choice(
            (
                (posts.delete_post, partial(posts.restore_post, policy="hybrid"), (None, post)),
                (graph.hide, graph.unhide, (VIEWER, post)),
                (graph.unfollow, graph.follow, (VIEWER, author)),
                (graph.block, graph.unblock, (author, VIEWER)),
                (graph.mute, graph.unmute, (VIEWER, author)),
            )
        )
        async with self._service.postgres.transaction() as connection:
            if not await does(connection, *what):
                await undoes(connection, *what)
        self._ever_hidden |= before ^ set(await self._visible())

    async def _visible(self) -> list[int]:
        async with self._service.postgres.connection() as connection:
            return [entry.id for entry in await oracle.home_feed(connection, VIEWER)]

    async def _take(self, page: Page) -> None:
        got = [item.post.id for item in page.items]
        assert set(got) <= set(await self._visible()), "served what may not be seen"
        self._got += [self._original[post] for post in got]


async def test_a_scroll_repeats_nothing_and_loses_nothing(service: Service) -> None:
    for seed in range(HISTORIES):
        try:
            await Scroll(service, seed).check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
