"""What the steps of an import share: the shape of a step, and the terms of this import."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

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
    delivery: Literal["hybrid", "push", "pull"]


@dataclass(frozen=True)
class Lines:
    """One chunk of a file: the rows that begin on lines `first` to `last`."""

    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class Step:
    """One kind of row: how it is read, then checked as a whole, then written in chunks."""

    kind: str
    fields: Sequence[Field]
    """The columns of the file, in the order of `copy`, where the line comes first."""
    create: str
    """Makes the temporary table `staged_{kind}`."""
    copy: str
    """Fills it."""
    prepare: str
    """Indexes it: chunks are found by line, and the planner knows nothing of it by itself."""
    checks: Sequence[str]
    """Each moves the rows that break one rule from it to the table `refused`."""
    write: Callable[[Connection, Lines, Terms], Awaitable[int]]
    """Writes one chunk in the caller's transaction, and returns how many rows were new."""
    chunk_lines: int = 100_000
    """Lines written by one transaction: a second or so of work to do again after a kill."""
