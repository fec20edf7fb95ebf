"""A snapshot: the ordered ids of one opening of a feed, frozen, packed into a few kilobytes."""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from feed.order import Ids, Key

VERSION = 2

Codes = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Head:
    """What a snapshot says of itself.

    `nonce` tells it from another snapshot frozen later under the same id. `weights` is the version
    of the profile, `model` that of the heavy ranker, if one ordered it. `oldest` is the place of
    the oldest candidate: the chronological tail begins below it; None when nothing is below.
    """

    id: str
    nonce: str
    session_id: str
    created_ms: int
    ranker: str
    weights: str
    oldest: Key | None
    model: str | None = None


@dataclass(frozen=True)
class Snapshot:
    """A frozen slate of n rows.

    `sources` (n,) are codes of `feed.candidates.SOURCES`. Row i may be shown by any post of
    [ids[i], *folded[starts[i]:starts[i + 1]]]: reposts of one original, best first.
    """

    head: Head
    ids: Ids
    sources: Codes
    folded: Ids
    starts: Ids

    def __len__(self) -> int:
        """Return n."""
        return len(self.ids)

    def group(self, row: int) -> list[int]:
        """Return the posts that can stand for a row, the best first."""
        (group,) = self.groups(row, row + 1)
        return group

    def groups(self, start: int, end: int) -> list[list[int]]:
        """Return the groups of the rows from `start` to `end`."""
        starts = self.starts[start : end + 1].tolist()
        folded, first = self.folded[starts[0] : starts[-1]].tolist(), starts[0]
        return [
            [post, *folded[begin - first : after - first]]
            for post, begin, after in zip(
                self.ids[start:end].tolist(), starts[:-1], starts[1:], strict=True
            )
        ]


def slate_columns(folded: list[tuple[int, ...]]) -> tuple[Ids, Ids]:
    """Lay out tuples of folded posts (n of them) as one column and its n + 1 starts."""
    lengths = np.fromiter(map(len, folded), np.int64, count=len(folded))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return np.fromiter(chain.from_iterable(folded), np.int64, count=int(starts[-1])), starts


def pack(snapshot: Snapshot) -> bytes:
    """Pack a snapshot: one line of JSON, then the columns as little-endian bytes."""
    oldest = snapshot.head.oldest
    fields = {"oldest": oldest and list(oldest), "n": len(snapshot), "v": VERSION}
    head = orjson.dumps({**vars(snapshot.head), **fields})
    columns = (
        snapshot.ids.astype("<i8"),
        snapshot.starts.astype("<i8"),
        snapshot.folded.astype("<i8"),
        snapshot.sources.astype("<i1"),
    )
    return b"\n".join([head, b"".join(column.tobytes() for column in columns)])


def unpack(packed: bytes) -> Snapshot | None:
    """Undo `pack`; None for what this version did not pack, which counts as expired."""
    try:
        line, _, columns = packed.partition(b"\n")
        head = orjson.loads(line)
        if head.pop("v") != VERSION:
            return None
        return _unpacked(head, columns)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _unpacked(head: dict[str, Any], columns: bytes) -> Snapshot:
    n = head.pop("n")
    oldest = head.pop("oldest")
    ids = np.frombuffer(columns, dtype="<i8", count=n)
    starts = np.frombuffer(columns, dtype="<i8", count=n + 1, offset=8 * n)
    n_folded = int(starts[-1])
    folded = np.frombuffer(columns, dtype="<i8", count=n_folded, offset=8 * (2 * n + 1))
    sources = np.frombuffer(columns, dtype="<i1", count=n, offset=8 * (2 * n + 1 + n_folded))
    key = None if oldest is None else Key(*oldest)
    return Snapshot(Head(**head, oldest=key), ids, sources, folded, starts)
