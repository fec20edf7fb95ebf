"""The `foryou` command: names every command, loads the one that is called, and words its errors."""

import importlib
import sys
from dataclasses import dataclass
from typing import Any

import click

from feed.errors import ForYouError


@dataclass(frozen=True)
class Lazy:
    """Where a command lives and what the list of commands says of it."""

    module: str
    attribute: str
    summary: str


COMMANDS = {
    "up": Lazy("cli.up", "up", "Run everything on this machine, with sample data."),
    "serve": Lazy("cli.serve", "serve", "Run the HTTP service."),
    "worker": Lazy("cli.serve", "worker", "Run a fan-out worker."),
    "relay": Lazy("cli.serve", "relay", "Run the relay from Postgres to the queue."),
    "migrate": Lazy("cli.migrate", "migrate", "Bring the database to this version."),
    "import": Lazy("cli.import_command", "import_command", "Load users, posts, follows, events."),
    "plan": Lazy("cli.plan", "plan", "Say which authors to push and which to pull."),
    "check": Lazy("cli.check", "check", "Compare cached feeds with the truth, and repair them."),
    "rebuild": Lazy("cli.rebuild", "rebuild", "Rebuild cached feeds from Postgres."),
    "outbox": Lazy("cli.outbox", "outbox", "List, retry or drop what delivery owes."),
    "explain": Lazy("cli.explain", "explain", "Say why a post stands where it does in a feed."),
    "replay": Lazy("cli.replay", "replay", "Rank a feed again, or under other weights."),
    "weights": Lazy("cli.weights", "weights", "Look over a file of ranking profiles."),
    "train": Lazy("cli.train", "train", "Make data sets, fit a heavy ranker, judge it."),
    "models": Lazy("cli.models", "models", "Promote and roll back heavy rankers."),
    "token": Lazy("cli.token", "token", "Make a JWT to try the service with."),
    "doctor": Lazy("cli.doctor", "doctor", "Check versions and settings of the servers."),
    "bench": Lazy("cli.bench", "bench", "Run one benchmark."),
}


class Commands(click.Group):
    """A group that imports a command when it is called, so that `--help` needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of a first day with them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command."""
        if (lazy := COMMANDS.get(cmd_name)) is None:
            return None
        command: click.Command = getattr(importlib.import_module(lazy.module), lazy.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.summary) for name, lazy in COMMANDS.items()])


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="foryou", prog_name="foryou")
def foryou() -> None:
    """Write a post, fan it out, open a ranked feed, scroll it.

    \b
    Example:
      foryou up                  everything on this machine
      foryou COMMAND --help      what a command does, with an example

    Every setting is a FORYOU_* environment variable: docs/settings.md.
    """


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; an error we raise on purpose becomes one sentence on stderr."""
    try:
        return foryou.main(arguments, prog_name="foryou")
    except ForYouError as error:
        click.echo(f"foryou: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
