"""Traces: what a snapshot was made from, so that its ranking can be explained and done again.

One for each snapshot, for its life. Formulas and rules are pure: the rows they were given and the
profile are enough. A trace is written beside the response, and may be missing.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import orjson

from feed.candidates import Candidates, Column
from feed.errors import Misconfigured
from feed.order import Ids, Key
from feed.profile import Profile, profile_of, table_of
from snapshots.snapshot import Head, Snapshot, unpack
from storage import keys
from storage.connections import Guard, RedisClient, translated_errors

VERSION = 1
LEVEL = 1  # of zlib: higher ones spare 2 % of the bytes


@dataclass(frozen=True)
class SlateTrace:
    """What one slate was made from.

    `weighed` are the rows (n,) that the ranking was given, `skipped` its stages that failed,
    `dropped` the posts that each filter had taken out before: together at most the candidates.
    """

    viewer_id: int
    head: Head
    profile: Profile
    skipped: tuple[str, ...]
    weighed: Candidates
    dropped: Mapping[str, Ids]


def pack_trace(trace: SlateTrace) -> bytes:
    """Pack a trace: one line of JSON, then the columns, compressed."""
    columns = [(name, *_narrowed(column)) for name, column in _columns(trace)]
    oldest = trace.head.oldest
    about = {
        "v": VERSION,
        "viewer_id": trace.viewer_id,
        "head": {**vars(trace.head), "oldest": oldest and list(oldest)},
        "profile": _said(trace.profile),
        "skipped": trace.skipped,
        "dropped": list(trace.dropped),
        "columns": [
            [name, kind, least, narrow.dtype.str, len(narrow)]
            for name, narrow, kind, least in columns
        ],
    }
    body = b"".join(narrow.tobytes() for _, narrow, _, _ in columns)
    return zlib.compress(orjson.dumps(about) + b"\n" + body, LEVEL)


def unpack_trace(packed: bytes) -> SlateTrace | None:
    """Undo `pack_trace`; None for what this version did not pack, which counts as lost."""
    try:
        line, _, body = zlib.decompress(packed).partition(b"\n")
        about = orjson.loads(line)
        return _unpacked(about, body) if about["v"] == VERSION else None
    except (zlib.error, ValueError, KeyError, TypeError, Misconfigured):
        return None


@lru_cache(maxsize=8)
def _said(profile: Profile) -> orjson.Fragment:
    """Write out a profile once for all its traces: it takes longer than packing one."""
    return orjson.Fragment(orjson.dumps([profile.name, table_of(profile)]))


def _columns(trace: SlateTrace) -> list[tuple[str, Column]]:
    weighed = trace.weighed
    return [
        ("ids", weighed.ids),
        ("ms", weighed.ms),
        *weighed.columns.items(),
        *trace.dropped.items(),
    ]


def _narrowed(column: Column) -> tuple[Column, str, int]:
    """Return whole numbers (n,) less the least of them, in few bytes; their type; the least.

    Other columns are returned as they are.
    """
    column = column.astype(column.dtype.newbyteorder("<"), copy=False)
    kind = column.dtype.str
    if column.dtype.kind != "i" or not len(column):
        return column, kind, 0
    least, most = int(column.min()), int(column.max())
    for narrow in ("<u1", "<u2", "<u4"):
        if most - least <= np.iinfo(narrow).max:
            return (column - least).astype(narrow), kind, least
    return column, kind, 0


def _unpacked(about: dict[str, Any], body: bytes) -> SlateTrace:
    columns: list[tuple[str, Column]] = []
    at = 0
    for name, kind, least, narrow, n in about["columns"]:
        column: Column = np.frombuffer(body, narrow, count=n, offset=at)
        at += column.nbytes
        whole = column.astype(kind, copy=False)
        columns.append((name, whole + least if least else whole))
    n_given = len(columns) - len(about["dropped"])
    (_, ids), (_, ms), *given = columns[:n_given]
    name, table = about["profile"]
    oldest = about["head"].pop("oldest")
    return SlateTrace(
        viewer_id=about["viewer_id"],
        head=Head(**about["head"], oldest=None if oldest is None else Key(*oldest)),
        profile=profile_of(name, table),
        skipped=tuple(about["skipped"]),
        weighed=Candidates(ids, ms, dict(given)),
        dropped=dict(columns[n_given:]),
    )


class TraceStore:
    """Keeps traces in Redis, each beside its snapshot, which extends its life."""

    def __init__(self, redis: RedisClient, *, ttl_s: int, guard: Guard = translated_errors) -> None:
        """Keep traces for `ttl_s`, unless their snapshot is used."""
        self._redis = redis
        self._ttl_s = ttl_s
        self._guard = guard

    async def keep(self, trace: SlateTrace) -> None:
        """Keep a trace under the id of its snapshot."""
        key = keys.trace(trace.viewer_id, trace.head.id)
        with self._guard():
            await self._redis.set(key, pack_trace(trace), ex=self._ttl_s)

    async def read(self, viewer_id: int, snapshot_id: str) -> tuple[Snapshot, SlateTrace] | None:
        """Return a snapshot with its trace; None when either is gone. Neither lives on by it."""
        with self._guard():
            packed, traced = await self._redis.mget(
                keys.snapshot(viewer_id, snapshot_id), keys.trace(viewer_id, snapshot_id)
            )
        snapshot = unpack(packed) if packed else None
        trace = unpack_trace(traced) if traced else None
        if snapshot is None or trace is None or snapshot.head.nonce != trace.head.nonce:
            return None
        return snapshot, trace
