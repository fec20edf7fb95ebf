"""Post ids of this process: a node number leased from Postgres, kept alive while the api runs."""

import asyncio
import logging
from time import monotonic
from uuid import UUID

from feed.errors import Unavailable
from feed.ids import Snowflakes
from storage import nodes
from storage.connections import Postgres

RENEW_EVERY_S = nodes.LEASE_S / 4
RETRY_EVERY_S = 0.5

logger = logging.getLogger("foryou.ids")


class LeasedIds:
    """Makes ids while the lease on a node number holds, and never after it may have run out."""

    def __init__(self, postgres: Postgres, owner: UUID) -> None:
        """Lease from `postgres` as `owner`; nothing is leased before `keep` runs."""
        self._postgres = postgres
        self._owner = owner
        self._node: int | None = None
        self._ids: Snowflakes | None = None
        self._good_until = 0.0

    def next(self, now_ms: int) -> int:
        """Return the next id for the time `now_ms`.

        Raises:
            Unavailable: There is no lease: Postgres has been away since the start, or too long.
        """
        if self._ids is None or monotonic() >= self._good_until:
            raise Unavailable("no node number is leased")
        return self._ids.next(now_ms)

    async def keep(self) -> None:
        """Lease and renew until cancelled; what goes wrong is logged and tried again."""
        while True:
            pause_s = RENEW_EVERY_S
            try:
                await self.lease_or_renew()
            except Exception as error:  # whatever it is, the next try may find it gone
                logger.warning("no lease on a node number: %s", error)
                pause_s = RETRY_EVERY_S
            await asyncio.sleep(pause_s)

    async def lease_or_renew(self) -> None:
        """Renew the lease, or take another node when it is lost or there is none."""
        asked_at = monotonic()
        async with self._postgres.transaction() as connection:
            if self._node is None or not await nodes.renew(connection, self._node, self._owner):
                node = await nodes.lease_node(connection, self._owner)
                self._node, self._ids = node, Snowflakes(node)
        self._good_until = asked_at + nodes.LEASE_S

    async def release(self) -> None:
        """Give the number back at the end; when Postgres is away it expires by itself."""
        if self._node is not None:
            node, self._node, self._ids = self._node, None, None
            async with self._postgres.connection() as connection:
                await nodes.release(connection, node, self._owner)
