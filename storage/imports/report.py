"""What an import says while it runs and when it has ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Refusal:
    """One row that was not imported, and why. `line` is where the row begins, from 1."""

    file: str
    line: int
    code: str
    detail: str


@dataclass(frozen=True)
class Counts:
    """What became of the rows of one file; `unchanged` ones were there already."""

    read: int
    written: int
    refused: int

    @property
    def unchanged(self) -> int:
        """The rows that were there already, with the same content."""
        return self.read - self.written - self.refused


@dataclass(frozen=True)
class Report:
    """What an import did, by kind of row; kinds without a file are not in it."""

    counts: Mapping[str, Counts]
    shift_ms: int

    @property
    def written(self) -> int:
        """Rows written, of all kinds."""
        return sum(each.written for each in self.counts.values())

    @property
    def refused(self) -> int:
        """Rows refused, of all kinds."""
        return sum(each.refused for each in self.counts.values())


class Listener(Protocol):
    """Is told how an import goes on."""

    def progress(self, step: str, done: int, total: int) -> None:
        """Hear that `done` of `total` of this step is done; each step ends with both equal."""
        ...

    def refused(self, refusal: Refusal) -> None:
        """Hear of one refused row; there may be millions, so do not keep them all."""
        ...


class Silence:
    """A listener that does nothing."""

    def progress(self, step: str, done: int, total: int) -> None:
        """Ignore it."""

    def refused(self, refusal: Refusal) -> None:
        """Ignore it; the report still counts it."""
