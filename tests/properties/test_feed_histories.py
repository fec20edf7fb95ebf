"""P1, P3 and P5 on the real stores, against the oracle, over histories that hypothesis invents.

TEST_HISTORIES says how many; a longer run finds rarer faults. TEST_SHRINK=1 makes a failing history
as short as it can be, which takes its time.
"""

import os
from collections.abc import AsyncIterator
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from feed.settings import Settings
from storage.connections import Postgres
from tests.properties.history import Event, World, histories
from tests.properties.service import Service, small
from tests.properties.stepping import SteppedPostgres, SteppedRedis, Steps

HISTORIES = int(os.environ.get("TEST_HISTORIES", "300"))
EVENTS = 40
PHASES = list(Phase) if os.environ.get("TEST_SHRINK") else [Phase.generate]


@pytest.fixture
async def steps(postgres: Postgres) -> Steps:
    return Steps(postgres)


@pytest.fixture
async def service(settings: Settings, steps: Steps) -> AsyncIterator[Service]:
    postgres = SteppedPostgres(settings.postgres_url, steps)
    redis = SteppedRedis.at(settings.redis_url, steps)
    await postgres.open()
    service = Service(small(settings), postgres, redis)
    yield service
    await service.effects.drain()
    await redis.aclose()
    await postgres.close()


@pytest.mark.timeout(120 + 5 * HISTORIES)
@hypothesis_settings(
    max_examples=HISTORIES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=PHASES,
    suppress_health_check=list(HealthCheck),  # the stores are emptied before each history
)
@given(history=histories(EVENTS), seed=st.integers(0, 999), limit=st.integers(2, 6))
async def test_at_rest_every_feed_is_the_oracles(
    service: Service, steps: Steps, history: list[Event], seed: int, limit: int
) -> None:
    """Whatever happened, complete and in order at rest, nothing leaked before, twice is once."""
    world = World(service, steps, limit)
    await steps.begin(Random(seed))
    await world.begin()
    for event in history:
        await world.happen(event)
    await world.come_to_rest()
    await world.check_complete()
    await world.deliver_everything_again()
    await world.check_complete()
