"""Brings how the whole product delivers in line with what a process wants when it starts.

Back to cached lists takes two steps: writers owe deliveries first (`filling`), and readers rely on
lists only when those from before, which lack what was written meanwhile, are gone.
"""

import logging

from feed.settings import Settings
from storage import delivery_state
from storage.connections import Postgres
from storage.feeds import Feeds

log = logging.getLogger(__name__)


class WholeProduct:
    """Moves the row that everybody heeds (`storage.delivery_state`)."""

    def __init__(self, postgres: Postgres, feeds: Feeds, settings: Settings) -> None:
        """Want what `settings` say."""
        self._postgres = postgres
        self._feeds = feeds
        self._settings = settings

    async def bring_in_line(self) -> float:
        """Take the next step; return the seconds until the one after, 0: there is none."""
        if self._settings.delivery == "pull":
            return await self._pull()
        return await self._push()

    async def _pull(self) -> float:
        async with self._postgres.transaction() as connection:
            if await delivery_state.stop_delivering(connection):
                log.warning("everybody is pulled from now on")
        await self._feeds.forget_lists()  # nobody reads them; they need not wait to expire
        return 0.0

    async def _push(self) -> float:
        async with self._postgres.transaction() as connection:
            stands = await delivery_state.how_it_stands(connection)
            if stands.state == "pull":
                await delivery_state.start_delivering(connection)
                log.warning("deliveries are owed again")
                return self._settings.switch_grace_s
        if stands.state == "hybrid":
            return 0.0
        # A request that opened a feed before may still be making a list of what it knew then.
        if stands.settled_s < self._settings.switch_grace_s:
            return self._settings.switch_grace_s - stands.settled_s
        await self._feeds.forget_lists()
        async with self._postgres.transaction() as connection:
            if await delivery_state.rely_on_lists(connection, stands.changed_at):
                log.warning("readers rely on cached lists from now on")
        return 0.0
