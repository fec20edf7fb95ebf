"""Candidates as columns: n posts are numpy arrays of length n, never n objects."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from feed.order import (
    MAX_ID,
    MAX_MS,
    NEWEST,
    OLDEST,
    Ids,
    Key,
    Mask,
    Rows,
    at_or_above,
    newest_first,
)

Column = npt.NDArray[Any]

FORMATS = ("text", "image", "video", "link")
SOURCES = (
    "pushed_feed",
    "author_outbox",
    "own_posts",
    "below_floor",
    "popular",
    "network_likes",
)
SOURCE_CODE = {name: code for code, name in enumerate(SOURCES)}
OUT_OF_NETWORK = (SOURCE_CODE["popular"], SOURCE_CODE["network_likes"])
"""Codes of the sources that find posts of authors whom the viewer does not follow."""

IN_NETWORK = np.isin(np.arange(len(SOURCES)), OUT_OF_NETWORK, invert=True)
"""Of each code: whether that source finds posts of followed authors only."""


def empty_ids() -> Ids:
    """Return an id column of length 0."""
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Gaps:
    """Where a cached list is silent: for each author (m,), posts at or below a key are not in it.

    A list that was never trimmed has no gaps; a list that is missing has a gap at the top for
    every author. That is how "missing" and "empty" stay two things.
    """

    authors: Ids = field(default_factory=empty_ids)
    ms: Ids = field(default_factory=empty_ids)
    ids: Ids = field(default_factory=empty_ids)

    @classmethod
    def at(cls, authors: Ids, ms: int, post_id: int = MAX_ID) -> "Gaps":
        """Say that for all these authors (m,), posts at or below (ms, post_id) are unknown."""
        return cls(authors, np.full(len(authors), ms), np.full(len(authors), post_id))

    @classmethod
    def everywhere(cls, authors: Ids) -> "Gaps":
        """Say that nothing at all is known of these authors (m,)."""
        return cls.at(authors, MAX_MS)

    @classmethod
    def joined(cls, parts: "list[Gaps]") -> "Gaps":
        """Put the gaps of several lists one after the other; an author may then appear twice."""
        return cls(
            np.concatenate([empty_ids(), *(part.authors for part in parts)]),
            np.concatenate([empty_ids(), *(part.ms for part in parts)]),
            np.concatenate([empty_ids(), *(part.ids for part in parts)]),
        )

    def reaching(self, key: Key) -> "Gaps":
        """Keep the gaps that reach up to `key` or above: those that hide posts from there on."""
        mask = at_or_above(self.ms, self.ids, key)
        return Gaps(self.authors[mask], self.ms[mask], self.ids[mask])

    def under(self, before: Key) -> "Gaps":
        """Cut gaps that begin at or above `before` down to just below it."""
        if before == NEWEST:
            return self
        high = at_or_above(self.ms, self.ids, before)
        ms = np.where(high, before.ms, self.ms)
        return Gaps(self.authors, ms, np.where(high, before.id - 1, self.ids))

    def highest(self) -> Key:
        """Return the highest place at which something is unknown; there is at least one gap."""
        row = newest_first(self.ms, self.ids)[0]
        return Key(int(self.ms[row]), int(self.ids[row]))

    def __len__(self) -> int:
        """Count the (author, key) pairs."""
        return len(self.authors)


@dataclass(frozen=True)
class Found:
    """What one source found: ids and effective times (n,), and where it is silent.

    `missing` names the owners of lists that are not in the cache and should be rebuilt.
    """

    ids: Ids
    ms: Ids
    source: str
    gaps: Gaps = field(default_factory=Gaps)
    missing: tuple[int, ...] = ()


def checked(found: Found, source: str) -> Found:
    """Return what a source found, if it has the shape that it promised.

    Raises:
        ValueError: Columns that are not int64 (n,), or the name of another source.
    """
    if not isinstance(found, Found) or found.source != source:
        raise ValueError(f"{source} returned {type(found).__name__}")
    for column in (found.ids, found.ms):
        if not isinstance(column, np.ndarray) or column.dtype != np.int64 or column.ndim != 1:
            raise ValueError(f"{source}: a column that is not int64 (n,)")
    if len(found.ids) != len(found.ms):
        raise ValueError(f"{source}: {len(found.ids)} ids but {len(found.ms)} times")
    return found


@dataclass(frozen=True)
class Candidates:
    """Posts under consideration, as aligned columns of length n.

    `ids` and `ms` are always there; hydrators and scorers add named columns, and a stage
    reads `candidates["likes"]`. Nothing is edited in place.
    """

    ids: Ids
    ms: Ids
    columns: Mapping[str, Column] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return n."""
        return len(self.ids)

    def __getitem__(self, name: str) -> Column:
        """Return a named column (n,); a KeyError names a hydrator missing from the recipe."""
        return self.columns[name]

    def take(self, rows: Rows | Mask) -> "Candidates":
        """Return the chosen rows (k,), in the given order."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return Candidates(self.ids[rows], self.ms[rows], columns)

    def with_columns(self, columns: Mapping[str, Column]) -> "Candidates":
        """Return the same rows with these columns added.

        Raises:
            ValueError: A column is not of length n, or holds numbers that are not finite.
        """
        for name, column in columns.items():
            if column.shape != (len(self),):
                raise ValueError(f"column {name} has shape {column.shape}, not ({len(self)},)")
            if column.dtype.kind == "f" and not np.isfinite(column).all():
                raise ValueError(f"column {name} holds numbers that are not finite")
        return replace(self, columns={**self.columns, **columns})


def merged(found: list[Found]) -> Candidates:
    """Merge lists into one, newest first, each post once; the first list named keeps its source."""
    ids, ms, source = _end_to_end(found)
    _, first = np.unique(ids, return_index=True)
    rows = first[newest_first(ms[first], ids[first])]
    return Candidates(ids[rows], ms[rows], {"source": source[rows]})


def with_discoveries(candidates: Candidates, found: list[Found], n: int) -> Candidates:
    """Add at most n posts from outside the network, the first of each list first.

    Returns:
        All rows, newest first, each post once; the column out_of_network (rows,) tells them apart.
    """
    ids, ms, source = _end_to_end(found)
    if not len(ids):
        return candidates.with_columns({"out_of_network": np.zeros(len(candidates), np.bool_)})
    _, first = np.unique(ids, return_index=True)
    new = np.sort(first[~np.isin(ids[first], candidates.ids)])[:n]
    all_ids = np.concatenate([candidates.ids, ids[new]])
    all_ms = np.concatenate([candidates.ms, ms[new]])
    rows = newest_first(all_ms, all_ids)
    columns = {
        "source": np.concatenate([candidates["source"], source[new]])[rows],
        "out_of_network": rows >= len(candidates),
    }
    return Candidates(all_ids[rows], all_ms[rows], columns)


def _end_to_end(found: list[Found]) -> tuple[Ids, Ids, Column]:
    """Put lists one after the other: ids, times and codes of sources, each (n,)."""
    ids = np.concatenate([empty_ids(), *(part.ids for part in found)])
    ms = np.concatenate([empty_ids(), *(part.ms for part in found)])
    codes = [np.full(len(part.ids), SOURCE_CODE[part.source], dtype=np.int8) for part in found]
    return ids, ms, np.concatenate([np.empty(0, dtype=np.int8), *codes])


def oldest_of_newest(candidates: Candidates, n: int) -> Key:
    """Return the place of the nth newest row, or `OLDEST` when there are fewer than n."""
    if len(candidates) < n:
        return OLDEST
    return Key(int(candidates.ms[n - 1]), int(candidates.ids[n - 1]))
