"""The relay: leases what is due in Postgres and names it on a queue; does the housekeeping.

`foryou relay` runs it. Several may run: a delivery is leased by one of them.
"""

import asyncio
import logging
from contextlib import AsyncExitStack

from fanout.audit import Auditor
from fanout.costs import ByCost
from fanout.housekeeping import Housekeeping
from fanout.lifetime import once, repeat, stop_on_signals
from fanout.pressure import UnderLag
from fanout.queue import Queue, open_queue
from feed.settings import Settings
from storage.connections import Postgres, open_redis
from storage.deliveries import LANES, lease
from storage.feeds import Feeds
from storage.restarts import Restarts

log = logging.getLogger(__name__)

FULL_QUEUE_PAUSE_S = 0.2


class Relay:
    """Moves due deliveries of one lane from Postgres to its queue, one batch a step."""

    def __init__(self, postgres: Postgres, queue: Queue, settings: Settings) -> None:
        """Lease from `postgres`, put on `queue`, whose lane it is."""
        self.lane = queue.lane
        self._postgres = postgres
        self._queue = queue
        self._settings = settings
        slow = self.lane == "slow"
        self._batch = settings.relay_batch_slow if slow else settings.relay_batch
        self._bound = settings.queue_bound_slow if slow else settings.queue_bound

    async def step(self) -> float:
        """Lease one batch and enqueue it; return the seconds to wait before the next step.

        A full queue, or one that cannot be reached, leases nothing: the backlog stays in
        Postgres. The lease commits only when the job is on the queue.
        """
        if await self._queue.n_jobs() >= self._bound:
            return FULL_QUEUE_PAUSE_S
        limit = self._batch
        async with self._postgres.transaction() as connection:
            leased = await lease(connection, self.lane, limit=limit, lease_s=self._settings.lease_s)
            if leased and not await self._queue.put(leased):
                log.warning("job refused: it is on the queue already", extra={"n": len(leased)})
        return 0.0 if len(leased) == limit else self._settings.relay_poll_s


async def run_relay(settings: Settings) -> None:
    """Run the relay until SIGINT or SIGTERM; a loss of Postgres or Redis is waited out."""
    stop = stop_on_signals()
    async with AsyncExitStack() as stack:
        postgres = Postgres(settings.postgres_url, connections=8)
        await postgres.open()
        stack.push_async_callback(postgres.close)
        redis = open_redis(settings.redis_url)
        stack.push_async_callback(redis.aclose)
        client = open_queue(settings.queue)
        stack.push_async_callback(client.aclose)
        relays = [Relay(postgres, Queue(client, lane), settings) for lane in LANES]
        feeds = Feeds(redis, cap=settings.feed_cap)
        housekeeping = Housekeeping(postgres, feeds, Restarts(redis), settings)
        log.info("relay started")
        await asyncio.gather(
            *(repeat(f"relay {each.lane}", each.step, stop) for each in relays),
            repeat("pressure", UnderLag(postgres, settings).step, stop),
            repeat("costs", ByCost(postgres, settings).step, stop),
            repeat("audit", Auditor(postgres, feeds, settings).step, stop),
            once("start", housekeeping.begin, stop),
            *housekeeping.loops(stop),
        )
    log.info("relay ended")
