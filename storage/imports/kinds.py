"""What the steps of an import share: the shape of a step, and the terms of this import."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from storage.connections import Connection
from storage.imports.fields import Field


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the statements of all steps are given, each by its name."""

    shift_ms: int
    now_ms: int
    future_clamp_ms: int
    half_life_s: int
    pull_from_followers: int


@dataclass(frozen=True)
class Chunk:
    """The rows of a temporary table with places `first` to `last`, written by one transaction."""

    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class Step:
    """One kind of row: how it is read, then checked as a whole, then written in chunks."""

    kind: str
    fields: Sequence[Field]
    """The columns of the file, in the order of `copy`, where the line comes first."""
    create: str
    """Makes the temporary table `staged_{kind}`; each row has its line, and a place from 1 up."""
    copy: str
    """Fills it."""
    prepare: str
    """Gives places and an index on them, and tells the planner, who knows nothing of it."""
    checks: Sequence[str]
    """Each moves the rows that break one rule from it to the table `refused`."""
    write: Callable[[Connection, Chunk, Terms], Awaitable[int]]
    """Writes one chunk in the caller's transaction, and returns how many rows were new."""
    chunk_rows: int = 100_000
    """Places in one chunk: a few seconds of work to do again after a kill."""
