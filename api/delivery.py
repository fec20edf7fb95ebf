"""An api that wants everybody to be pulled says so when it starts; back is the relay's to say."""

import asyncio
import logging

from feed.settings import Settings
from storage.connections import Postgres
from storage.delivery_state import stop_delivering

RETRY_EVERY_S = 0.5

logger = logging.getLogger("foryou.delivery")


async def want_delivery(postgres: Postgres, settings: Settings) -> None:
    """Let everybody pull, if that is wanted.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    if settings.delivery == "pull":
        async with postgres.transaction() as connection:
            if await stop_delivering(connection):
                logger.warning("everybody is pulled from now on")


async def keep_wanting(postgres: Postgres, settings: Settings) -> None:
    """Try until it is said; what goes wrong is logged and tried again."""
    while True:
        try:
            return await want_delivery(postgres, settings)
        except Exception as error:  # whatever it is, the next try may find it gone
            logger.warning("could not say how to deliver: %s", error)
            await asyncio.sleep(RETRY_EVERY_S)
