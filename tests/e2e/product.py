"""Starts the product as a user does, and talks to it over HTTP only."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from tests.conftest import PATIENT

ROOT = Path(__file__).parents[2]
READY_S = 120.0
PATIENT_ENVIRON = {f"FORYOU_{name.upper()}": str(value) for name, value in PATIENT.items()}


def command(*arguments: str) -> list[str]:
    """Name the installed `foryou`, or the module where nothing is installed."""
    installed = Path(sys.executable).with_name("foryou")
    start = [str(installed)] if installed.exists() else [sys.executable, "-m", "cli.main"]
    return [*start, *arguments]


def run(
    *arguments: str, timeout_s: float = 60, **environ: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, with some settings."""
    return subprocess.run(
        command(*arguments),
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def eventually(holds: Callable[[], bool], within_s: float = 20.0) -> None:
    """Wait until something is so."""
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until, f"not within {within_s:g} s: {holds.__qualname__}"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Say whether a process runs; one that ended and waits for its parent does not."""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def in_network(page: dict[str, Any]) -> list[str]:
    """Return the ids of a page that are no discoveries: those every follower is promised."""
    return [item["id"] for item in page["items"] if item["in_network"]]


class Product:
    """One running `foryou up`."""

    def __init__(self, data: Path, *options: str, **environ: str) -> None:
        """Start it, with some settings, and wait for its line of JSON."""
        self.data = data
        self.errors = data.with_name(f"{data.name}.stderr")
        with self.errors.open("ab") as sink:
            self.process = subprocess.Popen(
                command("up", "--data", str(data), "--port", "0", "--json", *options),
                cwd=ROOT,
                env={**os.environ, **environ},
                stdout=subprocess.PIPE,
                stderr=sink,
                start_new_session=True,
            )
        self.info: dict[str, Any] = json.loads(self._first_line())
        self.client = httpx.Client(
            base_url=f"{self.info['address']}/api/v1", timeout=30, trust_env=False
        )

    def __enter__(self) -> Self:
        """Lend it for a block."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop it, unless the test did."""
        if self.process.returncode is None:
            self.stop()

    def stop(self) -> float:
        """Press Ctrl-C and wait; return the seconds it took."""
        self.client.close()
        began = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)
        assert self.process.stdout
        self.process.stdout.close()
        return time.monotonic() - began

    def pids(self) -> dict[str, int]:
        """Name the processes that run now."""
        pids: dict[str, int] = json.loads((self.data / "running.json").read_text())["pids"]
        return pids

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to the present process of a part."""
        os.kill(self.pids()[name], number)

    def call(self, method: str, path: str, user: int | str, **more: Any) -> httpx.Response:
        """Ask as a user, with every right."""
        headers = {"X-User-Id": str(user), "X-Scope": "ingest admin"}
        return self.client.request(method, path, headers=headers, **more)

    def ingest(self, rows: Iterable[dict[str, Any]]) -> None:
        """Write rows for any user; every one must be taken."""
        lines = "\n".join(json.dumps(row) for row in rows)
        answer = self.call("POST", "/ingest", 1, content=f"{lines}\n")
        assert answer.status_code == 200, answer.text
        assert answer.json()["rejected"] == []

    def post(self, author: int, body: str, **fields: str) -> str:
        """Write a post; return its id."""
        answer = self.call("POST", "/posts", author, json={"body": body, **fields})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def pages(self, user: int | str, mode: str, limit: int = 20) -> Iterator[dict[str, Any]]:
        """Open a feed and turn its pages to the end."""
        parameters: dict[str, Any] = {"mode": mode, "limit": limit}
        seen: set[str] = set()
        while True:
            answer = self.call("GET", "/feed", user, params=parameters)
            assert answer.status_code == 200, answer.text
            page: dict[str, Any] = answer.json()
            yield page
            if (cursor := page["next_cursor"]) is None:
                return
            assert cursor not in seen, "a cursor came back"
            seen.add(cursor)
            parameters["cursor"] = cursor

    def walk(self, user: int | str, mode: str, limit: int = 50) -> list[str]:
        """Return the ids of a whole feed, without discoveries."""
        return [id for page in self.pages(user, mode, limit) for id in in_network(page)]

    def flush_redis(self) -> None:
        """Lose everything that is cached, and the queue."""
        place = urlsplit(self.info["redis_url"])
        with socket.create_connection((place.hostname or "", place.port or 0), 5) as connection:
            connection.sendall(b"FLUSHALL\r\n")
            assert connection.recv(16).startswith(b"+OK")

    def _first_line(self) -> bytes:
        assert self.process.stdout
        readable, _, _ = select.select([self.process.stdout], [], [], READY_S)
        line = self.process.stdout.readline() if readable else b""
        if not line:
            self.process.kill()
            self.process.communicate()
            raise AssertionError(f"foryou up said nothing: {self.errors.read_text()[-2000:]}")
        return line
