"""`foryou doctor`: checks versions and settings of the servers, and says what to change."""

import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from typing import Literal
from urllib.parse import urlsplit

import click

from cli.entry import settings_with
from feed.errors import Misconfigured, Unavailable
from feed.settings import Settings
from storage.feeds import most_entries
from storage.servers import (
    POSTGRES_OLDEST,
    REDIS_OLDEST,
    PostgresFacts,
    RedisFacts,
    postgres_facts,
    redis_facts,
)

_CONNECTIONS = 60
"""Api and relay with up to ten, a worker for each lane with up to twenty."""


@dataclass(frozen=True)
class Finding:
    """One thing looked at; `advice` says what to do unless it is ok."""

    what: str
    verdict: Literal["ok", "warn", "bad"]
    found: str
    advice: str = ""


def judge_postgres(facts: PostgresFacts) -> list[Finding]:
    """Judge a Postgres server."""
    return [
        _finding(
            "postgres version",
            "ok" if facts.major >= POSTGRES_OLDEST else "bad",
            str(facts.major),
            f"use Postgres {POSTGRES_OLDEST} or newer",
        ),
        _finding(
            "postgres is the primary",
            "bad" if facts.read_only else "ok",
            "read only" if facts.read_only else "takes writes",
            "point FORYOU_POSTGRES_URL at the primary: safety is decided on it",
        ),
        _finding(
            "postgres max_connections",
            "ok" if facts.max_connections >= _CONNECTIONS else "warn",
            str(facts.max_connections),
            f"allow {_CONNECTIONS} or more: a worker keeps up to twenty",
        ),
    ]


def packed_entries(feed_cap: int) -> int:
    """Return up to how many entries a server must keep a sorted set packed.

    A merge adds up to `feed_cap` before it trims, and a set that was once unpacked stays so.
    """
    return most_entries(feed_cap) + 1 + feed_cap


def judge_redis(facts: RedisFacts, *, feed_cap: int) -> list[Finding]:
    """Judge the server of feeds and snapshots."""
    packed = facts.config.get("zset-max-listpack-entries")
    kept = [facts.config.get("save") or "", facts.config.get("appendonly") or ""]
    persistent = kept[0] != "" or kept[1] not in ("", "no")
    return [
        _redis_version("redis", facts),
        _finding(
            "redis zset-max-listpack-entries",
            _at_least(packed, packed_entries(feed_cap)),
            packed or "unknown",
            f"set it to {packed_entries(feed_cap)} or more: a feed then takes 20 bytes an entry, "
            "not 84",
        ),
        _finding(
            "redis persistence",
            "warn" if persistent else "ok",
            "on" if persistent else "off",
            "turn save and appendonly off: feeds from an old dump look complete and are not",
        ),
    ]


def judge_queue(facts: RedisFacts, *, shared: bool) -> list[Finding]:
    """Judge the server of the queue; `shared` when it is the one of the feeds."""
    policy = facts.config.get("maxmemory-policy")
    return [
        _redis_version("queue", facts),
        _finding(
            "queue maxmemory-policy",
            "ok" if policy in (None, "noeviction") else "bad",
            policy or "unknown",
            "set it to noeviction: an evicted job waits until its lease is over",
        ),
        _finding(
            "queue on a server of its own",
            "warn" if shared else "ok",
            "shared with the feeds" if shared else "yes",
            "set FORYOU_QUEUE_URL to another server before feeds fill this one",
        ),
    ]


async def examine(settings: Settings) -> list[Finding]:
    """Look at every server in turn; one that cannot be reached is a finding, not the end."""
    findings: list[Finding] = []
    try:
        findings += judge_postgres(await postgres_facts(settings.postgres_url))
    except Unavailable as error:
        findings.append(_unreachable("postgres", settings.postgres_url, error))
    try:
        facts = await redis_facts(settings.redis_url)
        findings += judge_redis(facts, feed_cap=settings.feed_cap)
        queue = await redis_facts(settings.queue)
        findings += judge_queue(queue, shared=queue.run_id == facts.run_id)
    except Unavailable as error:
        findings.append(_unreachable("redis", settings.redis_url, error))
    return findings


async def refuse_old_servers(settings: Settings) -> None:
    """Let `up` go on only with servers that can be reached and are new enough.

    Raises:
        Misconfigured: The first thing that is in the way.
    """
    for finding in await examine(settings):
        if finding.verdict == "bad":
            raise Misconfigured(f"{finding.what}: {finding.found}; {finding.advice}.")


def place(url: str) -> str:
    """Name the server of a URL without its password."""
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] or url.split("?")[0]


def _finding(what: str, verdict: Literal["ok", "warn", "bad"], found: str, advice: str) -> Finding:
    return Finding(what, verdict, found, "" if verdict == "ok" else advice)


def _redis_version(what: str, facts: RedisFacts) -> Finding:
    verdict: Literal["ok", "bad"] = "ok" if facts.major >= REDIS_OLDEST else "bad"
    advice = f"use Redis or Valkey {REDIS_OLDEST} or newer"
    return _finding(f"{what} version", verdict, f"{facts.name} {facts.version}", advice)


def _at_least(value: str | None, least: int) -> Literal["ok", "warn"]:
    return "ok" if value is not None and int(value) >= least else "warn"


def _unreachable(what: str, url: str, error: Unavailable) -> Finding:
    advice = f"check that it runs and that FORYOU_{what.upper()}_URL (--{what}) is right"
    return Finding(f"{what} at {place(url)}", "bad", str(error), advice)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="The findings as one line of JSON.")
def doctor(as_json: bool) -> None:
    """Check versions and settings of Postgres and Redis; exits 1 when something must change.

    \b
    Example (put your own addresses):
      FORYOU_POSTGRES_URL=postgresql://foryou@db/foryou FORYOU_REDIS_URL=redis://cache:6379/0 \\
      foryou doctor

    \b
    For what `foryou up` runs:
      ( set -a; . ./.foryou/environment; foryou doctor )
    """
    settings = settings_with("postgres_url", "redis_url")
    findings = asyncio.run(examine(settings))
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings]))
    else:
        for each in findings:
            advice = f"   -> {each.advice}" if each.advice else ""
            click.echo(f"{each.verdict:5} {each.what:35} {each.found}{advice}")
    if any(finding.verdict == "bad" for finding in findings):
        sys.exit(1)
