"""The api in process, on a database of its own; what it answers must not depend on delivery."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from feed.settings import Settings
from tests.integration.api_client import Client, running

BOTH_WAYS = ("test_api_graph", "test_api_posts", "test_api_reposts", "test_feed")
"""Modules whose tests run twice: with cached lists, and with everybody pulled."""
RELY_ON_LISTS = ("test_the_second_open_reads_the_rebuilt_feed",)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of some modules for each way of delivery."""
    if "delivery" in metafunc.fixturenames and metafunc.module.__name__.endswith(BOTH_WAYS):
        ways = ["hybrid"] if metafunc.function.__name__ in RELY_ON_LISTS else ["hybrid", "pull"]
        metafunc.parametrize("delivery", ways, indirect=True)


@pytest.fixture
async def delivery(request: pytest.FixtureRequest, redis: Any) -> AsyncIterator[str]:
    """Name how the product delivers; while everybody is pulled, nobody caches a list."""
    how: str = getattr(request, "param", "hybrid")
    yield how
    if how == "pull":
        assert [key for kind in ("feed:*", "outbox:*") for key in await redis.keys(kind)] == []


@pytest.fixture
async def api(settings: Settings, delivery: Any) -> AsyncIterator[Client]:
    """Run the api on this test's own stores."""
    async with running(replace(settings, delivery=delivery)) as client:
        yield client
