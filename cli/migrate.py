"""`foryou migrate`: brings the database to this version."""

import asyncio

import click
import psycopg

from cli.entry import settings_with
from storage.connections import translated_errors


async def migrate_database(url: str) -> list[str]:
    """Apply what is missing and name it; nothing to do is an empty list.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    from storage.migrate import migrate as apply

    with translated_errors():
        async with await psycopg.AsyncConnection.connect(
            url, autocommit=True, connect_timeout=5
        ) as connection:
            return [str(applied) for applied in await apply(connection)]


@click.command()
def migrate() -> None:
    """Bring the database to this version; safe to run at any time, from several nodes at once.

    \b
    Example (put your own address):
      FORYOU_POSTGRES_URL=postgresql://foryou@db/foryou foryou migrate
    """
    settings = settings_with("postgres_url")
    applied = asyncio.run(migrate_database(settings.postgres_url))
    for name in applied:
        click.echo(f"applied {name}")
    if not applied:
        click.echo("nothing to do")
