"""The log of frozen slates: what a ranker put where and why, and what it knew, to train on.

A row is packed: 23 bytes for each logged post before compression, 4 for each of its features.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from storage.connections import Connection, Postgres
from storage.served import ServedPage, record_served

ROW = np.dtype(
    [
        ("id", "<i8"),
        ("position", "<i2"),  # in the slate, whether it was served or not
        ("source", "i1"),
        ("light", "<f4"),
        ("heavy", "<f4"),  # NaN: not scored by a heavy ranker
        ("propensity", "<f4"),
    ]
)
Rows = npt.NDArray[Any]
"""Of dtype `ROW`."""

Matrix = npt.NDArray[np.float32]
LEVEL = 1  # of zlib: higher ones spare 3 % of the bytes


@dataclass(frozen=True, kw_only=True)
class LoggedSlate:
    """One frozen slate: n posts with where they stood, and their features (n, d) if logged.

    `n_rows` are those of the whole slate. `fold` is the number of the last fold that the features
    know of; `skipped` are stages that failed while it was made.
    """

    viewer_id: int
    session_id: str
    snapshot_id: str
    nonce: str
    now_ms: int
    ranker: str
    weights: str
    model: str | None
    explored: bool
    skipped: Sequence[str]
    n_rows: int
    rows: Rows
    fold: int | None = None
    schema_hash: str | None = None
    features: Matrix | None = None


_INSERT = """
INSERT INTO slates (day, at, viewer_id, session_id, snapshot_id, nonce, now_ms, ranker, weights,
                    model, explored, skipped, n_rows, rows, fold, schema_hash, features)
VALUES (current_date, now(), %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


async def record_slate(connection: Connection, slate: LoggedSlate) -> None:
    """Write one slate."""
    await connection.execute(_INSERT, _packed(slate))


def _packed(slate: LoggedSlate) -> list[Any]:
    matrix = slate.features
    return [
        slate.viewer_id,
        slate.session_id,
        slate.snapshot_id,
        slate.nonce,
        slate.now_ms,
        slate.ranker,
        slate.weights,
        slate.model,
        slate.explored,
        list(slate.skipped),
        slate.n_rows,
        zlib.compress(slate.rows.tobytes(), LEVEL),
        slate.fold,
        slate.schema_hash,
        # Feature by feature: many are the same for a whole slate, and then take no space.
        None if matrix is None else zlib.compress(matrix.T.astype("<f4").tobytes(), LEVEL),
    ]


def unpacked(rows: bytes, features: bytes) -> tuple[Rows, Matrix]:
    """Return the posts (n,) of a slate and their features (n, d)."""
    posts = np.frombuffer(zlib.decompress(rows), dtype=ROW)
    by_feature = np.frombuffer(zlib.decompress(features), dtype="<f4").reshape(-1, len(posts))
    return posts, by_feature.T


class LearningLog:
    """The log for the mixer: a batch of slates and of chronological pages at a time."""

    def __init__(self, postgres: Postgres) -> None:
        """Write to `postgres`, the primary."""
        self._postgres = postgres

    async def record(self, pages: Sequence[ServedPage], slates: Sequence[LoggedSlate]) -> None:
        """Write all of them or none, in one round trip."""
        async with self._postgres.connection() as connection, connection.pipeline():
            for page in pages:
                await record_served(connection, page)
            for slate in slates:
                await record_slate(connection, slate)
