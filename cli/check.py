"""`foryou check`: compares cached feeds with the truth, says what differs, and repairs it."""

import asyncio
import json
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from cli.entry import settings_with
from cli.stores import Stores, open_stores
from feed.order import MAX_ID
from feed.settings import Settings
from storage.check import KINDS, Fault, FeedCheck, Kind, Look, sample_viewers
from storage.feeds import Feeds
from storage.renewal import Renewal

AT_ONCE = 8
EXAMPLES = 10
WORST: tuple[Kind, ...] = ("missing", "out_of_order", "late", "extra")
MEANING = {
    "missing": "a reader does not get these",
    "late": "their delivery is under way",
    "extra": "do no harm: reads leave them out",
    "out_of_order": "a reader gets these in the wrong place",
}


@dataclass
class Report:
    """What a check found, and what is left after repairs (without any: the same)."""

    n_viewers: int = 0
    n_feeds: int = 0
    n_entries: int = 0
    faults: list[Fault] = field(default_factory=list)
    n_repaired: int = 0
    remaining: list[Fault] = field(default_factory=list)

    def add(self, look: Look) -> None:
        """Count one viewer in."""
        self.n_viewers += 1
        self.n_feeds += any(
            each is not None for name, each in look.lists.items() if name.kind == "feed"
        )
        self.n_entries += sum(len(each.ids) for each in look.lists.values() if each is not None)
        self.faults += sorted(look.faults)

    @property
    def harms(self) -> bool:
        """Whether something that harms a reader remains."""
        return any(each.harms for each in self.remaining)

    @property
    def examples(self) -> list[Fault]:
        """Return a few faults, those that harm first."""
        return sorted(self.faults, key=lambda each: (WORST.index(each.kind), each))[:EXAMPLES]


@click.command()
@click.option(
    "--sample",
    default=1000,
    show_default=True,
    type=click.IntRange(1, 100_000_000),
    help="Viewers to check, at random among those with a feed; a number above them all takes all.",
)
@click.option("--user", type=click.IntRange(1, MAX_ID), help="Check this viewer only.")
@click.option("--repair", is_flag=True, help="Drop and rebuild the lists that differ.")
@click.option("--json", "as_json", is_flag=True, help="The report as one line of JSON.")
def check(*, sample: int, user: int | None, repair: bool, as_json: bool) -> None:
    """Compare cached feeds with the truth; exits 1 when posts are missing or out of order.

    \b
    missing       in no list, though above its floor: a reader does not get it
    late          missing, and its delivery is under way
    extra         in a list where it does not belong; reads leave it out
    out of order  its time in the list is not its own

    \b
    Example:
      foryou check                         a sample of a thousand viewers
      foryou check --user 75 --repair      one viewer, and put it right
      foryou check --sample 100000000 --json

    \b
    For what `foryou up` runs:
      ( set -a; . ./.foryou/environment; foryou check )
    """
    settings = settings_with("postgres_url", "redis_url")
    started = time.perf_counter()
    report = asyncio.run(_check(settings, sample=sample, user=user, repair=repair))
    spent_s = time.perf_counter() - started
    if as_json:
        click.echo(json.dumps(_document(report, spent_s)))
    else:
        click.echo(_sentences(report, spent_s, repair=repair))
    if report.harms:
        sys.exit(1)


async def _check(settings: Settings, *, sample: int, user: int | None, repair: bool) -> Report:
    async with open_stores(settings) as stores:
        viewers = [user] if user else await _sample(stores, settings, sample)
        checker = FeedCheck(stores.postgres, Feeds(stores.redis, cap=settings.feed_cap))
        report = Report()
        await _look(checker, viewers, "checking", report.add)
        report.remaining = report.faults
        if repair and (wrong := [each for each in report.faults if each.kind != "late"]):
            renewal = Renewal(
                stores.postgres, stores.redis, settings, token=lambda: secrets.token_urlsafe(12)
            )
            report.n_repaired = await renewal.lists({each.list for each in wrong})
            again = sorted({each.viewer_id for each in report.faults})
            after = Report()
            await _look(checker, again, "checking again", after.add)
            report.remaining = after.faults
        return report


async def _sample(stores: Stores, settings: Settings, n: int) -> list[int]:
    async with stores.postgres.connection() as connection:
        return await sample_viewers(
            connection, n, within_s=settings.feed_ttl_s, seed=secrets.randbelow(2**31)
        )


async def _look(
    checker: FeedCheck, viewers: Sequence[int], label: str, add: Callable[[Look], None]
) -> None:
    """Look at viewers, a few at a time, and count in what was found; the lists are not kept."""
    with click.progressbar(length=len(viewers), label=label, file=sys.stderr) as bar:
        for first in range(0, len(viewers), AT_ONCE):
            batch = viewers[first : first + AT_ONCE]
            for look in await asyncio.gather(*map(checker.check, batch)):
                add(look)
            bar.update(len(batch))


def _counts(faults: Sequence[Fault]) -> dict[Kind, int]:
    counts = Counter(each.kind for each in faults)
    return {kind: counts[kind] for kind in KINDS}


def _document(report: Report, spent_s: float) -> dict[str, Any]:
    return {
        "viewers": report.n_viewers,
        "feeds": report.n_feeds,
        "entries": report.n_entries,
        **{str(kind): n for kind, n in _counts(report.faults).items()},
        "repaired": report.n_repaired,
        "remaining": _counts(report.remaining),
        "examples": [
            {
                "kind": each.kind,
                "viewer_id": str(each.viewer_id),
                "post_id": str(each.post_id),
                "list": each.list.kind,
                "owner_id": str(each.list.owner_id),
            }
            for each in report.examples
        ],
        "seconds": round(spent_s, 3),
    }


def _sentences(report: Report, spent_s: float, *, repair: bool) -> str:
    lines = [
        f"checked {report.n_viewers:,} viewers, {report.n_feeds:,} of them with a cached feed, "
        f"{report.n_entries:,} entries, in {spent_s:.1f} s"
    ]
    for kind, n in _counts(report.faults).items():
        lines.append(f"{kind.replace('_', ' '):13}{n:>8,}   {MEANING[kind] if n else ''}".rstrip())
    for each in report.examples:
        owner = "" if each.list.kind == "feed" else f" of {each.list.owner_id}"
        lines.append(
            f"  {each.kind.replace('_', ' '):13} post {each.post_id}, viewer {each.viewer_id}, "
            f"{each.list.kind}{owner}"
        )
    if report.n_repaired:
        left = [
            f"{n:,} {kind.replace('_', ' ')}" for kind, n in _counts(report.remaining).items() if n
        ]
        lines.append(f"rebuilt {report.n_repaired:,} lists; left: {', '.join(left) or 'nothing'}")
    elif report.harms and not repair:
        lines.append("run it again with --repair to rebuild these lists")
    return "\n".join(lines)
