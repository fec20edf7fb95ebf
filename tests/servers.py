"""A stand-in for `storage.migrate` until it is there."""

from pathlib import Path

import psycopg


async def migrate(connection: psycopg.AsyncConnection) -> None:
    """Apply the first migration."""
    folder = Path(__file__).parent.parent / "storage" / "migrations"
    await connection.execute((folder / "0001_truth.sql").read_text())
