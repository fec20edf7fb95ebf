"""What was on a viewer's screen lately, and how much of it still counts. Pure.

An impression is what a client reports as seen; what was only served is none, and neither is a
like. Impressions fade: each halves every half-life.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from feed.candidates import empty_ids
from feed.order import Ids

REMEMBERED_AUTHORS = 64

Weights = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Seen:
    """Impressions of one viewer (m,): the post, its author, and when, in seconds of the epoch.

    One post is on the screen once in a second: a row that comes twice is one impression.
    """

    posts: Ids = field(default_factory=empty_ids)
    authors: Ids = field(default_factory=empty_ids)
    at_s: Ids = field(default_factory=empty_ids)

    def __len__(self) -> int:
        """Return m."""
        return len(self.posts)

    def since(self, oldest_s: float) -> "Seen":
        """Return the impressions (k,) from then on, each once."""
        recent = np.flatnonzero(self.at_s >= oldest_s)
        order = recent[np.lexsort((self.at_s[recent], self.posts[recent]))]
        posts, at_s = self.posts[order], self.at_s[order]
        again = np.zeros(len(order), dtype=np.bool_)
        again[1:] = (posts[1:] == posts[:-1]) & (at_s[1:] == at_s[:-1])
        rows = order[~again]
        return Seen(self.posts[rows], self.authors[rows], self.at_s[rows])


def times_seen(seen: Seen, originals: Ids, ids: Ids, now_s: float, half_life_s: float) -> Weights:
    """Return for each post (n,) the sum over its impressions of 0.5^(age / half-life).

    Posts that show one original (n,) share their impressions: whoever saw it through one repost
    has seen it.

    >>> seen = Seen(np.array([7, 7]), np.array([1, 1]), np.array([900, 1000]))
    >>> times_seen(seen, np.array([7, 8]), np.array([7, 8]), now_s=1000, half_life_s=100).tolist()
    [1.5, 0.0]
    """
    each = _looked_up(*_summed(seen.posts, faded(seen, now_s, half_life_s)), ids)
    rows = np.flatnonzero(each)
    return _looked_up(*_summed(originals[rows], each[rows]), originals)


def authors_seen(seen: Seen, authors: Ids, now_s: float, half_life_s: float) -> Weights:
    """Return for each of these authors (n,) the sum over impressions of 0.5^(age / half-life).

    Only the 64 authors who were seen last are remembered; others have 0.
    """
    known, sums = _summed(seen.authors, faded(seen, now_s, half_life_s))
    if len(known) > REMEMBERED_AUTHORS:
        last_s = np.zeros(len(known), dtype=np.int64)
        np.maximum.at(last_s, np.searchsorted(known, seen.authors), seen.at_s)
        latest = np.sort(np.lexsort((known, last_s))[-REMEMBERED_AUTHORS:])
        known, sums = known[latest], sums[latest]
    return _looked_up(known, sums, authors)


def faded(seen: Seen, now_s: float, half_life_s: float) -> Weights:
    """Return what each impression (m,) counts for: 1 when it is new, or ahead of our clock."""
    age_s = np.maximum(now_s - seen.at_s, 0.0)
    return np.asarray(0.5 ** (age_s / half_life_s), dtype=np.float64)


def _summed(keys: Ids, weights: Weights) -> tuple[Ids, Weights]:
    """Sum weights (m,) by key (m,): the keys (k,), ascending, and their sums (k,)."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.ones(len(keys), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(weights[order], starts) if len(keys) else weights
    return ordered[starts], sums


def _looked_up(known: Ids, sums: Weights, wanted: Ids) -> Weights:
    """Return the sums of the wanted keys (n,), 0 for those that are not known."""
    if not len(known):
        return np.zeros(len(wanted))
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, sums[at], 0.0)
