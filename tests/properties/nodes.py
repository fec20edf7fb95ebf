"""Two api nodes and a worker on the same stores; the nodes rank by different profiles."""

import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from feed.settings import Settings
from storage import keys
from storage.connections import Postgres, RedisClient
from storage.engagements import fold
from tests.integration.api_client import Client, running
from tests.integration.fanout_world import World as Delivery

PROFILES = (
    '[default.light]\nformula = "affinity_decay"\n',
    '[default.light]\nformula = "engagement_decay"\n[default.author]\nrun = 1\n',
    "[default.affinity_decay]\ngravity = 0.2\n[default.out_of_network]\nenabled = false\n",
)
"""What the first node's file says, by turns. The second node keeps one that comes along."""

log = logging.getLogger("foryou.tests")


@dataclass
class Nodes:
    """The nodes, their stores, and a count of everything that happened to them.

    `kind` names how they are set up: with a seed, it says everything that is invented for them.
    """

    kind: str
    clients: Sequence[Client]
    delivery: Delivery
    redis: RedisClient
    profiles: Path
    settings: Settings
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def scans(self) -> int:
        """How many rows are looked at to fill one page."""
        return self.settings.scan_bound

    @property
    def first(self) -> Client:
        """The node whose profile changes."""
        return self.clients[0]

    async def get(self, node: Client, path: str, user: int, **query: Any) -> Any:
        """Ask one node; return the answer, whatever it is."""
        self.counts["requests"] += 1
        asked = "&".join(f"{name}={value}" for name, value in query.items() if value is not None)
        return await node.call("GET", f"{path}?{asked}", user)

    async def settle(self) -> None:
        """Let everything be delivered, and everything that requests left to do be done."""
        await self.delivery.drain()
        await self.side_effects()

    async def side_effects(self) -> None:
        """Let everything be done that requests left to do."""
        for client in self.clients:
            await client.app.state.services.effects.drain()

    async def aggregate(self) -> None:
        """Count what people did, as the aggregator does."""
        async with self.delivery.postgres.transaction() as connection:
            await fold(connection, self.settings.affinity_half_life_s)

    def swap_profile(self, n: int) -> None:
        """Write another profile, which is in force as soon as the node looks at its file."""
        self.profiles.write_text(PROFILES[n % len(PROFILES)])

    async def expire(self) -> None:
        """Let every snapshot expire."""
        if found := await self.redis.keys(keys.snapshot(0, "*").replace("{0}", "*")):
            await self.redis.delete(*found)

    async def flush(self) -> None:
        """Lose everything that is cached."""
        await self.redis.flushdb()

    async def evict(self, rng: Random) -> set[str]:
        """Lose half of what is cached; return the ids of the snapshots that went."""
        gone = [key for key in sorted(await self.redis.keys("*")) if rng.random() < 0.5]
        if gone:
            await self.redis.delete(*gone)
        named = [key.decode() for key in gone]
        return {name.rpartition(":")[2] for name in named if name.startswith("snap:")}


@asynccontextmanager
async def two_nodes(
    kind: str, settings: Settings, postgres: Postgres, redis: RedisClient, folder: Path
) -> AsyncIterator[Nodes]:
    """Run the nodes until the block ends, and say how much happened."""
    profiles = folder / "profiles.toml"
    profiles.write_text(PROFILES[0])
    async with (
        running(replace(settings, profiles=str(profiles))) as first,
        running(replace(settings, profile="same_for_all")) as second,
    ):
        nodes = Nodes(
            kind, (first, second), Delivery(postgres, redis, settings), redis, profiles, settings
        )
        yield nodes
        await nodes.side_effects()
    log.info("%s: %s", kind, json.dumps(dict(sorted(nodes.counts.items()))))
