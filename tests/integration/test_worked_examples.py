"""The worked examples that need the stores: trimming, and delivery to small and large authors."""

import json
from pathlib import Path

import numpy as np
from redis.asyncio import Redis

from storage import keys
from storage.feeds import Feeds

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
