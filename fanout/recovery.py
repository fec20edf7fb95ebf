"""After a restart or a failover of the cache: what the lists may have lost is delivered again.

A list that came back from an old dump looks complete and is not. The note beside the lists
(`storage.restarts`) came back with them and says from when on events are missing. Without a note,
or with one that is older than the events are kept, all lists are dropped; reads rebuild them.
"""

import logging
from datetime import datetime

from fanout.plan import thresholds
from feed.settings import Settings
from storage import keys
from storage.author_delivery import owe_switches
from storage.connections import Connection, Postgres
from storage.feeds import Feeds
from storage.locks import try_lock
from storage.redelivery import delivered_until, owe_again
from storage.restarts import Restarts, Run

log = logging.getLogger(__name__)


class Recovery:
    """Keeps the note beside the lists, and acts on one that is of another run."""

    def __init__(
        self, postgres: Postgres, feeds: Feeds, restarts: Restarts, settings: Settings
    ) -> None:
        """Owe in `postgres` what `feeds` have lost; one process at a time does so."""
        self._postgres = postgres
        self._feeds = feeds
        self._restarts = restarts
        self._settings = settings
        self._seen: str | None = None

    async def check(self) -> bool:
        """Act when the lists may be of another run than the server's; say whether they were.

        The run is noted when everything is owed: whoever is killed before begins again.
        """
        run = await self._restarts.look()
        flushed = run.noted is None and self._seen == run.id
        if run.noted != run.id and not flushed:
            async with self._postgres.transaction() as connection:
                if not await try_lock(connection, "recovery"):
                    return False
                kept = await self._recover(connection, run)
        elif flushed:
            kept = None  # the same run: what is there was written since, nothing is stale
        else:
            self._seen = run.id
            return False
        if await self._restarts.note(run.id, kept):
            self._seen = run.id
        return not flushed

    async def mark(self) -> None:
        """Note up to when everything is in the lists, while they are of the run that is noted."""
        run = await self._restarts.look()
        if run.noted == run.id:
            # The run was read first: if it ends meanwhile, nothing is noted.
            async with self._postgres.connection() as connection:
                until = await delivered_until(connection)
            if until is not None:
                await self._restarts.mark(run.id, until)

    async def _recover(self, connection: Connection, run: Run) -> datetime | None:
        """Owe what is missing, or drop what cannot be told; return from when on it is owed."""
        await self._feeds.forget(keys.SEEN_PATTERN)  # cheap to rebuild, and no event brings it back
        n_owed = None
        if run.delivered_until is not None:
            keep_s = self._settings.outbox_keep_s
            n_owed = await owe_again(connection, run.delivered_until, keep_s=keep_s)
        if n_owed is None:
            await self._feeds.forget_lists()
            log.warning("Redis restarted: cached lists are dropped, and rebuilt when read")
            return None
        pull_from, push_below = thresholds(self._settings)
        await owe_switches(connection, None, pull_from=pull_from, push_below=push_below)
        log.warning("Redis restarted: events are delivered again", extra={"n": n_owed})
        return run.delivered_until
