"""P1, P3 and P5 on the real stores, against the oracle, over many invented histories.

TEST_HISTORIES says how many, TEST_FIRST_SEED where they begin: a longer run finds rarer faults.
A failing history is made shorter, and printed.
"""

import os
from random import Random

import pytest

from tests.properties.history import Event, World, invented
from tests.properties.service import Service
from tests.properties.stepping import Steps

HISTORIES = int(os.environ.get("TEST_HISTORIES", "120"))
FIRST_SEED = int(os.environ.get("TEST_FIRST_SEED", "0"))
EVENTS = 42
EVENTS_UNTIL_REST = 14  # a post that a feed has lost may be forgotten when it gets old
SHORTENINGS = 60  # tries, a second each


@pytest.mark.timeout(300 + 5 * HISTORIES)
async def test_at_rest_every_feed_is_the_oracles(service: Service, steps: Steps) -> None:
    """Whatever happened, complete and in order at rest, nothing leaked before, twice is once."""
    for seed in range(FIRST_SEED, FIRST_SEED + HISTORIES):
        history = invented(seed, EVENTS)
        if await fault(service, steps, seed, history):
            history = await shortened(service, steps, seed, history)
            told = "\n".join(map(str, history))
            pytest.fail(f"seed {seed}: {await fault(service, steps, seed, history)}\n{told}")


async def fault(
    service: Service, steps: Steps, seed: int, history: list[Event]
) -> AssertionError | None:
    """Play a history and return what went wrong."""
    rng = Random(seed)
    steps.begin(rng)
    world = World(service, steps, limit=rng.randrange(3, 9))
    try:
        await world.begin()
        for first in range(0, len(history), EVENTS_UNTIL_REST):
            for event in history[first : first + EVENTS_UNTIL_REST]:
                await world.happen(event)
            await world.come_to_rest()
            await world.check_complete()
        if seed % 3 == 0:
            await world.deliver_everything_again()
            await world.check_complete()
    except AssertionError as error:
        return error
    finally:
        await steps.end()
        await service.effects.drain()
    return None


async def shortened(service: Service, steps: Steps, seed: int, history: list[Event]) -> list[Event]:
    """Leave out what the fault does not need: halves first, then ever smaller parts."""
    tries, size = SHORTENINGS, len(history) // 2
    while size and tries:
        first = 0
        while first < len(history) and tries:
            without = history[:first] + history[first + size :]
            tries -= 1
            if await fault(service, steps, seed, without):
                history = without
            else:
                first += size
        size //= 2
    return history
