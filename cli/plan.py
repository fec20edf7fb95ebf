"""`foryou plan`: what delivery costs by author, and which way would be cheaper."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import click
import psycopg

from cli.entry import settings_with
from fanout.costs import author_costs
from fanout.plan import decided_by, pull_is_cheap, pull_ms, push_ms, wants_pull
from feed.settings import Settings
from storage.connections import translated_errors
from storage.costs import AuthorCost

_COLUMNS = "{:>19} {:>10} {:>10} {:>9} {:>9} {:>10} {:>10}  {:9} {:7} {:>10}  {}"


@dataclass(frozen=True)
class Advice:
    """What is measured of an author, what each way costs a day, and what the cheaper one saves.

    `best` is the cheaper way within the bounds; `bound` says that it is not the cheaper one.
    """

    cost: AuthorCost
    push_ms: float
    pull_ms: float
    best: str
    bound: bool

    @property
    def now_ms(self) -> float:
        """What the present way costs; half-way between them counts as pulled."""
        return self.push_ms if self.cost.pulled is False else self.pull_ms

    @property
    def saves_ms(self) -> float:
        """What the best way saves a day; negative where a bound costs more."""
        return self.now_ms - (self.push_ms if self.best == "push" else self.pull_ms)


def advise(cost: AuthorCost, settings: Settings) -> Advice:
    """Say how an author would be delivered by cost, within the bounds."""
    settings = replace(settings, switch_policy="cost")
    is_cheap = pull_is_cheap(cost, settings)
    pulled = cost.pulled is not False
    wanted = wants_pull(cost.followers, pulled=pulled, is_cheap=is_cheap, settings=settings)
    bound = decided_by(cost.followers, settings) != "cost" and wanted is not is_cheap
    best = "pull" if wanted else "push"
    return Advice(cost, push_ms(cost, settings), pull_ms(cost, settings), best, bound)


@click.command()
@click.option(
    "--authors",
    is_flag=True,
    required=True,
    help="Which authors would be cheaper pushed, and which pulled.",
)
@click.option(
    "--limit",
    default=20,
    show_default=True,
    type=click.IntRange(1, 100_000),
    help="Authors to show, those first whose switch saves the most.",
)
@click.option("--json", "as_json", is_flag=True, help="One line of JSON instead of a table.")
def plan(authors: bool, limit: int, as_json: bool) -> None:
    """Say which authors to push and which to pull, and what it would save; changes nothing.

    From posts a day, active followers, and the opens of those in the log of served pages. A day
    of push costs posts x active followers x FORYOU_COST_INSERT_US, a day of pull their opens x
    FORYOU_COST_LOOKUP_US: milliseconds of processor time. FORYOU_SWITCH_POLICY=cost does what is
    said here, within the same bounds.

    \b
    Example (put your own address):
      FORYOU_POSTGRES_URL=postgresql://foryou@db/foryou foryou plan --authors --limit 10

    \b
    For what `foryou up` runs:
      ( set -a; . ./.foryou/environment; foryou plan --authors )
    """
    settings = settings_with("postgres_url")
    click.echo("counting posts, followers and opens", err=True)
    costs = asyncio.run(_measured(settings))
    told = [advise(cost, settings) for cost in costs]
    told.sort(key=lambda each: (-each.saves_ms, each.cost.author_id))
    if as_json:
        click.echo(json.dumps(_document(told, settings, limit)))
    else:
        _show(told, settings, limit)


async def _measured(settings: Settings) -> list[AuthorCost]:
    with translated_errors():
        async with await psycopg.AsyncConnection.connect(settings.postgres_url) as connection:
            return await author_costs(connection, settings, least_followers=1)


def _document(told: Sequence[Advice], settings: Settings, limit: int) -> dict[str, Any]:
    return {
        "days": settings.cost_window_days,
        "insert_us": settings.cost_insert_us,
        "lookup_us": settings.cost_lookup_us,
        "push_below_followers": settings.cost_push_below_followers,
        "pull_from_followers": settings.cost_pull_from_followers,
        "opens_per_follower_assumed": _assumed(told, settings),
        "authors": len(told),
        "now_ms": sum(each.now_ms for each in told),
        "saves_ms": sum(each.saves_ms for each in told),
        "n_to_push": len(_to_switch(told, "push")),
        "n_to_pull": len(_to_switch(told, "pull")),
        "shown": [_row(each) for each in told[:limit]],
    }


def _row(each: Advice) -> dict[str, Any]:
    facts = {**asdict(each.cost), "author_id": str(each.cost.author_id)}
    costs = {"push_ms": each.push_ms, "pull_ms": each.pull_ms, "saves_ms": each.saves_ms}
    return {**facts, **costs, "best": each.best, "bound": each.bound}


def _assumed(told: Sequence[Advice], settings: Settings) -> float | None:
    """Return the opens a day that every active follower is said to make; None: they are counted."""
    counted = all(each.cost.opens_per_day is not None for each in told)
    return None if counted else settings.cost_opens_per_day


def _to_switch(told: Sequence[Advice], way: str) -> list[Advice]:
    return [each for each in told if each.best == way and each.cost.pulled is (way == "push")]


def _show(told: Sequence[Advice], settings: Settings, limit: int) -> None:
    click.echo(
        _COLUMNS.format(
            "author", "followers", "active", "posts/d", "opens/d",
            "push ms/d", "pull ms/d", "now", "best", "saves ms/d", "",
        )
    )  # fmt: skip
    for each in told[:limit]:
        click.echo(_line(each).rstrip())
    _show_sums(told, settings)


def _line(each: Advice) -> str:
    cost = each.cost
    now = {True: "pull", False: "push", None: "switching"}[cost.pulled]
    opens = "assumed" if cost.opens_per_day is None else f"{cost.opens_per_day:,.1f}"
    return _COLUMNS.format(
        cost.author_id,
        f"{cost.followers:,}",
        f"{cost.active_followers:,}",
        f"{cost.posts_per_day:,.2f}",
        opens,
        f"{each.push_ms:,.1f}",
        f"{each.pull_ms:,.1f}",
        now,
        each.best,
        f"{each.saves_ms:,.1f}",
        "held by a bound" if each.bound else "",
    )


def _show_sums(told: Sequence[Advice], settings: Settings) -> None:
    click.echo(
        f"{len(told):,} authors with followers cost {sum(e.now_ms for e in told):,.1f} ms a day; "
        f"by cost {len(_to_switch(told, 'pull')):,} more would be pulled and "
        f"{len(_to_switch(told, 'push')):,} more pushed, which saves "
        f"{sum(e.saves_ms for e in told):,.1f} ms"
    )
    click.echo(
        f"bounds: pushed below {settings.cost_push_below_followers:,} followers, pulled from "
        f"{settings.cost_pull_from_followers:,}; an insert takes {settings.cost_insert_us:g} us, "
        f"a look-up {settings.cost_lookup_us:g} us; counted over {settings.cost_window_days} days"
    )
    if (opens := _assumed(told, settings)) is not None:
        click.echo(f"no served page is logged: {opens:g} opens a day are assumed of each follower")
