"""P1, P2, P3 and P6 over HTTP: scrolls of many invented crowds repeat, lose and leak nothing.

Posts, likes, deletes, blocks, mutes and more, all undone again, come between the pages; snapshots
expire, all of Redis is lost, profiles are swapped, on two nodes that rank differently; clients ask
twice, at once, with old cursors, and go back. TEST_CROWDS says how many crowds of each kind,
TEST_FIRST_CROWD where their seeds begin. `paging_model.py` is the same as a model.
"""

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from feed.settings import Settings
from storage.connections import Postgres, RedisClient
from tests.properties.crowd import Crowd
from tests.properties.nodes import Nodes, two_nodes
from tests.properties.scroll import Scroll
from tests.properties.service import small

CROWDS = int(os.environ.get("TEST_CROWDS", "2"))
FIRST_SEED = int(os.environ.get("TEST_FIRST_CROWD", "0"))
SCROLLS = 8  # in each crowd
AT_A_TIME = 2
TOLD = 80  # last things told of a crowd in which something went wrong
MODES = ("ranked", "ranked", "ranked", "chronological")

KINDS: dict[str, dict[str, Any]] = {
    "looks_at_all": {"scan_bound": 200},
    "looks_at_few": {"scan_bound": 5},  # pages may be short, even empty, before the end
    "remembers_few": {"scan_bound": 200, "served_memory": 14},  # a chain that is full goes by time
}


@pytest.fixture(params=KINDS)
async def nodes(
    request: pytest.FixtureRequest,
    delivery: Any,
    settings: Settings,
    postgres: Postgres,
    redis: RedisClient,
    tmp_path: Path,
) -> AsyncIterator[Nodes]:
    settings = replace(small(settings), delivery=delivery, snapshots_per_viewer=1_000)
    settings = replace(settings, **KINDS[request.param])
    async with two_nodes(
        f"{request.param} {delivery}", settings, postgres, redis, tmp_path
    ) as nodes:
        yield nodes


@pytest.mark.timeout(300 + 60 * CROWDS)
@pytest.mark.parametrize("delivery", ["hybrid", "pull"])
async def test_a_scroll_repeats_nothing_loses_nothing_and_leaks_nothing(
    nodes: Nodes, delivery: str
) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + CROWDS):
        crowd = Crowd(nodes, seed)
        try:
            await scrolled(crowd)
        except AssertionError as error:
            told = "\n".join(crowd.told[-TOLD:])
            raise AssertionError(f"seed {seed}: {error}\n{told}") from error


async def scrolled(crowd: Crowd) -> None:
    """Let some scrolls go on by turns to their ends, two at a time, of one reader or of two."""
    await crowd.begin()
    begun, on = 0, list[Scroll]()
    for _ in range(1_000):
        while begun < SCROLLS and len(on) < AT_A_TIME:
            on.append(Scroll(crowd, crowd.rng.choice(crowd.readers), crowd.rng.choice(MODES)))
            await crowd.settle()
            await on[-1].open()
            begun += 1
        for scroll in [each for each in on if each.ended]:
            await scroll.end()
            on.remove(scroll)
        if begun == SCROLLS and not on:
            return
        if on:
            await crowd.meanwhile()
            await crowd.rng.choice(on).step()
    raise AssertionError("no end")
