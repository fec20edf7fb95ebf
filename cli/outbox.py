"""`foryou outbox`: what delivery still owes, and what to do with what was given up on."""

import asyncio
import getpass
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import click

from cli.entry import settings_with
from cli.stores import open_postgres
from feed.order import MAX_ID
from storage import owed
from storage.connections import Connection
from storage.owed import Owed

T = TypeVar("T")
Ids = click.IntRange(1, MAX_ID)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="The answer as one line of JSON.")


@click.group()
def outbox() -> None:
    """List what delivery owes; try again, or drop for good, what was given up on.

    A delivery that has failed FORYOU_FAILURES_UNTIL_PARKED times is parked with its error, and
    stops nobody. Find out what is wrong, put it right, and let it be tried again.

    \b
    Example:
      foryou outbox list --parked
      foryou outbox retry 4711
      foryou outbox drop 4711 --why "written by a test"

    \b
    For what `foryou up` runs:
      ( set -a; . ./.foryou/environment; foryou outbox list )
    """


@outbox.command("list")
@click.option("--parked", is_flag=True, help="Only what was given up on.")
@click.option("--after", type=click.IntRange(0, MAX_ID), default=0, help="Only larger ids.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@AS_JSON
def list_command(*, parked: bool, after: int, limit: int, as_json: bool) -> None:
    """List deliveries that are not done, by id.

    \b
    Example:
      foryou outbox list --parked
      foryou outbox list --after 4711 --limit 1000 --json
    """
    # One more than asked for says whether there are more.
    rows = _on_postgres(
        lambda connection: owed.list_owed(connection, parked=parked, after=after, limit=limit + 1)
    )
    shown, more = rows[:limit], len(rows) > limit
    if as_json:
        click.echo(json.dumps({"deliveries": [_document(each) for each in shown], "more": more}))
        return
    for each in shown:
        click.echo(_line(each))
    if not shown:
        click.echo("nothing is parked" if parked else "nothing is owed")
    if more:
        only = "--parked " if parked else ""
        click.echo(f"more: foryou outbox list {only}--after {shown[-1].id}", err=True)


@outbox.command()
@click.argument("ids", nargs=-1, type=Ids, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="All that is parked.")
@AS_JSON
def retry(*, ids: tuple[int, ...], everything: bool, as_json: bool) -> None:
    """Try parked deliveries again; exits 1 when one that is named is not parked.

    \b
    Example:
      foryou outbox retry 4711 4712
      foryou outbox retry --all
    """
    if everything == bool(ids):
        raise click.UsageError("Say either which ids, or --all.")
    named = None if everything else list(ids)
    _tell("retried", _on_postgres(lambda connection: owed.retry(connection, named)), ids, as_json)


@outbox.command()
@click.argument("ids", nargs=-1, type=Ids, required=True, metavar="ID...")
@click.option("--why", required=True, help="The reason, for the audit.")
@AS_JSON
def drop(*, ids: tuple[int, ...], why: str, as_json: bool) -> None:
    """Give deliveries up for good; each leaves an audit row. Exits 1 when one is not owed.

    Who should have got it does not: `foryou check` then finds a post missing, and its --repair
    brings it.

    \b
    Example:
      foryou outbox drop 4711 --why "an event that a test wrote"
    """
    actor = f"cli:{getpass.getuser()}"
    dropped = _on_postgres(lambda connection: owed.drop(connection, ids, actor=actor, why=why))
    _tell("dropped", dropped, ids, as_json)


def _on_postgres(work: Callable[[Connection], Awaitable[T]]) -> T:
    settings = settings_with("postgres_url")

    async def run() -> T:
        async with open_postgres(settings) as postgres, postgres.transaction() as connection:
            return await work(connection)

    return asyncio.run(run())


def _tell(done: str, found: set[int], named: Sequence[int], as_json: bool) -> None:
    others = sorted(set(named) - found)
    if as_json:
        ids = {done: sorted(found), "not_found": others}
        click.echo(json.dumps({name: [str(id) for id in each] for name, each in ids.items()}))
    else:
        click.echo(f"{len(found):,} {done}")
        for id in others:
            reason = "not parked" if done == "retried" else "not owed"
            click.echo(f"{id}: {reason}", err=True)
    if others:
        sys.exit(1)


def _document(each: Owed) -> dict[str, Any]:
    return {
        **each._asdict(),
        "id": str(each.id),
        "payload": dict(each.payload),
        "age_s": round(each.age_s, 1),
    }


def _line(each: Owed) -> str:
    payload = " ".join(f"{name}={value}" for name, value in each.payload.items())
    chunk = f" chunk {each.chunk}" if each.chunk else ""
    head = f"{each.id:<8} {each.state:8} {each.lane:5} {each.age_s:>9,.0f} s  {each.type}{chunk}"
    tail = f"\n         {each.failures} failures: {each.error}" if each.error else ""
    return f"{head}  {payload}{tail}"
