"""Puts models before the people of a service in process."""

from rankers.artifact import Model
from tests.integration.api_client import Client
from training.registry import By, promote, register, roll_back

BY = By("9", "a test")


async def crowned(api: Client, model: Model) -> str:
    """Register and promote a model, whatever the gate says; return its version."""
    async with api.app.state.services.postgres.transaction() as connection:
        await register(connection, model, BY)
    async with api.app.state.services.postgres.transaction() as connection:
        version = model.manifest.version
        await promote(connection, version, BY, force=True, deadline_s=60)
    await noticed(api)
    return version


async def rolled_back(api: Client) -> None:
    """Undo the last promotion."""
    async with api.app.state.services.postgres.transaction() as connection:
        await roll_back(connection, BY)
    await noticed(api)


async def noticed(api: Client) -> None:
    """Let the node look into the registry, as it does every other second."""
    await api.app.state.services.home_feed.heavy.models.look()
