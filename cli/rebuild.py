"""`foryou rebuild`: drops cached lists and rebuilds them from Postgres, while the service runs."""

import asyncio
import json
import secrets
import sys
import time
from dataclasses import dataclass
from typing import Any

import click

from cli.entry import settings_with
from cli.stores import Stores, open_stores
from fanout.lifetime import stop_on_signals
from feed.errors import Unavailable
from feed.order import MAX_ID
from feed.settings import Settings
from storage.author_delivery import pulled_authors
from storage.delivery_state import how_it_stands
from storage.facts import load_viewer
from storage.renewal import Renewal, count_visitors, visitors

PAGE = 200
STOPPED = 130


@dataclass
class Progress:
    """How far a rebuild got: every user up to `after` is done."""

    after: int = 0
    n_users: int = 0
    n_feeds: int = 0
    n_outboxes: int = 0
    finished: bool = False
    lists_are_read: bool = True


@click.command()
@click.option("--all", "everybody", is_flag=True, help="Every feed and every outbox.")
@click.option(
    "--user", type=click.IntRange(1, MAX_ID), help="What this viewer's feed is read from."
)
@click.option(
    "--after",
    type=click.IntRange(0, MAX_ID),
    default=0,
    help="With --all: go on after this user, where an earlier run was stopped.",
)
@click.option("--json", "as_json", is_flag=True, help="What was done as one line of JSON.")
def rebuild(*, everybody: bool, user: int | None, after: int, as_json: bool) -> None:
    """Drop cached lists and rebuild them from Postgres; the service may run meanwhile.

    Nobody sees an empty feed: a list that is being rebuilt is read from Postgres. Feeds of people
    who were not here for FORYOU_FEED_TTL_S are dropped only; they come back with their reader.
    At most FORYOU_REBUILDS_AT_ONCE lists are rebuilt at the same time. A run that is stopped says
    how to go on.

    \b
    Example:
      foryou rebuild --user 75
      foryou rebuild --all
      foryou rebuild --all --after 48213     goes on where that was stopped

    \b
    For what `foryou up` runs:
      ( set -a; . ./.foryou/environment; foryou rebuild --all )
    """
    if everybody == (user is not None):
        raise click.UsageError("Say either --all or --user ID.")
    if after and not everybody:
        raise click.UsageError("--after goes with --all.")
    settings = settings_with("postgres_url", "redis_url")
    started = time.perf_counter()
    progress = Progress(after=after)
    try:
        asyncio.run(_rebuild(settings, user, progress))
    except Unavailable as error:
        go_on = f" Go on with: foryou rebuild --all --after {progress.after}" if everybody else ""
        raise Unavailable(f"{error}.{go_on}") from error
    _say(progress, time.perf_counter() - started, as_json=as_json)
    if not progress.finished:
        click.echo(f"stopped. Go on with: foryou rebuild --all --after {progress.after}", err=True)
        sys.exit(STOPPED)


async def _rebuild(settings: Settings, user: int | None, progress: Progress) -> None:
    async with open_stores(settings) as stores:
        async with stores.postgres.connection() as connection:
            progress.lists_are_read = (await how_it_stands(connection)).state != "pull"
        if not progress.lists_are_read:
            progress.finished = True
            return
        renewal = Renewal(
            stores.postgres, stores.redis, settings, token=lambda: secrets.token_urlsafe(12)
        )
        if user is not None:
            await _one(stores, renewal, settings, user, progress)
        else:
            await _all(stores, renewal, progress)


async def _one(
    stores: Stores, renewal: Renewal, settings: Settings, user: int, progress: Progress
) -> None:
    async with stores.postgres.connection() as connection:
        viewer = await load_viewer(connection, user, half_life_s=settings.affinity_half_life_s)
    progress.n_outboxes = await renewal.outboxes(viewer.pulled.tolist())
    progress.n_feeds = await renewal.feeds([user])
    progress.n_users, progress.after, progress.finished = 1, user, True


async def _all(stores: Stores, renewal: Renewal, progress: Progress) -> None:
    """Renew outboxes, which many feeds are read from, then feeds in order of their users."""
    stop = stop_on_signals()
    async with stores.postgres.connection() as connection:
        pulled = await pulled_authors(connection)
        n_users = await count_visitors(connection, after=progress.after)
    if not progress.after:
        await renewal.forget_outboxes()
        progress.n_outboxes = await renewal.outboxes(pulled.tolist())
    shown: Any = click.progressbar(
        length=n_users,
        label="rebuilding",
        file=sys.stderr,
        item_show_func=lambda after: f"--after {after}" if after else None,
    )
    with shown as bar:
        while not stop.is_set():
            async with stores.postgres.connection() as connection:
                page = await visitors(connection, after=progress.after, limit=PAGE)
            if not page:
                progress.finished = True
                break
            progress.n_feeds += await renewal.feeds(page)
            progress.n_users += len(page)
            progress.after = page[-1]
            bar.update(len(page), progress.after)


def _say(progress: Progress, spent_s: float, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_document(progress, spent_s)))
        return
    if not progress.lists_are_read:
        click.echo("Nothing to rebuild: with FORYOU_DELIVERY=pull feeds are read from Postgres.")
        return
    click.echo(
        f"{progress.n_users:,} users: {progress.n_feeds:,} feeds rebuilt, the others are rebuilt "
        f"when they are read; {progress.n_outboxes:,} outboxes rebuilt; in {spent_s:.1f} s"
    )


def _document(progress: Progress, spent_s: float) -> dict[str, Any]:
    return {
        "users": progress.n_users,
        "feeds": progress.n_feeds,
        "outboxes": progress.n_outboxes,
        "after": str(progress.after),
        "finished": progress.finished,
        "seconds": round(spent_s, 3),
    }
