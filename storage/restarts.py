"""Notices that the cache server restarted or failed over, which loses part of the lists silently.

A list from an old dump or a lagging replica looks complete and is not; it is dropped, and comes
back when it is read.
"""

from typing import Any

from storage import keys
from storage.connections import RedisClient, translated_errors
from storage.feeds import Feeds


class Restarts:
    """Compares the server's run id with what was noted in memory, and beside the lists."""

    def __init__(self, redis: RedisClient, feeds: Feeds) -> None:
        """Watch `redis`, where `feeds` are."""
        self._redis = redis
        self._feeds = feeds
        self._seen: bytes | None = None

    async def check(self) -> bool:
        """Drop all cached lists when they may stem from an earlier run; say whether they did.

        A flushed server is the same run: its lists are missing, none is stale.
        """
        with translated_errors():
            info: Any = await self._redis.info("server")
            run_id = str(info["run_id"]).encode()
            noted = await self._redis.get(keys.RUN_ID)
        restarted = any(known is not None and known != run_id for known in (noted, self._seen))
        if restarted:
            await self._feeds.forget(keys.FEED_PATTERN)
            await self._feeds.forget(keys.OUTBOX_PATTERN)
        if noted != run_id:
            with translated_errors():
                await self._redis.set(keys.RUN_ID, run_id)
        self._seen = run_id
        return restarted
