"""`foryou train export` and `foryou train validate`: from the logs of a product to a data set."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import psycopg

from cli.entry import settings_with
from feed.errors import Invalid, Misconfigured
from feed.settings import Settings
from storage.connections import Connection, configure, translated_errors
from storage.learning import Span
from training import dataset as datasets
from training.export import Terms, export
from training.validate import Check, validate

Moment = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"])


@click.command("export")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder to write.")
@click.option("--days", default=30, show_default=True, type=click.IntRange(1), help="How far back.")
@click.option("--until", type=Moment, help="UTC; what came in later is not known. [default: now]")
@click.option(
    "--window-h",
    default=24.0,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="Label window: what was done later about a slate does not count.",
)
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.")
def export_command(
    *, out: Path, days: int, until: datetime | None, window_h: float, as_json: bool
) -> None:
    """Write what was served, with features, joined with what was done about it, as a data set.

    \b
    Example (for what `foryou up` runs):
      ( set -a; . ./.foryou/environment; foryou train export --out data )
    """
    settings = settings_with("postgres_url")
    if (out / datasets.ABOUT).exists():
        raise Misconfigured(f"{out} already holds a data set: choose another folder.")
    end = datetime.now(UTC) if until is None else until.replace(tzinfo=UTC)
    terms = Terms(Span(end - timedelta(days=days), end), window_h)
    began_s = time.perf_counter()
    about = asyncio.run(_exported(settings.postgres_url, out, terms))
    counts = dict(about.counts)
    if as_json:
        click.echo(json.dumps(counts))
        return
    for name, n in counts.items():
        click.echo(f"  {name.replace('_', ' '):<32} {n:>12,}")
    rate = counts.get("rows", 0) / max(time.perf_counter() - began_s, 1e-9)
    click.echo(f"{out}: {counts.get('rows', 0):,} rows, {rate:,.0f} a second")


async def _exported(url: str, out: Path, terms: Terms) -> datasets.About:
    async with _reading(url) as connection:
        return await export(connection, out, terms, _told if sys.stderr.isatty() else None)


def _told(rows: int) -> None:
    click.echo(f"\r  {rows:,} rows   ", nl=False, err=True)


@click.command("validate")
@click.argument("data", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--slates", default=1_000, show_default=True, type=click.IntRange(1), help="For parity."
)
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.")
def validate_command(*, data: Path, slates: int, as_json: bool) -> None:
    """Check a data set and the logs it was made of; exit status 1 when a check fails.

    \b
    Example (for what `foryou up` runs):
      ( set -a; . ./.foryou/environment; foryou train validate data )
    """
    settings = settings_with("postgres_url")
    checks = asyncio.run(_validated(settings, data, slates))
    if as_json:
        click.echo(json.dumps([each._asdict() for each in checks]))
    else:
        for each in checks:
            _show(each)
    if not all(each.passed for each in checks):
        raise Invalid("The data set is not fit to train on: see what failed.")


def _show(check: Check) -> None:
    click.echo(f"{'PASS' if check.passed else 'FAIL'}  {check.name:<24} {check.said}")
    for example in check.examples:
        click.echo(f"        {example}")


async def _validated(settings: Settings, data: Path, slates: int) -> list[Check]:
    half_life_s = settings.affinity_half_life_s
    async with _reading(settings.postgres_url) as connection:
        return await validate(connection, data, n_slates=slates, half_life_s=half_life_s)


@asynccontextmanager
async def _reading(url: str) -> AsyncIterator[Connection]:
    """Lend a connection on which all reads are of one moment."""
    with translated_errors():
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await configure(connection)
            await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            await connection.set_read_only(True)
            async with connection.transaction():
                yield connection
