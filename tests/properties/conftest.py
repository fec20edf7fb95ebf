"""The service on stepping stores, for the tests that choose who goes on when."""

from collections.abc import AsyncIterator

import pytest

from feed.settings import Settings
from tests.properties.service import Service, small
from tests.properties.stepping import SteppedPostgres, SteppedRedis, Steps, stepping

Stepping = tuple[Steps, SteppedPostgres, SteppedRedis]


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """Run on uvloop, as the service does: many steps are many rounds of the loop."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def stores(settings: Settings) -> AsyncIterator[Stepping]:
    async with stepping(settings) as stores:
        yield stores


@pytest.fixture
def steps(stores: Stepping) -> Steps:
    return stores[0]


@pytest.fixture
def service(settings: Settings, stores: Stepping) -> Service:
    return Service(small(settings), *stores[1:])
