"""`foryou bench`: runs one benchmark of `benchmarks/`, each of which asks one question."""

import asyncio
import importlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click

import benchmarks
from benchmarks.options import Options
from benchmarks.result import Result, line, table

NAMES = sorted(
    path.stem.removeprefix("bench_") for path in Path(benchmarks.__path__[0]).glob("bench_*.py")
)
"""A file `benchmarks/bench_NAME.py` is a benchmark: no list to keep beside it."""


@click.command()
@click.argument("name", type=click.Choice(NAMES), metavar="NAME")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON instead of a table.")
@click.option("--postgres", metavar="URL", help="Use this server, in a database of its own.")
@click.option("--redis", metavar="URL", help="Use this server; its database must be empty.")
@click.option(
    "--seconds",
    default=2.0,
    show_default=True,
    type=click.FloatRange(0.1, 60),
    help="Length of one measured round.",
)
@click.option(
    "--rounds",
    default=5,
    show_default=True,
    type=click.IntRange(1, 100),
    help="Rounds; each measures ours, then what it is compared with.",
)
@click.option(
    "--size",
    type=click.IntRange(1_000, 100_000_000),
    help="Follows that `import` imports, followers of `large_post`, deliveries of `worker_memory`, "
    "posts of the larger world of `flat`, rows of `fit` and `export`.",
)
def bench(
    *,
    name: str,
    as_json: bool,
    postgres: str | None,
    redis: str | None,
    seconds: float,
    rounds: int,
    size: int | None,
) -> None:
    """Run one benchmark, with what it is compared with in the same run (docs/benchmarks.md).

    It starts its own Postgres and Valkey in a temporary folder and stops them afterwards, unless
    it is given servers. NAME is open, page, chronological, flat, fanout, lookup, small_posts,
    large_post, memory, worker_memory, fit, export or import.

    \b
    Example:
      foryou bench open
      foryou bench open --json > benchmarks/results/open.json
      foryou bench import --size 15000000
    """
    options = Options(
        postgres_url=postgres,
        redis_url=redis,
        seconds=seconds,
        rounds=rounds,
        size=size,
    )
    module = importlib.import_module(f"benchmarks.bench_{name}")
    run: Callable[[Options], Coroutine[Any, Any, Result]] = module.run
    result = asyncio.run(run(options))
    if as_json:
        click.echo(line(result))
    else:
        click.echo(table(result, question=(module.__doc__ or name).strip()))
