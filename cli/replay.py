"""`foryou replay`: ranks a snapshot again, and says what another profile would change."""

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import click

from cli.entry import settings_with
from cli.stores import open_redis_of
from feed.order import MAX_ID
from feed.profile import Profile
from feed.settings import Settings
from mixer.explain import kept
from mixer.home_feed import ranking
from mixer.profiles import Profiles
from mixer.replay import Difference, compared, is_same, replayed
from snapshots.snapshot import Snapshot
from snapshots.traces import SlateTrace, TraceStore

TOLD = 10
"""Moves that are told in words; --json has them all."""


@dataclass(frozen=True)
class Replayed:
    """What came of a replay; `difference` is to the order under `profile`, if one is given."""

    snapshot: Snapshot
    same: bool
    profile: Profile | None
    difference: Difference


@click.command()
@click.argument("snapshot")
@click.option("--user", type=click.IntRange(1, MAX_ID), required=True, help="Whose feed.")
@click.option(
    "--profiles",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Compare with a profile of this file; else of FORYOU_PROFILES, or ours.",
)
@click.option("--profile", help="Compare with the profile of this name; with --profiles: default.")
@click.option("--json", "as_json", is_flag=True, help="The answer as one line of JSON.")
def replay(
    *, snapshot: str, user: int, profiles: Path | None, profile: str | None, as_json: bool
) -> None:
    """Rank SNAPSHOT again from what it was made from; exits 1 unless that gives the same slate.

    With a profile, say what it would change. The candidates stay those of the snapshot: a profile
    that would let in more of them shows no more here, and what was seen has faded as it had then.
    Nothing is written, nobody's feed changes.

    \b
    Example:
      foryou replay 0sMbIuVsLu9aVnUN --user 75
      foryou replay 0sMbIuVsLu9aVnUN --user 75 --profiles weights.toml --profile calm

    \b
    For what `foryou up` runs:
      ( set -a; . ./.foryou/environment; foryou replay ID --user ID --profile same_for_all )
    """
    settings = settings_with("redis_url")
    other = None
    if profiles or profile:
        file = str(profiles) if profiles else settings.profiles
        other = Profiles(file, profile or "default", clock=monotonic).current()
    done = _replayed(*asyncio.run(_kept(settings, user, snapshot)), other, settings.page_limit)
    click.echo(json.dumps(_document(done)) if as_json else "\n".join(_lines(done)))
    if not done.same:
        sys.exit(1)


async def _kept(settings: Settings, user: int, snapshot: str) -> tuple[Snapshot, SlateTrace]:
    async with open_redis_of(settings) as redis:
        return await kept(TraceStore(redis, ttl_s=settings.snapshot_ttl_s), user, snapshot)


def _replayed(
    snapshot: Snapshot, trace: SlateTrace, profile: Profile | None, page: int
) -> Replayed:
    again = replayed(trace, ranking)
    other = replayed(trace, ranking, profile) if profile else again
    difference = compared(again.rows, other.rows, page)
    return Replayed(snapshot, is_same(snapshot, again), profile, difference)


def _document(done: Replayed) -> dict[str, Any]:
    head, change = done.snapshot.head, done.difference
    return {
        "snapshot": head.id,
        "rows": len(done.snapshot),
        "same": done.same,
        "weights_version": head.weights,
        "compared_with": done.profile.version if done.profile else None,
        "distance": change.distance,
        "enters": [str(post) for post in change.enters],
        "leaves": [str(post) for post in change.leaves],
        "gone": [str(post) for post in change.gone],
        "moves": [
            {"post_id": str(post), "from": before, "to": after}
            for post, before, after in change.moves
        ],
    }


def _lines(done: Replayed) -> Iterator[str]:
    head, change = done.snapshot.head, done.difference
    what = "the same slate again" if done.same else "ANOTHER slate: the service has changed since"
    yield f"snapshot {head.id}, {len(done.snapshot)} rows under {head.weights}: {what}"
    if done.profile is None:
        return
    yield f"under {done.profile.version}:"
    yield f"  {len(change.moves)} rows move; {change.distance:.1%} of all pairs change their order"
    if change.gone:
        yield f"  {len(change.gone)} rows would not be there"
    yield f"  onto the first page: {', '.join(map(str, change.enters)) or 'nothing'}"
    yield f"  off the first page:  {', '.join(map(str, change.leaves)) or 'nothing'}"
    for post, before, after in change.moves[:TOLD]:
        yield f"  post {post} from place {before + 1} to {after + 1}"
    if len(change.moves) > TOLD:
        yield f"  and {len(change.moves) - TOLD} more: --json"
