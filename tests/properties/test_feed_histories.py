"""P1, P3 and P5 on the real stores, against the oracle, over many invented histories.

TEST_HISTORIES says how many, TEST_FIRST_SEED where they begin: a longer run finds rarer faults.
They are shared out to two processes a core, since each mostly waits for its servers. A failing
history is made shorter, and printed.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing import get_context
from random import Random
from typing import NamedTuple

import pytest
import uvloop

from feed.settings import Settings
from tests.conftest import cloned
from tests.properties.history import Event, World, invented
from tests.properties.service import Service, small
from tests.properties.stepping import Steps, stepping

HISTORIES = int(os.environ.get("TEST_HISTORIES", "2000"))
FIRST_SEED = int(os.environ.get("TEST_FIRST_SEED", "0"))
PROCESSES = min(2 * len(os.sched_getaffinity(0)), HISTORIES, 8)
EVENTS = 15
EVENTS_UNTIL_REST = 15  # a post that a feed has lost may be forgotten when it gets old
SHORTENINGS = 60  # tries
HISTORY_S = 300.0  # one takes a second; what does not end is a fault too
FOLLOWERS_A_PAGE = (1, 3)  # each post in chunks, or none


class Shard(NamedTuple):
    """What one process plays, and where."""

    settings: Settings
    seeds: Sequence[int]


@pytest.mark.longest
@pytest.mark.timeout(300 + 2 * HISTORIES)
def test_at_rest_every_feed_is_the_oracles(
    settings: Settings, postgres_server: str, template: str
) -> None:
    """Whatever happened, complete and in order at rest, nothing leaked before, twice is once."""
    with ExitStack() as stack:
        shards = []
        for n in range(PROCESSES):
            postgres_url = stack.enter_context(cloned(postgres_server, template))
            redis_url = f"{settings.redis_url.rpartition('/')[0]}/{n + 1}"
            seeds = range(FIRST_SEED + n, FIRST_SEED + HISTORIES, PROCESSES)
            shards.append(
                Shard(replace(settings, postgres_url=postgres_url, redis_url=redis_url), seeds)
            )
        pool = stack.enter_context(get_context("spawn").Pool(PROCESSES))
        for told in pool.imap_unordered(played, shards):
            if told:
                pytest.fail(told)


def played(shard: Shard) -> str | None:
    """Play the histories of a shard; tell of the first that goes wrong."""
    return uvloop.run(_played(shard))


async def _played(shard: Shard) -> str | None:
    async with stepping(shard.settings) as (steps, postgres, redis):
        services = [
            Service(replace(small(shard.settings), fanout_page=n), postgres, redis)
            for n in FOLLOWERS_A_PAGE
        ]
        for seed in shard.seeds:
            history = invented(seed, EVENTS)
            player = Player(services[seed % len(services)], steps, seed)
            try:
                async with asyncio.timeout(HISTORY_S):
                    fault = await player.fault(history)
            except Exception as error:
                error.add_note(f"seed {seed}")
                raise
            if fault:
                history = await player.shortened(history)
                told = "\n".join(map(str, history))
                return f"seed {seed}: {await player.fault(history)}\n{told}"
    return None


@dataclass(frozen=True)
class Player:
    """Plays one history, and shorter ones like it."""

    service: Service
    steps: Steps
    seed: int

    async def fault(self, history: list[Event]) -> AssertionError | None:
        """Play a history and return what went wrong."""
        rng = Random(self.seed)
        self.steps.begin(rng)
        world = World(self.service, self.steps, limit=rng.randrange(3, 9))
        try:
            await world.begin()
            for first in range(0, len(history), EVENTS_UNTIL_REST):
                for event in history[first : first + EVENTS_UNTIL_REST]:
                    await world.happen(event)
                await world.come_to_rest()
                await world.check_complete()
            if self.seed % 3 == 0:
                await world.deliver_everything_again()
                await world.check_complete()
        except AssertionError as error:
            return error
        finally:
            await self.steps.end()
            await self.service.effects.drain()
        return None

    async def shortened(self, history: list[Event]) -> list[Event]:
        """Leave out what the fault does not need: halves first, then ever smaller parts."""
        tries, size = SHORTENINGS, len(history) // 2
        while size and tries:
            first = 0
            while first < len(history) and tries:
                without = history[:first] + history[first + size :]
                tries -= 1
                if await self.fault(without):
                    history = without
                else:
                    first += size
            size //= 2
        return history
