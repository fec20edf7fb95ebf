"""How many rows a second does `foryou train export` write, joined with what was done about them?

Ceiling: the same packed rows read through a bare cursor, unpacked and written to Parquet as they
are: no labels, no authors, no events. Both read the same database in turns, in this process.
"""

import resource
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psycopg

from benchmarks.machine import machine
from benchmarks.options import Options, say
from benchmarks.result import Result, spread
from benchmarks.servers import migrated, servers
from rankers.features import NAMES, schema_hash
from storage.connections import Connection, configure
from storage.learning import Span
from storage.migrate import ensure_partitions
from storage.slates import ROW, LoggedSlate, record_slate, unpacked
from training.export import Terms, export
from training.extra import extra

ROWS = 240_000
PER_SLATE = 120
PAGE = 20
POSTS = 20_000
PER_VIEWER = 5
HOURS = 20
"""The slates are spread over so many hours; labels are of one."""


async def run(options: Options) -> Result:
    """Export and read bare in turns."""
    async with servers(options) as running, migrated(running) as here:
        n = (options.size or ROWS) // PER_SLATE
        say(f"logging {n:,} slates of {PER_SLATE} rows")
        now = datetime.now(UTC)
        async with await psycopg.AsyncConnection.connect(here.postgres_url) as connection:
            await configure(connection)
            await _logged(connection, n, now, options.seed)
            ours, bare, packed_bytes = [], [], await _bytes(connection)
            terms = Terms(Span(now - timedelta(days=2), now + timedelta(hours=1)), 1.0)
            for round_ in range(1, options.rounds + 1):
                say(f"round {round_} of {options.rounds}")
                folder = here.folder / f"export-{round_}"
                ours.append(await _exported(connection, folder, terms, n * PER_SLATE))
                bare.append(await _bare(connection, here.folder / "bare.parquet"))
        rows = n * PER_SLATE
        return Result(
            name="export",
            value=median(rows / each for each in ours),
            unit="rows/s",
            ceiling=median(rows / each for each in bare),
            ceiling_is="a cursor over the same packed rows, unpacked into Parquet",
            ratio=median(b / mine for mine, b in zip(ours, bare, strict=True)),
            spread=spread(ours, "s"),
            details={
                "rows": rows,
                "features": len(NAMES),
                "events": n * (PAGE + 2),
                "packed_bytes_per_slate": round(packed_bytes / n),
                "process_peak_mb": round(_peak_mb(), 1),
            },
            machine=await machine(running),
        )


async def _exported(connection: Connection, folder: Path, terms: Terms, rows: int) -> float:
    began_s = time.perf_counter()
    async with connection.transaction():
        about = await export(connection, folder, terms)
    spent_s = time.perf_counter() - began_s
    assert about.counts["rows"] == rows and about.counts["rows_shown"] == rows / PER_SLATE * PAGE
    return spent_s


async def _bare(connection: Connection, file: Path) -> float:
    """Read and write the same numbers, and nothing about them."""
    arrow, parquet = extra("pyarrow"), extra("pyarrow.parquet")
    into = arrow.schema(
        [
            *((name, arrow.from_numpy_dtype(ROW[name])) for name in ROW.names or ()),
            *((name, arrow.float32()) for name in NAMES),
        ]
    )
    began_s = time.perf_counter()
    async with connection.transaction(), connection.cursor(name="bare", binary=True) as cursor:
        cursor.itersize = 500
        await cursor.execute("SELECT rows, features FROM slates ORDER BY at")
        with parquet.ParquetWriter(file, into, use_dictionary=False) as writer:
            while found := await cursor.fetchmany(500):
                writer.write_table(_as_table(found, into))
    return time.perf_counter() - began_s


def _as_table(found: list[tuple[Any, ...]], into: Any) -> Any:
    arrow = extra("pyarrow")
    parts = [unpacked(*each) for each in found]
    rows = np.concatenate([posts for posts, _ in parts])
    matrix = np.concatenate([features for _, features in parts])
    columns = [*(rows[name] for name in ROW.names or ()), *matrix.T]
    return arrow.table([np.ascontiguousarray(each) for each in columns], schema=into)


_PEOPLE = """
INSERT INTO users (id, name) SELECT n, 'u' || n FROM generate_series(1, %(authors)s) AS n;
"""
_POSTS = """
INSERT INTO posts (id, author_id, body, format, created_at, received_at, effective_ms, delivery)
SELECT n, 1 + n %% %(authors)s, 'a post', 'text', now(), now(), n, 'push'
  FROM generate_series(1, %(posts)s) AS n
"""
_SERVED = """
INSERT INTO served (day, at, viewer_id, session_id, snapshot_id, nonce, part, chain_start,
                    position, ids, shows, ranker)
SELECT day, at, viewer_id, session_id, snapshot_id, nonce, 'slate', 0, 0,
       array_fill(1::bigint, ARRAY[%(page)s]), array_fill(1::bigint, ARRAY[%(page)s]), ranker
  FROM slates
"""
_EVENTS = """
INSERT INTO engagements (day, viewer_id, event_id, type, post_id, at, snapshot_id, position,
                         received_at)
SELECT s.day, s.viewer_id, gen_random_uuid(), what.type, (s.now_ms %% 1000) + what.n, s.at,
       s.snapshot_id, what.n, s.at
  FROM slates s CROSS JOIN (
       SELECT 'impression' AS type, n FROM generate_series(0, %(page)s - 1) AS n
        UNION ALL SELECT 'click', 3 UNION ALL SELECT 'like', 7) AS what
"""


async def _logged(connection: Connection, n: int, now: datetime, seed: int) -> None:
    """Log n slates, a page of each, and what was done about it."""
    rng = np.random.default_rng(seed)
    values = {"authors": POSTS // 20, "posts": POSTS, "page": PAGE}
    await ensure_partitions(connection, now.date())
    await connection.execute(_PEOPLE, values)
    await connection.execute(_POSTS, values)
    async with connection.pipeline():
        for slate in range(n):
            await record_slate(connection, _slate(rng, slate, n, now))
    place_in_time = "UPDATE slates SET at = to_timestamp(now_ms / 1000.0), day = %s"
    await connection.execute(place_in_time, [now.date()])
    await connection.execute(_SERVED, values)
    await connection.execute(_EVENTS, values)
    await connection.commit()
    await connection.set_autocommit(True)
    await connection.execute("VACUUM ANALYZE")


def _slate(rng: np.random.Generator, slate: int, n: int, now: datetime) -> LoggedSlate:
    now_ms = int((now - timedelta(hours=HOURS * (1 - slate / n))).timestamp() * 1000)
    rows = np.zeros(PER_SLATE, dtype=ROW)
    rows["id"] = now_ms % 1000 + np.arange(PER_SLATE)
    rows["position"] = np.arange(PER_SLATE)
    rows["light"], rows["heavy"], rows["propensity"] = rng.random(PER_SLATE), np.nan, 1
    counts = rng.poisson(3, size=(PER_SLATE, len(NAMES) // 2))  # as most features are
    whole = np.tile(rng.random(size=6), (PER_SLATE, 1))  # of the viewer and the moment
    part = rng.random(size=(PER_SLATE, len(NAMES) - counts.shape[1] - whole.shape[1]))
    return LoggedSlate(
        viewer_id=1 + slate // PER_VIEWER,
        session_id=f"session-{slate}",
        snapshot_id=f"snapshot-{slate:09d}",
        nonce=f"nonce-{slate:09d}",
        now_ms=now_ms,
        ranker="affinity_decay",
        weights="default",
        model=None,
        explored=False,
        skipped=(),
        n_rows=500,
        rows=rows,
        fold=slate,
        schema_hash=schema_hash(),
        features=np.hstack([counts, whole, part]).astype(np.float32),
    )


async def _bytes(connection: Connection) -> float:
    size = "SELECT sum(pg_column_size(s.*)) FROM slates s"
    row = await (await connection.execute(size)).fetchone()
    return float(row[0]) if row else 0.0


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
