"""A chain: what one chain of cursors was served, in order, so that nothing comes twice."""

from dataclasses import dataclass, field

import numpy as np

from feed.candidates import empty_ids
from feed.order import Ids


@dataclass(frozen=True)
class Chain:
    """Rows that were looked at (n,), and the original that each showed, 0 where none could be.

    A row that showed nothing is not looked at again, but what it would have shown may still
    come by itself, or through another repost.
    """

    ids: Ids = field(default_factory=empty_ids)
    shows: Ids = field(default_factory=empty_ids)

    def __len__(self) -> int:
        """Return n."""
        return len(self.ids)

    @property
    def originals(self) -> Ids:
        """The originals that were shown."""
        return np.asarray(self.shows[self.shows != 0])

    def known(self) -> "Chain":
        """Return the rows that are not lost: a row that no memory holds has id 0."""
        rows = self.ids != 0
        return Chain(self.ids[rows], self.shows[rows])
