"""The parts that run in production, one command each: `serve`, `worker`, `relay`."""

import asyncio
import importlib
from collections.abc import Callable, Coroutine
from typing import Any

import click
import uvicorn

from cli.address import Address, await_free
from cli.entry import refuse_open_door, settings_with
from cli.log_format import configure_logging

_STOP_S = 3
"""Requests under way may end within this time; less than `foryou up` waits for a part."""


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free."
)
def serve(host: str, port: int) -> None:
    """Run the HTTP service, one process; start as many as you like.

    \b
    Example (put your own addresses, and your own secrets for …):
      FORYOU_POSTGRES_URL=postgresql://foryou@db/foryou FORYOU_REDIS_URL=redis://cache:6379/0 \\
      FORYOU_JWT_KEY=… FORYOU_CURSOR_KEYS=… foryou serve --host 0.0.0.0 --port 8000
    """
    settings = settings_with("postgres_url", "redis_url", "cursor_keys")
    refuse_open_door(settings, host)
    await_free(Address(host, port))
    configure_logging()
    from api.app import create_app

    uvicorn.run(
        create_app(settings),
        host=host,
        port=port,
        loop="uvloop",
        http="httptools",
        log_config=None,
        access_log=False,  # the service writes one line per request itself
        server_header=False,
        timeout_graceful_shutdown=_STOP_S,
    )


@click.command()
@click.option(
    "--lane",
    type=click.Choice(["fast", "slow", "all"]),
    default="all",
    show_default=True,
    help="Which queue: small posts (fast), large posts and backfills (slow), or both.",
)
def worker(lane: str) -> None:
    """Run a fan-out worker; start as many as you like, and some for each lane.

    One process for both lanes is right for a small product; with a process for each, small posts
    do not even share a core with large ones.

    \b
    Example (put your own addresses):
      FORYOU_POSTGRES_URL=postgresql://foryou@db/foryou FORYOU_REDIS_URL=redis://cache:6379/0 \\
      foryou worker --lane fast
    """
    lanes = ("fast", "slow") if lane == "all" else (lane,)
    _run("fanout.worker", "run_worker", lanes)


@click.command()
def relay() -> None:
    """Run the relay: it leases deliveries from Postgres and puts them on the queue.

    \b
    Example (put your own addresses):
      FORYOU_POSTGRES_URL=postgresql://foryou@db/foryou FORYOU_REDIS_URL=redis://cache:6379/0 \\
      foryou relay
    """
    _run("fanout.relay", "run_relay")


def _run(module: str, name: str, *arguments: Any) -> None:
    settings = settings_with("postgres_url", "redis_url")
    configure_logging()
    run: Callable[..., Coroutine[Any, Any, None]]
    run = getattr(importlib.import_module(module), name)
    asyncio.run(run(settings, *arguments))
