"""Makes a data set from a past in which nothing was logged: slates people could really have seen.

A *visit* of a person begins with the first thing they did after half an hour of nothing. Its slate
is gathered a moment before, in one of two ways. `public`: the newest posts of everybody else, as on
a front page that all share. `network`: what our own recipe would have gathered, the newest posts of
those whom the person followed by then, and what was popular from outside, by the same bounds. What
the person did in that visit, within the hour, are the labels. No negatives are sampled: the rows
without a label are posts that stood there as well.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from feed.order import Ids, Mask, Rows
from feed.settings import Settings
from storage.discovery import HALF_LIFE_S
from training.history import ANONYMOUS, GRADES, Acts, History

Gathered = Literal["public", "network"]

PAUSE_MS = 30 * 60_000
WINDOW_H = 1.0
WINDOW_MS = 3_600_000
PER_AUTHOR = 2
"""Popular posts of one author at most, as in the recipe."""

REMEMBERED_MS = 16 * HALF_LIFE_S * 1000
"""Older engagements add less than one in 60,000 to what is popular."""

WEIGHT = np.zeros(len(GRADES) + 1)
WEIGHT[[GRADES["like"], GRADES["comment"], GRADES["share"]]] = 1, 3, 2
"""What an engagement adds to how popular a post is."""


@dataclass(frozen=True)
class Visits:
    """Visits (v,) in order of time, and to which of them each act (a,) belongs, -1: to none."""

    viewer: Ids
    at_ms: Ids
    of_act: Rows


@dataclass(frozen=True)
class Slates:
    """The rows (n,) of all slates: of which visit, which post (a row of `Posts`), and its label.

    `followed` are rows of authors whom the viewer followed by then.
    `n_out_of_reach` acts were on posts that stood in no slate, or were written during the visit.
    """

    visits: Visits
    visit: Rows
    post: Rows
    followed: Mask
    label: npt.NDArray[np.int8]
    n_out_of_reach: int


def visits(acts: Acts) -> Visits:
    """Find the visits of everybody who is known by name."""
    rows = np.flatnonzero(acts.viewer != ANONYMOUS)
    rows = rows[np.lexsort((acts.ms[rows], acts.viewer[rows]))]
    viewer, ms = acts.viewer[rows], acts.ms[rows]
    begins = np.ones(len(rows), dtype=np.bool_)
    begins[1:] = (np.diff(viewer) != 0) | (np.diff(ms) > PAUSE_MS)
    first = np.flatnonzero(begins)
    by_time = np.lexsort((viewer[first], ms[first]))
    rank = np.empty(len(first), dtype=np.intp)
    rank[by_time] = np.arange(len(first))
    of_act = np.full(len(acts.ms), -1, dtype=np.intp)
    of_act[rows] = rank[np.cumsum(begins) - 1]
    return Visits(viewer[first][by_time], ms[first][by_time], of_act)


def slates(
    history: History, gathered: Gathered = "public", settings: Settings | None = None
) -> Slates:
    """Return the slate of each visit, newest first, with what came of it."""
    found = visits(history.acts)
    gathering = _Gathering(history, gathered, settings or Settings())
    both = [gathering.at(int(v), int(t)) for v, t in zip(found.viewer, found.at_ms, strict=True)]
    visit = np.repeat(np.arange(len(both)), [len(post) for post, _ in both])
    post = np.concatenate([np.empty(0, dtype=np.intp), *(post for post, _ in both)])
    followed = np.concatenate([np.empty(0, dtype=np.bool_), *(mask for _, mask in both)])
    label, n_out = _labels(history, found, visit, post)
    return Slates(found, visit, post, followed, label, n_out)


class _Gathering:
    """The sources of slates, over a past."""

    def __init__(self, history: History, gathered: Gathered, settings: Settings) -> None:
        self._history, self._gathered = history, gathered
        self._room, self._discoveries = settings.candidates, settings.discoveries
        self._least = settings.popular_from
        posts = history.posts
        self._original = (posts.original == 0) & (posts.answered == 0)

    def at(self, viewer: int, at_ms: int) -> tuple[Rows, Mask]:
        """Return rows of posts, newest first, and which of them are of followed authors."""
        posts, follows = self._history.posts, self._history.follows
        known = follows.followee[(follows.follower == viewer) & (follows.ms < at_ms)]
        author = posts.author[: np.searchsorted(posts.ms, at_ms)]
        followed = np.isin(author, known)
        others = author != viewer
        if self._gathered == "public":
            rows = np.flatnonzero(others)[-self._room :]
        else:
            pushed = np.flatnonzero(followed & others)[-self._room :]
            rows = np.sort(np.concatenate((pushed, self._popular(~followed & others, at_ms))))
        return rows[::-1], followed[rows[::-1]]

    def _popular(self, outside: Mask, at_ms: int) -> Rows:
        """Return the hottest originals among the first posts, marked by `outside`."""
        acts, author = self._history.acts, self._history.posts.author
        begin, end = np.searchsorted(acts.ms, (at_ms - REMEMBERED_MS, at_ms))
        passed_s = (at_ms - acts.ms[begin:end]) / 1000
        weight = WEIGHT[acts.grade[begin:end]] * np.exp2(-passed_s / HALF_LIFE_S)
        heat = np.bincount(acts.post[begin:end], weights=weight, minlength=len(author))
        heat = heat[: len(outside)]
        hot = np.flatnonzero(outside & self._original[: len(outside)] & (heat >= self._least))
        hot = hot[np.lexsort((-hot, -heat[hot]))]
        kept = np.fromiter(_first_of_each(author[hot].tolist()), dtype=np.bool_, count=len(hot))
        return hot[kept][: self._discoveries]


def _first_of_each(authors: list[int]) -> Iterator[bool]:
    """Say of each row whether its author has had fewer rows than one may have."""
    had: dict[int, int] = {}
    for author in authors:
        had[author] = had.get(author, 0) + 1
        yield had[author] <= PER_AUTHOR


def _labels(
    history: History, found: Visits, visit: Rows, post: Rows
) -> tuple[npt.NDArray[np.int8], int]:
    """Return the best grade that each row earned in its visit, and how many acts found no row."""
    acts, n_posts = history.acts, len(history.posts.ids)
    own = history.posts.author[acts.post] == acts.viewer
    rows = np.flatnonzero((found.of_act >= 0) & ~own)
    rows = rows[acts.ms[rows] < found.at_ms[found.of_act[rows]] + WINDOW_MS]
    place = visit * n_posts + post
    by_place = np.argsort(place)
    wanted = found.of_act[rows] * n_posts + acts.post[rows]
    at = np.minimum(np.searchsorted(place[by_place], wanted), max(len(place) - 1, 0))
    at = by_place[at] if len(place) else at
    there = place[at] == wanted if len(place) else np.zeros(len(rows), dtype=np.bool_)
    label = np.zeros(len(place), dtype=np.int8)
    np.maximum.at(label, at[there], acts.grade[rows[there]].astype(np.int8))
    return label, int((~there).sum())
