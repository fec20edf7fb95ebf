"""What was known at each moment of a past, as the raw columns that the feature builder reads.

Everything is counted from what happened strictly before the moment, never from what a table says
today: a count of likes grows while one reads on, and would tell what is to come.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from feed.order import Ids, Rows
from training.history import ANONYMOUS, GRADES, History
from training.tally import Tally

Amounts = npt.NDArray[np.float64]

HALF_LIFE_MS = 30 * 86_400_000
"""Of an affinity, as the service's own setting has it."""

STRENGTH = np.zeros(len(GRADES) + 1)
STRENGTH[[GRADES["click"], GRADES["like"], GRADES["comment"], GRADES["share"]]] = 0.5, 1, 3, 3
"""What each grade adds to the strength of an affinity, as in `storage.engagements`."""


@dataclass(frozen=True)
class Moments:
    """Rows (n,): who looks, at which post (a row of `Posts`), and when."""

    viewer: Ids
    post: Rows
    at_ms: Ids


class Past:
    """A history, ready to be asked what was known before a moment."""

    def __init__(self, history: History) -> None:
        """Take a history."""
        posts, acts = history.posts, history.acts
        self._history = history
        self._ids = np.unique(np.concatenate((posts.author, acts.viewer, history.follows.follower)))
        self._acting = np.flatnonzero(acts.viewer != ANONYMOUS)
        others = posts.author[acts.post] != acts.viewer
        self._by_others = np.flatnonzero(others)
        self._known = np.flatnonzero(others & (acts.viewer != ANONYMOUS))

    def pair(self, one: Ids, other: Ids) -> Ids:
        """Number pairs of people (n,)."""
        n = len(self._ids)
        return np.searchsorted(self._ids, one) * n + np.searchsorted(self._ids, other)

    def of_post(self, grade: str) -> Tally:
        """Count the engagements of one grade that each post got."""
        acts = self._history.acts
        rows = np.flatnonzero(acts.grade == GRADES[grade])
        return Tally(key=acts.post[rows], ms=acts.ms[rows])

    @cached_property
    def engagements(self) -> Tally:
        """Count what each post got, of any grade."""
        acts = self._history.acts
        return Tally(key=acts.post, ms=acts.ms)

    @cached_property
    def posted(self) -> Tally:
        """Count what each author wrote."""
        posts = self._history.posts
        return Tally(key=posts.author, ms=posts.ms)

    def received(self, grade: str) -> Tally:
        """Count the engagements of one grade that each author's posts got."""
        acts, posts = self._history.acts, self._history.posts
        rows = np.flatnonzero(acts.grade == GRADES[grade])
        return Tally(key=posts.author[acts.post[rows]], ms=acts.ms[rows])

    @cached_property
    def did(self) -> Tally:
        """Count what each viewer did."""
        acts = self._history.acts
        return Tally(key=acts.viewer[self._acting], ms=acts.ms[self._acting])

    @cached_property
    def between(self) -> Tally:
        """Count what each viewer did with each author's posts."""
        return self._between(None)

    @cached_property
    def strength(self) -> Tally:
        """Sum the strength of affinities as if at the first moment: it halves in a half-life."""
        acts = self._history.acts
        grown = (acts.ms[self._known] - self._first_ms) / HALF_LIFE_MS
        return self._between(STRENGTH[acts.grade[self._known]] * np.exp2(grown))

    def strength_at(self, pair: Ids, at_ms: Ids) -> Amounts:
        """Return the strength of each pair's affinity (n,) at its moment."""
        passed = (at_ms - self._first_ms) / HALF_LIFE_MS
        return np.asarray(self.strength.before(pair, at_ms) * np.exp2(-passed))

    @cached_property
    def followed(self) -> Tally:
        """Note since when each viewer follows each author."""
        follows = self._history.follows
        return Tally(key=self.pair(follows.follower, follows.followee), ms=follows.ms)

    @cached_property
    def followers(self) -> Tally:
        """Count the followers of each author."""
        follows = self._history.follows
        return Tally(key=follows.followee, ms=follows.ms)

    @cached_property
    def follows(self) -> Tally:
        """Count whom each viewer follows."""
        follows = self._history.follows
        return Tally(key=follows.follower, ms=follows.ms)

    def formats_of(self, viewer: Ids, code: Ids, at_ms: Ids) -> Amounts:
        """Count what each viewer did with posts of each format (n,)."""
        return self._formats.before(np.searchsorted(self._ids, viewer) * 16 + code, at_ms)

    @cached_property
    def _formats(self) -> Tally:
        acts, posts = self._history.acts, self._history.posts
        viewer = np.searchsorted(self._ids, acts.viewer[self._known])
        return Tally(
            key=viewer * 16 + posts.format[acts.post[self._known]], ms=acts.ms[self._known]
        )

    def _between(self, weight: Amounts | None) -> Tally:
        acts, posts = self._history.acts, self._history.posts
        pair = self.pair(acts.viewer[self._known], posts.author[acts.post[self._known]])
        return Tally(key=pair, ms=acts.ms[self._known], weight=weight)

    @property
    def _first_ms(self) -> int:
        return int(self._history.posts.ms[0])
