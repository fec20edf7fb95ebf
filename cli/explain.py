"""`foryou explain`: why a post stands where it does in one feed, or is not in it."""

import asyncio
import json
from collections.abc import Iterator

import click

from api.explain import explanation_document
from cli.entry import settings_with
from cli.stores import open_stores
from feed.order import MAX_ID
from feed.settings import Settings
from mixer.explain import Explain, Explanation
from mixer.home_feed import ranking
from snapshots.traces import TraceStore
from storage.page import PageReader
from storage.standing import PostgresStandings

Ids = click.IntRange(1, MAX_ID)


@click.command()
@click.argument("post", type=Ids)
@click.option("--user", type=Ids, required=True, help="Whose feed.")
@click.option("--snapshot", required=True, help="`snapshot.id` of an answer of /api/v1/feed.")
@click.option("--json", "as_json", is_flag=True, help="The answer as one line of JSON.")
def explain(*, post: int, user: int, snapshot: str, as_json: bool) -> None:
    """Say why POST stands where it does in a user's ranked feed, or why it is not there.

    This is the whole truth, blocks included: what a user may know, the api says. A feed can be
    explained as long as it can be scrolled, FORYOU_SNAPSHOT_TTL_S after its last page.

    \b
    Example:
      foryou explain 7300000000000001024 --user 75 --snapshot 0sMbIuVsLu9aVnUN

    \b
    For what `foryou up` runs:
      ( set -a; . ./.foryou/environment; foryou explain POST --user ID --snapshot ID )
    """
    settings = settings_with("postgres_url", "redis_url")
    told = asyncio.run(_explained(settings, user, snapshot, post))
    if as_json:
        click.echo(json.dumps(explanation_document(told)))
    else:
        click.echo("\n".join(_lines(told)))


async def _explained(settings: Settings, user: int, snapshot: str, post: int) -> Explanation:
    async with open_stores(settings) as stores:
        traces = TraceStore(stores.redis, ttl_s=settings.snapshot_ttl_s)
        posts, standings = PageReader(stores.postgres), PostgresStandings(stores.postgres)
        return await Explain(traces, posts, standings, ranking).in_full(user, snapshot, post)


def _lines(told: Explanation) -> Iterator[str]:
    yield f"post {told.post_id}: {told.status}. {told.because}"
    if told.source:
        yield f"  source        {told.source}"
    for each in told.features:
        yield f"  {each.name:13} {each.value:.4g} {each.unit}"
    if told.light is not None:
        yield f"  light score   {told.light:.4g} by {told.head.ranker}"
    for weight in told.multipliers:
        yield f"  times         {weight.factor:.4g} for {weight.rule}"
    if told.final is not None:
        yield f"  final score   {told.final:.4g}"
    for move in told.moves:
        yield f"  {move.rule:13} moved it from place {move.before + 1} to {move.after + 1}"
    yield f"  snapshot      {told.head.id}, {told.size} rows, weights {told.head.weights}"
