"""The service on stepping stores, for the tests that choose who goes on when."""

from collections.abc import AsyncIterator

import pytest

from feed.settings import Settings
from storage.connections import Postgres
from tests.properties.service import Service, small
from tests.properties.stepping import SteppedPostgres, SteppedRedis, Steps


@pytest.fixture
async def steps(postgres: Postgres) -> Steps:
    return Steps(postgres)


@pytest.fixture
async def service(settings: Settings, steps: Steps) -> AsyncIterator[Service]:
    postgres = SteppedPostgres(settings.postgres_url, steps)
    redis = SteppedRedis.at(settings.redis_url, steps)
    await postgres.open()
    yield Service(small(settings), postgres, redis)
    await redis.aclose()
    await postgres.close()
