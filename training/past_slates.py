"""Makes a data set from a past in which nothing was logged: slates people could really have seen.

A *visit* of a person begins with the first thing they did after half an hour of nothing. Its slate
is what a plain feed would have held a moment before: the newest posts of others, however many the
slate has room for, in order of time. What the person did in that visit, within the hour, are the
labels. No negatives are sampled: the rows without a label are posts that stood there as well.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from feed.order import Ids, Rows
from training.history import ANONYMOUS, Acts, History, Posts

PAUSE_MS = 30 * 60_000
WINDOW_H = 1.0
WINDOW_MS = 3_600_000
SLATE = 200


@dataclass(frozen=True)
class Visits:
    """Visits (v,) in order of time, and to which of them each act (a,) belongs, -1: to none."""

    viewer: Ids
    at_ms: Ids
    of_act: Rows


@dataclass(frozen=True)
class Slates:
    """The rows (n,) of all slates: of which visit, which post (a row of `Posts`), and its label.

    `n_out_of_reach` acts were on posts that stood in no slate: too old, or written during the
    visit.
    """

    visits: Visits
    visit: Rows
    post: Rows
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


def slates(history: History, room: int = SLATE) -> Slates:
    """Return the slate of each visit, newest first, with what came of it."""
    found = visits(history.acts)
    shown = [
        _slate(history.posts, int(viewer), int(at), room)
        for viewer, at in zip(found.viewer, found.at_ms, strict=True)
    ]
    visit = np.repeat(np.arange(len(shown)), [len(each) for each in shown])
    post = np.concatenate(shown) if shown else np.empty(0, dtype=np.intp)
    label, n_out = _labels(history, found, visit, post)
    return Slates(found, visit, post, label, n_out)


def _slate(posts: Posts, viewer: int, at_ms: int, room: int) -> Rows:
    """Return the rows of the newest posts of others, newest first; posts are in order of time."""
    end = int(np.searchsorted(posts.ms, at_ms))
    begin = end
    taken: list[Rows] = []
    missing = room
    while missing > 0 and begin > 0:
        begin, last = max(0, begin - missing), begin
        rows = np.arange(begin, last)[::-1]
        taken.append(rows[posts.author[rows] != viewer])
        missing = room - sum(map(len, taken))
    return np.concatenate(taken) if taken else np.empty(0, dtype=np.intp)


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
