"""A small product over HTTP on its real stores; its workers run when a test says so."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from feed.settings import Settings
from storage.connections import Postgres, RedisClient
from tests.cases.reader import FRIEND, OTHER, READER, STRANGER, Reader
from tests.integration.api_client import Client, running
from tests.integration.fanout_world import CAP, World


@pytest.fixture
def delivery(request: pytest.FixtureRequest) -> str:
    """Name how the product delivers; some modules run their tests for each way."""
    how: str = getattr(request, "param", "hybrid")
    return how


@pytest.fixture
def settings(settings: Settings, delivery: str) -> Settings:
    """Cache lists of five and rank eight, so that twenty posts have a floor, a slate and a tail."""
    return replace(settings, delivery=delivery, feed_cap=CAP, outbox_cap=CAP, candidates=8)


@pytest.fixture
async def api(settings: Settings, redis: Any) -> AsyncIterator[Client]:
    """Run the api on this test's own stores."""
    async with running(settings) as client:
        yield client


@pytest.fixture
def workers(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    """Deliver what is owed when a test says so."""
    return World(postgres, redis, settings)


@pytest.fixture
async def reader(api: Client) -> Reader:
    """Follow two of three people."""
    await api.people(READER, FRIEND, OTHER, STRANGER)
    reader = Reader(api)
    await reader.follow(FRIEND, OTHER)
    return reader
