"""How many rows a second does `foryou import` load, of users who follow 150 others each?

Ceiling: a bare COPY of the same file of follows into a table without an index. The command is
timed as its user sees it, from start to end of its process, into a new database each time.
"""

import asyncio
import json
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg

from benchmarks.machine import machine
from benchmarks.options import Options, say
from benchmarks.result import Result, spread
from benchmarks.servers import database, servers
from cli.migrate import migrate_database
from feed.errors import ForYouError

FOLLOWS = 300_000
FOLLOWS_PER_USER = 150
ROUNDS = 3
LOOK_EVERY_S = 0.1
ROOT = Path(__file__).parents[1]
BLOCK_BYTES = 1 << 20


async def run(options: Options) -> Result:
    """Import and copy in turns."""
    async with servers(options) as running:
        users = max((options.size or FOLLOWS) // FOLLOWS_PER_USER, FOLLOWS_PER_USER + 1)
        say(f"writing {users:,} users and {users * FOLLOWS_PER_USER:,} follows")
        folder = running.folder / "import"
        rows = write_files(folder, users, seed=options.seed)
        ours, bare, peaks_mb = [], [], []
        before_s = _children_cpu_s()
        for n in range(1, min(options.rounds, ROUNDS) + 1):
            say(f"round {n} of {min(options.rounds, ROUNDS)}")
            rows_per_s, peak_mb = await _imported(running.postgres_url, folder, rows)
            ours.append(rows_per_s)
            peaks_mb.append(peak_mb)
            bare.append(_copied(running.postgres_url, folder / "follows.csv", rows - users))
        return Result(
            name="import",
            value=median(ours),
            unit="rows/s",
            ceiling=median(bare),
            ceiling_is="COPY of the same follows into a table without an index",
            ratio=median(each / copy for each, copy in zip(ours, bare, strict=True)),
            spread=spread([rows / each for each in ours], "s"),
            details={
                "users": users,
                "follows": rows - users,
                "command_peak_mb": round(max(peaks_mb), 1),
                "command_cpu_us_per_row": round(
                    (_children_cpu_s() - before_s) / rows / len(ours) * 1e6, 1
                ),
            },
            machine=await machine(running),
        )


def _children_cpu_s() -> float:
    """Return the CPU seconds of child processes that have ended: of the commands, so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_files(folder: Path, users: int, *, seed: int) -> int:
    """Write users.csv and follows.csv, edges in random order; return how many rows they hold."""
    folder.mkdir()
    with (folder / "users.csv").open("w") as file:
        file.write("id,name\n")
        file.writelines(f"{user},Person {user}\n" for user in range(1, users + 1))
    rng = np.random.default_rng(seed)
    edges = rng.permutation(np.concatenate(_edges(rng, users)))
    with (folder / "follows.csv").open("w") as file:
        file.write("follower_id,followee_id,created_at\n")
        for follower, followee in edges.tolist():
            file.write(f"{follower},{followee},2026-01-02T03:04:05.678Z\n")
    return users + len(edges)


def _edges(rng: np.random.Generator, users: int) -> list[npt.NDArray[np.int64]]:
    """Make each user's distinct followees, never the user."""
    steps = [rng.choice(users - 1, FOLLOWS_PER_USER, replace=False) + 1 for _ in range(users)]
    return [
        np.column_stack((np.full(FOLLOWS_PER_USER, user + 1), (user + step) % users + 1))
        for user, step in enumerate(steps)
    ]


async def _imported(server_url: str, folder: Path, rows: int) -> tuple[float, float]:
    """Run the command into a new database; return rows per second, and its most megabytes.

    Raises:
        ForYouError: It failed, or did not write every row.
    """
    with database(server_url) as url:
        await migrate_database(url)
        command = [sys.executable, "-m", "cli.main", "import", str(folder), "--postgres", url]
        started = time.perf_counter()
        summary, peak_mb = await _output([*command, "--json"])
        spent_s = time.perf_counter() - started
    written = summary["users"]["written"] + summary["follows"]["written"]
    if written != rows:
        raise ForYouError(f"foryou import wrote {written:,} of {rows:,} rows.")
    return rows / spent_s, peak_mb


async def _output(command: list[str]) -> tuple[dict[str, Any], float]:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    (output, told), peak_mb = await asyncio.gather(process.communicate(), _peak_mb(process))
    if process.returncode != 0:
        raise ForYouError(f"foryou import failed: {told.decode().strip()[-300:]}")
    summary: dict[str, Any] = json.loads(output)
    return summary, peak_mb


async def _peak_mb(process: asyncio.subprocess.Process) -> float:
    """Return the most memory that a process has held, in megabytes, looked at until it ends."""
    peak_mb = 0.0
    while process.returncode is None:
        peak_mb = max(peak_mb, held_at_most_mb(process.pid))
        await asyncio.sleep(LOOK_EVERY_S)
    return peak_mb


def held_at_most_mb(pid: int) -> float:
    """Return the most memory that a process has held so far; 0 when it has ended.

    Not what `resource` says of children: that holds the memory of whoever started them.
    """
    with suppress(FileNotFoundError, ProcessLookupError):
        for line in Path("/proc", str(pid), "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def _copied(server_url: str, file: Path, rows: int) -> float:
    """Copy the follows into a bare table; return rows per second."""
    with database(server_url) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE bare (follower_id bigint, followee_id bigint, created_at timestamptz)"
        )
        started = time.perf_counter()
        with (
            file.open("rb") as source,
            connection.cursor() as cursor,
            cursor.copy("COPY bare FROM STDIN (FORMAT csv, HEADER)") as copy,
        ):
            while block := source.read(BLOCK_BYTES):
                copy.write(block)
        return rows / (time.perf_counter() - started)
