"""What somebody must do now and then: in the relay's process, by one relay at a time.

Folds deltas into counters, makes partitions, prunes what is over, notices restarts of Redis.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

from fanout.lifetime import repeat
from fanout.plan import thresholds
from fanout.recovery import Recovery
from fanout.whole_product import WholeProduct
from feed.settings import Settings
from storage import engagements, followers, idempotency, outbox_events, receipts
from storage.author_delivery import owe_switches
from storage.connections import Connection, Postgres
from storage.feeds import Feeds
from storage.locks import try_lock
from storage.migrate import drop_partitions, ensure_partitions
from storage.restarts import Restarts

log = logging.getLogger(__name__)

RESTART_CHECK_S = 1.0
MARK_EVERY_S = 1.0
MARK_PAUSES = 20  # times as long as it took
DAILY_WORK_EVERY_S = 60.0
BATCH = 10_000


class Housekeeping:
    """The steps, each of which may be called at any time and by several processes."""

    def __init__(
        self, postgres: Postgres, feeds: Feeds, restarts: Restarts, settings: Settings
    ) -> None:
        """Keep house in `postgres` and, after a restart of Redis, in `feeds`."""
        self._postgres = postgres
        self._feeds = feeds
        self._recovery = Recovery(postgres, feeds, restarts, settings)
        self._settings = settings

    def loops(self, stop: asyncio.Event) -> list[Coroutine[Any, Any, None]]:
        """Return what runs until `stop`."""
        return [
            repeat("counters", self.fold, stop),
            repeat("partitions and pruning", self.tidy, stop),
            repeat("restart check", self.check_restart, stop),
            repeat("mark", self.mark, stop),
        ]

    async def fold(self) -> float:
        """Pay deltas into counters, affinity and follower counts, each exactly once.

        An author whose count crosses a threshold owes a switch, in the same transaction.
        """
        n = 0
        async with self._alone("fold") as connection:
            if connection is not None:
                n = await engagements.fold(connection, self._settings.affinity_half_life_s)
                await self.fold_followers(connection)
        return 0.0 if n >= BATCH else self._settings.aggregate_every_s

    async def fold_followers(self, connection: Connection) -> None:
        """Pay follower deltas into counts, and owe the switches that they call for."""
        counted = await followers.fold_counts(connection, limit=BATCH)
        if counted and self._settings.delivery != "pull":
            pull_from, push_below = thresholds(self._settings)
            await owe_switches(connection, counted, pull_from=pull_from, push_below=push_below)

    async def tidy(self) -> float:
        """Make the partitions of the coming days; prune events, receipts and keys that are over."""
        pruned = 0
        async with self._alone("tidy") as connection:
            if connection is not None:
                today = datetime.now(UTC).date()
                await ensure_partitions(connection, today)
                keep_s = self._settings.outbox_keep_s
                pruned = await outbox_events.prune(connection, keep_s, limit=BATCH)
                keep_s = self._settings.receipts_keep_s
                pruned = max(pruned, await receipts.prune(connection, keep_s, limit=BATCH))
                await idempotency.prune(connection)
                keep = timedelta(days=self._settings.log_keep_days)
                await drop_partitions(connection, today - keep)
        return 0.0 if pruned >= BATCH else DAILY_WORK_EVERY_S

    async def check_restart(self) -> float:
        """Deliver again, or drop, what cached lists may have lost with a restart of Redis."""
        await self._recovery.check()
        return RESTART_CHECK_S

    async def mark(self) -> float:
        """Note beside the cached lists up to when everything is in them.

        A long backlog takes long to look at, and is looked at the less often.
        """
        started_s = monotonic()
        await self._recovery.mark()
        return max(MARK_EVERY_S, MARK_PAUSES * (monotonic() - started_s))

    async def begin(self) -> float:
        """Bring what other settings left behind in line with these; return when to go on, 0: done.

        Only at the start: where processes want different things, the last one decides.
        """
        wait_s = await WholeProduct(self._postgres, self._feeds, self._settings).bring_in_line()
        if wait_s or self._settings.delivery == "pull":
            return wait_s
        pull_from, push_below = thresholds(self._settings)
        async with self._postgres.transaction() as connection:
            await owe_switches(connection, None, pull_from=pull_from, push_below=push_below)
        return 0.0

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[Connection | None]:
        """Open a transaction that only one process at a time is in; None for the others."""
        async with self._postgres.transaction() as connection:
            alone = await try_lock(connection, f"housekeeping:{name}")
            yield connection if alone else None
