"""Joins what viewers did to the rows that they were served, and grades each row by it."""

from dataclasses import dataclass

import numpy as np

from feed.order import Ids, Mask, Rows
from storage.engagements import LONG_DWELL_MS
from storage.learning import TYPE_CODE, Acts
from training.dataset import HEADS, Column

SKEW_MS = 5 * 60_000
"""An event that names its slate may come so much before it: its clock is behind."""


@dataclass(frozen=True)
class Joined:
    """Acts (a,), and for each the row (of n) that it is about, -1: none; was it in the window?"""

    acts: Acts
    row: Rows
    n: int
    in_time: Mask
    late: Mask

    def labels(self) -> dict[str, Column]:
        """Return for each row (n,) whether it was shown, what was done about it, and its label.

        The label is that of the most that was done; a complaint undoes it.
        """
        done: dict[str, Mask] = {
            "shown": self._done("impression"),
            "clicked": self._done("click"),
            "liked": self._liked(),
            "commented": self._done("comment"),
            "shared": self._done("share"),
        }
        label = np.zeros(self.n, dtype=np.int8)
        label[self._marked(self._of("dwell") & (self.acts.dwell_ms >= LONG_DWELL_MS))] = 2
        for grade, name in enumerate(HEADS, start=1):
            label[done[name]] = np.maximum(label[done[name]], grade)
        label[self._done("not_interested", "report")] = 0
        return {**done, "label": label}

    def counts(self) -> dict[str, int]:
        """Count the events that name one of these slates, and what is odd about them."""
        named, impressions = self.acts.named == 1, self.acts.type == TYPE_CODE["impression"]
        late = named & self.late
        return {
            "events": int(named.sum()),
            "events_of_rows_not_logged": int((named & (self.row < 0)).sum()),
            "events_out_of_the_window": int((named & (self.row >= 0) & ~self.in_time).sum()),
            "events_that_came_late": int(late.sum()),
            "impressions_that_came_late": int((late & impressions).sum()),
            "duplicate_impressions": self._n_twice(named & impressions),
        }

    def _of(self, *types: str) -> Mask:
        """Say which acts (a,) are of these types, about a row, and in time."""
        codes = [TYPE_CODE[name] for name in types]
        return (self.row >= 0) & self.in_time & np.isin(self.acts.type, codes)

    def _done(self, *types: str) -> Mask:
        return self._marked(self._of(*types))

    def _marked(self, which: Mask) -> Mask:
        marked: Mask = np.zeros(self.n, dtype=np.bool_)
        marked[self.row[which]] = True
        return marked

    def _liked(self) -> Mask:
        """Say of each row whether it was liked, and not unliked later within the window."""
        liked: Mask = np.zeros(self.n, dtype=np.bool_)
        which = np.flatnonzero(self._of("like", "unlike"))
        which = which[np.argsort(self.acts.at_ms[which], kind="stable")]
        liked[self.row[which]] = self.acts.type[which] == TYPE_CODE["like"]  # the last one stays
        return liked

    def _n_twice(self, which: Mask) -> int:
        """Count impressions of one row of one snapshot beyond the first."""
        columns = (self.acts.slate, self.acts.post, self.acts.position)
        keys = np.stack([column[which] for column in columns])
        return int(which.sum()) - int(np.unique(keys, axis=1).shape[1])


def joined(group: Rows, ids: Ids, at_ms: Ids, acts: Acts, *, window_ms: int) -> Joined:
    """Join acts to rows (n,), each of a slate `group` and a post `ids`; slates begin at `at_ms`."""
    served_ms = at_ms[acts.slate]
    ahead_ms = np.where(acts.named == 1, SKEW_MS, 0)
    in_time = (acts.at_ms >= served_ms - ahead_ms) & (acts.at_ms < served_ms + window_ms)
    late = acts.received_ms >= served_ms + window_ms
    return Joined(acts, _rows_of(group, ids, acts), len(ids), in_time, late)


def _rows_of(group: Rows, ids: Ids, acts: Acts) -> Rows:
    """Return the row that each act (a,) is about, -1: none of these."""
    posts, post = np.unique(ids, return_inverse=True)
    key = group * len(posts) + post
    order = np.argsort(key, kind="stable")
    at = np.minimum(np.searchsorted(posts, acts.post), len(posts) - 1)
    asked = acts.slate * len(posts) + at
    place = np.minimum(np.searchsorted(key[order], asked), len(key) - 1)
    found = (key[order][place] == asked) & (posts[at] == acts.post)
    return np.where(found, order[place], -1)
