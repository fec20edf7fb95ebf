"""Posts by author and time: the newest n inside any gaps, as a plain look at every post says."""

import random

import numpy as np
import pytest

from feed.candidates import Gaps
from feed.order import NEWEST, OLDEST, Key
from feed.settings import Settings
from storage.connections import Postgres, RedisClient
from storage.timelines import FEW, newest_posts
from tests.integration.fanout_world import World

pytestmark = pytest.mark.anyio

AUTHORS = range(1, 13)


def plain(posts: list[tuple[int, Key]], gaps: Gaps, down_to: Key, n: int) -> list[int]:
    """Return the ids of the newest n posts that lie in one of the gaps."""
    tops = dict(
        zip(gaps.authors.tolist(), map(Key, gaps.ms.tolist(), gaps.ids.tolist()), strict=True)
    )
    inside = [key for author, key in posts if author in tops and down_to <= key <= tops[author]]
    return [key.id for key in sorted(inside, reverse=True)[:n]]


@pytest.mark.parametrize("seed", range(3))
async def test_the_newest_of_many_authors_are_found(
    postgres: Postgres, redis: RedisClient, settings: Settings, seed: int
) -> None:
    """Of busy and silent authors, few and many, with ties, below gaps of every height."""
    rng = random.Random(seed)
    world = World(postgres, redis, settings)
    await world.people(*AUTHORS)
    posts = [
        (rng.choice([1, 1, 1, *AUTHORS[:-1]]), Key(rng.randrange(40), id)) for id in range(1, 151)
    ]
    for author, key in posts:
        await world.post(key.id, author, ms=key.ms)
    async with postgres.connection() as connection:
        for _ in range(80):
            authors = rng.sample(AUTHORS, rng.choice([1, FEW, FEW + 1, len(AUTHORS)]))
            tops = [
                rng.choice([NEWEST, Key(rng.randrange(40), rng.randrange(150))]) for _ in authors
            ]
            gaps = Gaps(
                np.array(authors),
                np.array([top.ms for top in tops]),
                np.array([top.id for top in tops]),
            )
            down_to = rng.choice([OLDEST, OLDEST, Key(rng.randrange(40), rng.randrange(150))])
            n = rng.choice([1, 2, 5, 30, 200])
            ids, ms = await newest_posts(connection, gaps, down_to, n)
            assert ids.tolist() == plain(posts, gaps, down_to, n)
            assert ms.tolist() == [dict((k.id, k.ms) for _, k in posts)[id] for id in ids.tolist()]
