"""Outboxes that are held for a moment: late by at most that, bounded, and never a missing one."""

import pytest

from feed.errors import Unavailable
from storage.feeds import CachedList
from storage.hot_lists import HotLists
from tests.unit.test_cached_sources import listed

pytestmark = pytest.mark.anyio

FOR_S = 1.0


class World:
    """Lists that change, what was read of them, and the clock."""

    def __init__(self, *, bound: int = 10) -> None:
        self.lists: dict[str, CachedList] = {}
        self.trips: list[list[str]] = []
        self.now_s = 100.0
        self.gone = False
        self.hot = HotLists(self, bound=bound, for_s=FOR_S, clock=lambda: self.now_s)

    async def read(self, keys: list[str]) -> list[CachedList | None]:  # type: ignore[override]
        if self.gone:
            raise Unavailable("gone")
        if keys:
            self.trips.append(keys)
        return [self.lists.get(key) for key in keys]


async def test_a_list_is_read_once_in_a_moment_floor_and_all() -> None:
    world = World()
    world.lists["a"] = listed(20, 10, floor_ms=5)
    assert await world.hot.read(["a"]) == await world.hot.read(["a"]) == [world.lists["a"]]
    assert world.trips == [["a"]]


async def test_what_is_new_is_seen_when_the_moment_is_over() -> None:
    """Counted from the question, so that a slow answer is no longer held than a quick one."""
    world = World()
    world.lists["a"] = listed(10)
    await world.hot.read(["a"])
    before, world.lists["a"] = world.lists["a"], listed(20, 10)
    world.now_s += FOR_S / 2
    assert (await world.hot.read(["a"]))[0] is before
    world.now_s += FOR_S / 2
    assert (await world.hot.read(["a"]))[0] is world.lists["a"]


async def test_a_missing_list_is_never_held_and_its_rebuild_is_seen_at_once() -> None:
    world = World()
    assert await world.hot.read(["a"]) == [None]
    world.lists["a"] = listed(10)
    assert await world.hot.read(["a"]) == [world.lists["a"]]


async def test_a_list_that_went_missing_is_forgotten_when_the_moment_is_over() -> None:
    """As after the loss of the cache."""
    world = World()
    world.lists["a"] = listed(10)
    await world.hot.read(["a"])
    del world.lists["a"]
    world.now_s += FOR_S
    assert await world.hot.read(["a"]) == [None]


async def test_what_is_held_and_what_is_not_come_in_the_order_of_their_keys() -> None:
    world = World()
    world.lists = {key: listed(n) for n, key in enumerate("abcd", start=1)}
    await world.hot.read(["b", "d"])
    assert await world.hot.read(list("abcd")) == list(world.lists.values())
    assert world.trips == [["b", "d"], ["a", "c"]]


async def test_so_many_lists_are_held_and_no_more() -> None:
    """The one asked for longest ago goes first."""
    world = World(bound=2)
    world.lists = {key: listed(n) for n, key in enumerate("abc", start=1)}
    for key in "abc":
        await world.hot.read([key])
    await world.hot.read(list("bca"))
    assert world.trips[3:] == [["a"]]


async def test_a_server_that_fails_is_no_empty_list() -> None:
    world = World()
    world.gone = True
    with pytest.raises(Unavailable):
        await world.hot.read(["a"])
