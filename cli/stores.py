"""Opens the stores for a command that works on them directly, and ends when they are gone."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from feed.settings import Settings
from storage.connections import Postgres, RedisClient, open_redis


@dataclass(frozen=True)
class Stores:
    """Postgres and Redis, open as long as a block lasts."""

    postgres: Postgres
    redis: RedisClient


@asynccontextmanager
async def open_postgres(settings: Settings) -> AsyncIterator[Postgres]:
    """Open Postgres; when it cannot be reached, its first use says so."""
    # The pool tells the log of every attempt to connect; we tell the user once, at the end.
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
    postgres = Postgres(settings.postgres_url)
    await postgres.open()
    try:
        yield postgres
    finally:
        await postgres.close()


@asynccontextmanager
async def open_stores(settings: Settings) -> AsyncIterator[Stores]:
    """Open both stores; the first use of one that cannot be reached says so."""
    async with open_redis_of(settings) as redis, open_postgres(settings) as postgres:
        yield Stores(postgres, redis)


@asynccontextmanager
async def open_redis_of(settings: Settings) -> AsyncIterator[RedisClient]:
    """Open Redis; when it cannot be reached, its first use says so."""
    redis = open_redis(settings.redis_url)
    try:
        yield redis
    finally:
        await redis.aclose()
