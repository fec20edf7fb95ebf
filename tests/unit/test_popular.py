"""The list of what is popular is shared: read once in a while, and nobody waits for another's."""

import asyncio

import numpy as np
import pytest

from candidate_sources.popular import Popular
from feed.errors import Unavailable
from feed.order import NEWEST
from feed.query import Query, Viewer
from storage.discovery import Discovered

pytestmark = pytest.mark.anyio

AUTHOR = 100
EVERY_S = 5.0


class Posts:
    """Posts that take until `answers` is set; each reading finds another one."""

    def __init__(self) -> None:
        self.readings = 0
        self.answers = asyncio.Event()
        self.answers.set()
        self.gone = False

    async def popular(self, n: int) -> Discovered:
        if self.gone:
            raise Unavailable("gone")
        self.readings += 1
        found = np.array([self.readings], dtype=np.int64)
        await self.answers.wait()
        return Discovered(found, found, np.array([AUTHOR], dtype=np.int64))


class World:
    """One source, and the clock that it looks at."""

    def __init__(self) -> None:
        self.posts = Posts()
        self.now_s = 0.0
        self.source = Popular(self.posts, n=10, every_s=EVERY_S, clock=lambda: self.now_s)

    async def found(self) -> list[int]:
        query = Query(Viewer(id=1), 10, NEWEST, 0, discover=True)
        return (await self.source.find(query)).ids.tolist()


async def test_it_is_read_once_for_all_requests_of_a_while() -> None:
    world = World()
    assert [await world.found() for _ in range(3)] == [[1], [1], [1]]
    world.now_s = EVERY_S
    assert [await world.found() for _ in range(2)] == [[2], [2]]


async def test_nobody_waits_for_a_reading_that_hangs() -> None:
    world = World()
    await world.found()
    world.now_s = EVERY_S
    world.posts.answers.clear()
    hanging = asyncio.create_task(world.found())
    await asyncio.sleep(0)
    assert await world.found() == [1]
    world.posts.answers.set()
    assert await hanging == [2]


async def test_while_the_first_reading_hangs_the_others_go_without() -> None:
    world = World()
    world.posts.answers.clear()
    hanging = asyncio.create_task(world.found())
    await asyncio.sleep(0)
    assert await world.found() == []
    world.posts.answers.set()
    assert (await hanging, await world.found()) == ([1], [1])


async def test_a_reading_that_fails_is_told_to_one_and_the_others_go_on() -> None:
    world = World()
    await world.found()
    world.now_s = EVERY_S
    world.posts.gone = True
    with pytest.raises(Unavailable):
        await world.found()
    assert await world.found() == [1]
