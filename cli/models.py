"""`foryou models`: which models there are, which one ranks, and how that changes."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from api.admin_models import change_document, model_document
from cli.entry import settings_with
from cli.stores import open_postgres
from feed.settings import Settings
from rankers.artifact import read
from storage.connections import Connection
from storage.models import ModelRow, model_row, model_rows
from training import registry
from training.dataset import Dataset, learnable
from training.dataset import read as read_dataset
from training.registry import By, Change

T = TypeVar("T")

ACTOR = "command line"
WORDS = {
    "models.registered": "registered {version}",
    "models.judged": "{version} was registered already; it was judged anew",
    "models.promoted": "{version} ranks now, before it {before}",
    "models.shadowed": "{version} is the shadow now",
    "models.retired": "{version} is retired",
    "models.rolled_back": "rolled back {before}: {version} ranks now",
}

Folder = click.Path(path_type=Path, exists=True, file_okay=False)
version_argument = click.argument("version")
why_option = click.option("--why", help="The reason, for the audit.")
json_option = click.option("--json", "as_json", is_flag=True, help="One line of JSON.")


@click.group()
def models() -> None:
    """Register, promote and roll back heavy rankers; live on every node within seconds.

    \b
    Example:
      foryou models register model --data data
      foryou models promote 3f2a9c1b7d4e
      foryou models rollback --why "fewer likes since noon"

    \b
    For what `foryou up` runs:
      ( set -a; . ./.foryou/environment; foryou models list )
    """


@models.command("list")
@json_option
def list_command(*, as_json: bool) -> None:
    """List the registered models, the newest first.

    \b
    Example:
      foryou models list
    """
    rows = _done(lambda connection, _: model_rows(connection))
    if as_json:
        click.echo(json.dumps([model_document(row) for row in rows]))
    else:
        click.echo("\n".join(map(_line, rows)) or "No model: the light ranker serves alone.")


@models.command("show")
@version_argument
@json_option
def show_command(*, version: str, as_json: bool) -> None:
    """Show what is known of one model.

    \b
    Example:
      foryou models show 3f2a9c1b7d4e
    """
    row = _done(lambda connection, _: model_row(connection, version))
    click.echo(json.dumps(model_document(row)) if as_json else "\n".join(_lines(row)))


@models.command("register")
@click.argument("folder", type=Folder)
@click.option("--data", type=Folder, help="Compare with the champion on this data set.")
@why_option
@json_option
def register_command(*, folder: Path, data: Path | None, why: str | None, as_json: bool) -> None:
    """Put the model in FOLDER, which `foryou train fit` wrote, where every node can load it.

    \b
    Example:
      foryou models register model
      foryou models register model --data data
    """
    model = read(folder)
    dataset: Dataset | None = learnable(read_dataset(data)) if data else None
    _change(
        lambda connection, _: registry.register(connection, model, By(ACTOR, why), dataset),
        as_json=as_json,
    )


@models.command("promote")
@version_argument
@click.option("--force", is_flag=True, help="Overrule the gate; then --why is needed.")
@why_option
@json_option
def promote_command(*, version: str, force: bool, why: str | None, as_json: bool) -> None:
    """Let a model rank, if the gate lets it pass; it prints a reason for each refusal.

    \b
    Example:
      foryou models promote 3f2a9c1b7d4e
      foryou models promote 3f2a9c1b7d4e --force --why "a try for an hour"
    """
    _change(
        lambda connection, settings: registry.promote(
            connection,
            version,
            By(ACTOR, why),
            force=force,
            deadline_s=settings.heavy_deadline_ms / 1000,
        ),
        as_json=as_json,
    )


@models.command("shadow")
@version_argument
@why_option
@json_option
def shadow_command(*, version: str, why: str | None, as_json: bool) -> None:
    """Let a model score beside the one that ranks, off the path of answers.

    \b
    Example:
      foryou models shadow 3f2a9c1b7d4e
    """
    _change(
        lambda connection, _: registry.shadow(connection, version, By(ACTOR, why)),
        as_json=as_json,
    )


@models.command("retire")
@version_argument
@why_option
@json_option
def retire_command(*, version: str, why: str | None, as_json: bool) -> None:
    """Take a model out of service; without a champion the light ranker serves alone.

    \b
    Example:
      foryou models retire 3f2a9c1b7d4e
    """
    _change(
        lambda connection, _: registry.retire(connection, version, By(ACTOR, why)),
        as_json=as_json,
    )


@models.command("rollback")
@why_option
@json_option
def rollback_command(*, why: str | None, as_json: bool) -> None:
    """Undo the last change of who ranks.

    \b
    Example:
      foryou models rollback --why "fewer likes since noon"
    """
    _change(lambda connection, _: registry.roll_back(connection, By(ACTOR, why)), as_json=as_json)


def _done(work: Callable[[Connection, Settings], Awaitable[T]]) -> T:
    settings = settings_with("postgres_url")

    async def done() -> T:
        async with open_postgres(settings) as postgres, postgres.transaction() as connection:
            return await work(connection, settings)

    return asyncio.run(done())


def _change(work: Callable[[Connection, Settings], Awaitable[Change]], *, as_json: bool) -> None:
    try:
        change = _done(work)
    except registry.Refused as refused:
        if not as_json:
            raise
        click.echo(json.dumps({"action": "refused", "reasons": refused.reasons}))
        raise SystemExit(1) from None
    if as_json:
        click.echo(json.dumps(change_document(change)))
        return
    names = {"version": change.version or "the light ranker alone"}
    names["before"] = change.before or "the light ranker alone"
    click.echo(WORDS[change.action].format(**names))
    for reason in change.overruled:
        click.echo(f"  overruled: {reason}")


def _line(row: ModelRow) -> str:
    lift: Any = (row.manifest["metrics"].get("lift") or {}).get("affinity_decay")
    gain = f"NDCG@10 {lift['mean']:+.3f} over affinity_decay" if lift else "not judged"
    return f"{row.version}  {row.state:<10}  {row.manifest['created_at']}  {gain}"


def _lines(row: ModelRow) -> Iterator[str]:
    document = model_document(row)
    for name in ("version", "state", "kind", "created_at", "registered_at", "code_version"):
        yield f"{name.replace('_', ' '):<14} {document[name]}"
    yield f"{'features':<14} {len(document['features'])}, schema {document['schema_hash']}"
    for name, n in document["counts"].items():
        yield f"{name.replace('_', ' '):<14} {n:,}"
    for name, lift in (document["lift"] or {}).items():
        told = f"{lift['mean']:+.3f} [{lift['low']:+.3f}, {lift['high']:+.3f}]"
        yield f"{'beats':<14} {name} by {told}"
    if against := document["against"]:
        lift = against["lift"]
        told = f"{lift['mean']:+.3f} [{lift['low']:+.3f}, {lift['high']:+.3f}]"
        yield f"{'beats':<14} champion {against['version']} by {told}"
