"""The kinds of stage a recipe is made of. The runner (`mixer.pipeline`) checks every shape."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from feed.candidates import Candidates, Column, Found, Gaps
from feed.order import Key, Mask
from feed.query import Query


class Source(Protocol):
    """Finds ids in one list."""

    name: str

    async def find(self, query: Query) -> Found:
        """Return the newest rows below `query.before`, and where the list is silent."""
        ...

    def unknown(self, query: Query) -> Gaps:
        """Return what is unknown when this source fails: never "nothing there"."""
        ...


class GapFiller(Protocol):
    """Reads from the truth what cached lists are silent about."""

    name: str

    async def fill(self, query: Query, gaps: Gaps, down_to: Key) -> Found:
        """Return posts of each gap's author, at or below its key, at or above `down_to`.

        At most `query.n` an author, the newest first; complete for the newest n overall.
        """
        ...


class Hydrator(Protocol):
    """Fills in facts."""

    name: str

    async def hydrate(self, query: Query, candidates: Candidates) -> dict[str, Column]:
        """Return columns (n,), aligned with the candidates."""
        ...


class Filter(Protocol):
    """Removes rows that cannot be shown; relevance only, safety is the page query's."""

    name: str

    def keep(self, query: Query, candidates: Candidates) -> Mask:
        """Return a mask (n,): True stays."""
        ...


class Scorer(Protocol):
    """Orders: a score per row, larger is better."""

    name: str

    def score(self, candidates: Candidates, now_ms: int) -> npt.NDArray[np.float64]:
        """Return finite scores (n,)."""
        ...


class Rule(Protocol):
    """Applies one diversity rule to the ordered list.

    A rule that gives way where it cannot hold has a method `relaxed` too: from the list as it left
    it to the number of rows at which each limit gave way.
    """

    name: str

    def apply(self, candidates: Candidates) -> Candidates:
        """Return the same rows in their new order; only a collapsing rule returns fewer."""
        ...
