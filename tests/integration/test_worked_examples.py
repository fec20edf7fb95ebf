"""The worked examples that need the stores: trimming, and delivery to small and large authors."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from redis.asyncio import Redis

from feed.settings import Settings
from storage import followers, graph, keys
from storage.author_delivery import owe_switches
from storage.connections import Postgres
from storage.feeds import Feeds
from tests.properties.history import OWED, PEOPLE_ARRIVE, written
from tests.properties.service import Service

EXAMPLES = json.loads((Path(__file__).parents[1] / "worked_examples.json").read_text())


async def test_trim_keeps_the_cap_and_drops_the_lowest(redis: "Redis[bytes]") -> None:
    example = EXAMPLES["trim"]
    feeds, key = Feeds(redis, cap=example["cap"]), keys.feed(1)
    await feeds.begin(key, "t", ttl_s=30)
    await feeds.finish(key, "t", np.empty(0, np.int64), np.empty(0, np.int64), None, ttl_s=100)
    pushed = list(range(1, example["after_pushing"] + 1))
    for post in pushed:
        await feeds.push([key], post, post * 10)
    [cached] = await feeds.read([key])
    assert cached is not None
    assert len(cached.ids) == example["kept"]
    assert cached.ids.tolist() == pushed[:0:-1]
    assert cached.floor_ms == 10


async def test_ids_that_collide_as_doubles_are_two_members(redis: "Redis[bytes]") -> None:
    ids = EXAMPLES["double_precision"]["two_snowflake_ids_that_collide_as_doubles"]
    feeds, key = Feeds(redis, cap=500), keys.feed(1)
    await feeds.begin(key, "t", ttl_s=30)
    await feeds.finish(key, "t", np.array(ids), np.array([5, 5]), None, ttl_s=100)
    [cached] = await feeds.read([key])
    assert cached is not None
    assert cached.ids.tolist() == sorted(ids, reverse=True)


async def test_a_post_of_a_large_author_is_pulled_and_others_are_pushed(
    settings: Settings, postgres: Postgres, redis: "Redis[bytes]"
) -> None:
    example = EXAMPLES["hybrid_delivery"]
    settings = replace(settings, switch_grace_s=1e-6)
    service = Service(settings, postgres, redis)
    await everybody_follows(service, small=100, large=200)
    await grown(service, settings)
    await service.rebuild_feed(1)
    for post in example["posts_in_order"]:
        async with postgres.transaction() as connection:
            await written(connection, post["id"], post["author"], post["id"] * 1000, {})
    await delivered(service)
    [feed] = await Feeds(redis, cap=settings.feed_cap).read([keys.feed(1)])
    assert feed is not None
    assert sorted(feed.ids.tolist()) == example["pushed_feed_of_user_1"]
    assert await service.scroll(1, "chronological", 20) == example["feed_of_user_1"]
    assert await service.scroll(5000, "chronological", 20) == example["feed_of_user_5000"]
    await service.effects.drain()


async def everybody_follows(service: Service, *, small: int, large: int) -> None:
    """Let users 1 to 10,001 follow the large author, and user 1 the small one as well."""
    people = list(range(1, 10_002))
    async with service.postgres.transaction() as connection:
        await connection.execute(PEOPLE_ARRIVE, [people, 0])
        edges = [(1, small), *((person, large) for person in people if person != large)]
        edges += [(20_000, large)]  # in the place of the author, who is among the 10,001 ids
        await connection.execute("INSERT INTO users (id, name) VALUES (20000, 'u')")
        await graph.follow_many(connection, edges)


async def grown(service: Service, settings: Settings) -> None:
    """Count the followers and let the switch that they ask for take place."""
    async with service.postgres.transaction() as connection:
        counted = await followers.fold_counts(connection, limit=100_000)
        large = await owe_switches(
            connection,
            counted,
            pull_from=settings.pull_from_followers,
            push_below=settings.push_below_followers,
        )
    assert large == [200]
    await delivered(service)


async def delivered(service: Service) -> None:
    """Deliver everything that is owed."""
    for _ in range(20):
        async with service.postgres.connection() as connection:
            rows = await (await connection.execute(OWED)).fetchall()
        if not rows:
            return
        await service.deliver([delivery for delivery, _ in rows])
    raise AssertionError("deliveries never end")
