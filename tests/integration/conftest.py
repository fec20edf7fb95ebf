"""The api in process, on a database of its own."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from feed.settings import Settings
from tests.integration.api_client import Client, running


@pytest.fixture
async def api(settings: Settings, redis: Any) -> AsyncIterator[Client]:
    """Run the api on this test's own stores."""
    async with running(settings) as client:
        yield client
