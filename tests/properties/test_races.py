"""P1 in the races that the protocol is made for: a few tasks, many orders of their steps.

The histories of `test_feed_histories.py` come upon such races now and then; here they are sought.
"""

import os
from dataclasses import dataclass, replace
from random import Random

import pytest

from tests.properties.history import Event, World
from tests.properties.service import Service
from tests.properties.stepping import Steps

ORDERS = int(os.environ.get("TEST_ORDERS", "40"))
READER, AUTHOR = 0, 1  # numbers of people; both follow each other


@dataclass(frozen=True)
class Race:
    """What happens first and comes to rest, and what then happens all at once."""

    first: tuple[str, ...]
    then: tuple[str, ...]


RACES = {
    "a feed is rebuilt while posts are written": Race((), ("rebuild_feed", "write", "write")),
    "a feed is lost and rebuilt twice": Race(
        ("write",), ("rebuild_feed", "lose_feed", "write", "rebuild_feed", "write")
    ),
    "a feed is rebuilt while its reader follows": Race(
        ("unfollow", "write"), ("rebuild_feed", "follow")
    ),
    "an unfollow is undone at once": Race(("write",), ("unfollow", "follow")),
    "a follow is undone at once": Race(("unfollow", "write"), ("follow", "unfollow", "follow")),
    "a block is undone at once": Race(("write",), ("block", "unblock")),
    "a follower comes while posts are written": Race(("unfollow",), ("write", "follow", "write")),
    "an author is pulled while writing": Race((), ("write", "grow", "write", "write")),
    "an author is pushed again while writing": Race(
        ("grow", "write", "write"), ("write", "shrink", "write", "write")
    ),
    "an author is switched to and fro": Race(
        ("grow", "write"), ("shrink", "write", "grow", "write", "shrink", "write")
    ),
    "a feed is rebuilt while an author is pushed again": Race(
        ("grow", "write", "write"), ("shrink", "rebuild_feed", "write")
    ),
    "posts return while their author is pushed again": Race(
        ("grow", "write", "write", "delete", "delete"), ("shrink", "restore", "restore")
    ),
    "a follower comes while an author is pushed again": Race(
        ("grow", "write", "unfollow"), ("shrink", "follow", "write")
    ),
    "an outbox is rebuilt while posts are written": Race(
        ("grow", "write"), ("rebuild_outbox", "write", "write")
    ),
    "a full feed takes posts while it is rebuilt": Race(
        ("write",) * 5, ("write_backdated", "rebuild_feed", "write", "write_backdated")
    ),
}


@pytest.mark.timeout(60 + 3 * ORDERS)
@pytest.mark.parametrize("name", RACES)
async def test_in_any_order_every_feed_is_the_oracles(
    service: Service, steps: Steps, name: str
) -> None:
    for seed in range(ORDERS):
        rng = Random(seed)
        steps.begin(rng)
        world = World(service, steps, limit=3)
        try:
            await raced(world, RACES[name], rng)
        except AssertionError as error:
            raise AssertionError(f"order {seed}: {error}") from error
        finally:
            await steps.end()
            await service.effects.drain()


async def raced(world: World, race: Race, rng: Random) -> None:
    """Let the first things happen one after the other, and the others all at once."""
    await world.begin()
    for kind in race.first:
        await world.happen(event(kind, rng))
        await world.come_to_rest()
    for kind in race.then:
        await world.happen(replace(event(kind, rng), steps=rng.choice((0, 0, 3, 9))))
    await world.come_to_rest()
    await world.check_complete()


def event(kind: str, rng: Random) -> Event:
    """Let the reader do what readers do, and the author what authors do."""
    author = kind in ("write", "write_backdated", "grow", "shrink", "rebuild_outbox")
    # The second number is how far the clock moves, or whom the reader follows: the author.
    second = rng.randrange(3) if author else 0
    return Event(kind, AUTHOR if author else READER, second, 0)
