"""`foryou up`: everything on this machine, from an empty folder to a served feed."""

import asyncio
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import psycopg

from cli.address import Address, await_free, is_ready, serves_feed
from cli.data_folder import DataFolder, open_data_folder
from cli.doctor import refuse_old_servers
from cli.embedded import (
    await_answer,
    free_port,
    postgres_answers,
    postgres_program,
    system_user,
    valkey_answers,
    valkey_program,
)
from cli.entry import refuse_open_door, settings_with
from cli.fitness import refuse_unfit
from cli.migrate import migrate_database
from cli.parts import SERVERS, as_shell, environ_of, part_program, run_import, variable
from cli.processes import Program
from cli.signals import Stopped, stopped_by_signals
from cli.supervisor import Supervisor
from cli.token import make_token
from feed.errors import Misconfigured
from feed.settings import Settings
from storage.connections import translated_errors
from storage.servers import people_to_be

_SAMPLES = Path(__file__).resolve().parents[1] / "samples" / "dartpost"
_PARTS = ("relay", "worker-fast", "worker-slow", "api")
_SERVED_WITHIN_S = 90.0
_TICK_S = 0.1
_LOOK_AT_LOGS_S = 60.0

Person = tuple[int, str]


@click.command()
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".foryou"),
    show_default=True,
    help="Folder that keeps everything.",
)
@click.option("--postgres", metavar="URL", help="Use this Postgres (14 or newer).")
@click.option("--redis", metavar="URL", help="Use this Redis or Valkey (7 or newer).")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free."
)
@click.option("--no-sample", is_flag=True, help="Start empty, and stay so for this folder.")
@click.option(
    "--json", "as_json", is_flag=True, help="One line of JSON on stdout once all answers."
)
def up(
    *,
    data: Path,
    postgres: str | None,
    redis: str | None,
    host: str,
    port: int,
    no_sample: bool,
    as_json: bool,
) -> None:
    """Run everything on this machine: Postgres, Valkey, relay, workers, api, with sample data.

    Servers of your own come from --postgres and --redis only, never from the environment.

    A part that dies is started again. Ctrl-C stops all of it and keeps the data; the next start
    goes on with the same data.

    \b
    Example:
      foryou up
      foryou up --data /tmp/try --port 8001 --no-sample
      foryou up --postgres postgresql://me@db/foryou --redis redis://cache:6379/0
    """
    auth = None if os.environ.get("FORYOU_AUTH") else "dev"
    _say_what_is_ignored()
    settings = settings_with(
        auth=auth, postgres_url=postgres or "", redis_url=redis or "", queue_url=""
    )
    refuse_open_door(settings, host)
    address = Address(host, port or free_port())
    try:
        with stopped_by_signals(), open_data_folder(data) as folder:
            await_free(address)
            if no_sample:
                folder.write("samples", "unwanted")
            with Supervisor(folder.logs, say=_say) as supervisor:
                run(settings, folder, supervisor, address, as_json=as_json)
    except Stopped:
        _say(f"stopped; the data stays in {data}")
    except OSError as error:
        raise Misconfigured(
            f"The system refuses: {error}. Give the right to it, make room, or choose another "
            "folder with --data DIR."
        ) from error


def run(
    settings: Settings,
    folder: DataFolder,
    supervisor: Supervisor,
    address: Address,
    *,
    as_json: bool,
) -> None:
    """Bring everything up, say so, and keep it up until a signal comes."""
    settings = _with_secrets(settings, folder)
    refuse_unfit(settings)
    settings = start_servers(settings, folder, supervisor)
    asyncio.run(refuse_old_servers(settings))
    asyncio.run(migrate_database(settings.postgres_url))
    environ = environ_of(settings)
    load_samples(settings, folder, environ)
    people = asyncio.run(_people(settings.postgres_url))
    for name in _PARTS:
        supervisor.add(part_program(name, address, environ))
    _await_feed(settings, supervisor, address, people)
    facts = _facts(settings, supervisor, address, people)
    folder.write("environment", as_shell(environ))
    folder.write("running.json", json.dumps(facts))
    click.echo(json.dumps(facts) if as_json else _welcome(settings, folder, address, people))
    _watch(supervisor, folder, facts)


# ---------------------------------------------------------------------- servers


def start_servers(settings: Settings, folder: DataFolder, supervisor: Supervisor) -> Settings:
    """Start the embedded servers for which no URL was given; return settings with all URLs."""
    urls: dict[str, Any] = {}
    if not settings.postgres_url:
        _say_who_runs_postgres(folder.path)
        program, urls["postgres_url"] = postgres_program(folder.path)
        _start_server(supervisor, program, lambda: postgres_answers(urls["postgres_url"]))
    if not settings.redis_url:
        program, urls["redis_url"] = valkey_program(folder.path)
        _start_server(supervisor, program, lambda: valkey_answers(urls["redis_url"]))
        if not settings.queue_url:
            urls["queue_url"] = urls["redis_url"].removesuffix("0") + "1"
    return replace(settings, **urls)


def _start_server(supervisor: Supervisor, program: Program, answers: Callable[[], bool]) -> None:
    part = supervisor.add(program)
    await_answer(answers, part.process, part.log)


def _with_secrets(settings: Settings, folder: DataFolder) -> Settings:
    keys = settings.cursor_keys or folder.secret("cursor")
    return replace(settings, cursor_keys=keys)


# ---------------------------------------------------------------------- data


def load_samples(settings: Settings, folder: DataFolder, environ: Mapping[str, str]) -> None:
    """Load the sample data into a database without users; go on where that was interrupted.

    Raises:
        Misconfigured: The import refuses.
    """
    state = folder.read("samples")
    if state == "unwanted":
        return
    if state != "loading" and asyncio.run(_people(settings.postgres_url)):
        return
    folder.write("samples", "loading")
    if not run_import(_SAMPLES, environ, report=folder.logs / "import-refused.ndjson"):
        raise Misconfigured(
            "The sample data could not be loaded (the reason is above): start again to go on from "
            "there, or with another --data DIR to begin anew."
        )
    folder.write("samples", "loaded")


async def _people(url: str) -> list[Person]:
    with translated_errors():
        async with await psycopg.AsyncConnection.connect(url) as connection:
            return await people_to_be(connection, limit=3)


# ---------------------------------------------------------------------- the service


def _await_feed(
    settings: Settings, supervisor: Supervisor, address: Address, people: list[Person]
) -> None:
    """Wait until the service is ready and a ranked feed is served.

    Raises:
        Misconfigured: It does not happen in time; the text names the log to read.
    """
    headers = _identity(settings, people[0][0]) if people else None
    until = time.monotonic() + _SERVED_WITHIN_S
    while not (is_ready(address) and (headers is None or serves_feed(address, headers))):
        supervisor.tick()
        if time.monotonic() > until:
            raise Misconfigured(
                f"The service at {address.url} does not serve a feed: see the logs in "
                f"{supervisor.logs}, api.log first."
            )
        time.sleep(_TICK_S)


def _identity(settings: Settings, user: int) -> dict[str, str] | None:
    """Say who is asking, as the settings want it; None where only others can say it."""
    if settings.auth != "jwt":
        return {"X-User-Id": str(user)}
    if settings.jwt_algorithm != "HS256" or not settings.jwt_key:
        return None
    signed = make_token(
        settings.jwt_key,
        algorithm="HS256",
        user=user,
        scope="",
        expires_at=int(time.time() + _SERVED_WITHIN_S),
    )
    return {"Authorization": f"Bearer {signed}"}


def _watch(supervisor: Supervisor, folder: DataFolder, facts: dict[str, Any]) -> None:
    """Keep the parts running, `running.json` true and the logs short, for ever."""
    looked_at = time.monotonic()
    while True:
        supervisor.tick()
        if facts["pids"] != (pids := supervisor.pids()):
            facts = {**facts, "pids": pids}
            folder.write("running.json", json.dumps(facts))
        if time.monotonic() - looked_at > _LOOK_AT_LOGS_S:
            folder.shorten_logs()
            looked_at = time.monotonic()
        time.sleep(_TICK_S)


# ---------------------------------------------------------------------- what is said


def _say(text: str) -> None:
    click.echo(f"foryou: {text}", err=True)


def _facts(
    settings: Settings, supervisor: Supervisor, address: Address, people: list[Person]
) -> dict[str, Any]:
    return {
        "address": address.url,
        "postgres_url": settings.postgres_url,
        "redis_url": settings.redis_url,
        "queue_url": settings.queue,
        "users": [str(user) for user, _ in people],
        "pids": supervisor.pids(),
    }


def _welcome(settings: Settings, folder: DataFolder, address: Address, people: list[Person]) -> str:
    lines = [f"For You is served at {address.url}   (Ctrl-C stops it, the data stays)"]
    user = people[0][0] if people else 1
    header = f"X-User-Id: {user}"
    if settings.auth == "jwt":
        header = f"Authorization: Bearer $({_token_command(settings, folder, user)})"
    if people:
        be = ", ".join(f"{user} ({name})" for user, name in people)
        lines.append(f"Be one of    {be}")
    else:
        lines.append(
            f'Make a user  curl -X PUT -H "{header}" -H "Content-Type: application/json" '
            f"""-d '{{"name": "Ada"}}' "{address.url}/api/v1/users/1\""""
        )
    lines.append(f'Open a feed  curl -s -H "{header}" "{address.url}/api/v1/feed?limit=3"')
    return "\n".join(lines)


def _token_command(settings: Settings, folder: DataFolder, user: int) -> str:
    """Write how any shell makes a token, whatever its PATH and its environment."""
    program = Path(sys.executable).with_name("foryou")
    name = shlex.quote(str(program)) if program.exists() else "foryou"
    key = "" if settings.jwt_algorithm == "HS256" else " --private-key FILE"
    return f"set -a; . {shlex.quote(str(folder.path / 'environment'))}; {name} token {user}{key}"


def _say_what_is_ignored() -> None:
    """Name servers in the environment: often those of another folder whose file was sourced."""
    if names := [name for name in map(variable, SERVERS) if os.environ.get(name)]:
        _say(
            f"{' and '.join(names)} of the environment {'is' if len(names) == 1 else 'are'} not "
            "used: foryou up takes servers from --postgres and --redis only"
        )


def _say_who_runs_postgres(folder: Path) -> None:
    if not (folder / "postgres").exists() and (user := system_user(folder / "postgres")):
        _say(
            f"as root, so Postgres runs as the system user {user}, and the folders above "
            f"{folder / 'postgres'} get execute permission for others"
        )
