"""The query: one viewer asking for one page, with what is known of the viewer."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from feed.candidates import empty_ids
from feed.order import Ids, Key
from feed.seen import Seen

Mode = Literal["ranked", "chronological"]
ModeReason = Literal[
    "request", "preference", "override", "cohort", "rollout", "holdout", "default",
    "kill_switch", "fallback",
]  # fmt: skip


@dataclass(frozen=True)
class Viewer:
    """What is known of a viewer at the open. Only pre-filters: the page query decides.

    All id columns are sorted. `strength` is aligned with `engaged_authors` (`feed.affinity`).
    """

    id: int
    reads_lists: bool = True  # cached ones; else the followees are read from Postgres
    followees: Ids = field(default_factory=empty_ids)
    pulled: Ids = field(default_factory=empty_ids)  # the followees who are read from their outboxes
    hidden_authors: Ids = field(default_factory=empty_ids)  # blocked either way, or muted
    unfollowed: Ids = field(default_factory=empty_ids)  # followed once, and not any more
    engaged_authors: Ids = field(default_factory=empty_ids)
    strength: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    seen: Seen | None = None  # read for a ranked feed only; None: not known

    @cached_property
    def heard(self) -> Ids:
        """The followees who are not hidden, sorted: of the others nothing need be read."""
        return np.setdiff1d(self.followees, self.hidden_authors, assume_unique=True)

    @property
    def pushed(self) -> Ids:
        """The followees whose posts are in the pushed feed, heard or not."""
        if not self.reads_lists:
            return empty_ids()
        return np.setdiff1d(self.followees, self.pulled, assume_unique=True)

    @property
    def heard_pushed(self) -> Ids:
        """Those of them who are heard."""
        return np.setdiff1d(self.pushed, self.hidden_authors, assume_unique=True)

    @property
    def outboxes(self) -> Ids:
        """The heard ones who are read from their outboxes."""
        return np.setdiff1d(self.pulled, self.hidden_authors, assume_unique=True)

    @property
    def straight(self) -> Ids:
        """The heard ones who are read from Postgres."""
        return empty_ids() if self.reads_lists else self.heard

    @property
    def heard_authors(self) -> Ids:
        """Those who are heard, and the viewer; sorted."""
        return np.union1d(self.heard, np.array([self.id], dtype=np.int64))

    @cached_property
    def authors(self) -> Ids:
        """Whose posts are in-network: the followees and the viewer, sorted."""
        return np.union1d(self.followees, np.array([self.id], dtype=np.int64))

    @cached_property
    def known(self) -> Ids:
        """Whose posts are no discovery: in-network, hidden, or left behind; sorted."""
        return np.union1d(self.authors, np.union1d(self.hidden_authors, self.unfollowed))


@dataclass(frozen=True)
class Query:
    """One request to gather candidates: the newest `n` strictly below `before`.

    `discover`: with posts from outside the network.
    """

    viewer: Viewer
    n: int
    before: Key
    now_ms: int
    discover: bool = False
