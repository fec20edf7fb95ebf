"""How far behind delivery is, measured once for all requests of this process."""

import asyncio
from contextlib import suppress

from feed.errors import Unavailable
from storage.connections import Postgres
from storage.health import backlog

EVERY_S = 0.5


class Lag:
    """The age of the oldest delivery that readers miss; shown with each page."""

    def __init__(self, postgres: Postgres) -> None:
        """Measure in `postgres`."""
        self._postgres = postgres
        self.seconds = 0.0

    async def keep(self) -> None:
        """Measure until cancelled; while Postgres is away the last figure stands."""
        while True:
            with suppress(Unavailable):
                self.seconds = (await backlog(self._postgres)).lag_s
            await asyncio.sleep(EVERY_S)
