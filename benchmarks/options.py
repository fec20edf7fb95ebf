"""What a benchmark is told by the command line."""

from dataclasses import dataclass

import click


@dataclass(frozen=True, kw_only=True)
class Options:
    """How long and how often to measure, on which servers; None: embedded ones.

    `size` is how much is imported or delivered; None: as much as the benchmark says.
    """

    postgres_url: str | None = None
    redis_url: str | None = None
    seconds: float = 2.0
    rounds: int = 5
    size: int | None = None
    seed: int = 20_260_101


def say(text: str) -> None:
    """Say on stderr what a benchmark is at, so that stdout stays the result's."""
    click.echo(f"  {text}", err=True)
