"""Makes the data set of a past: its slates, and for each the facts of its moment."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from feed.affinity import FOLLOW_STRENGTH, affinity
from feed.candidates import FORMATS, SOURCE_CODE, SOURCES
from feed.order import Ids, Mask, Rows
from feed.settings import Settings
from rankers.features import NAMES, Facts, Matrix, build, schema_hash
from training.baselines import by_affinity_decay
from training.dataset import HEADS, About, Column, Dataset, Words
from training.history import GRADES, History
from training.past_facts import Past
from training.past_slates import WINDOW_H, WINDOW_MS, Gathered, Slates, slates

COLD_ACTS = 5
"""A viewer with fewer engagements before the moment is cold."""

COLD_POSTS = 5
"""An author with fewer posts before the moment is cold."""

HOUR_MS, DAY_MS = 3_600_000, 86_400_000

Progress = Callable[[int, int], None]


def past_dataset(
    history: History,
    gathered: Gathered = "public",
    progress: Progress | None = None,
    settings: Settings | None = None,
) -> Dataset:
    """Return the slates of a past on which somebody engaged with something.

    The rest is left out and counted: in a past without impressions nobody knows whether a slate
    without an engagement was looked at.
    """
    found = slates(history, gathered, settings)
    engaged = np.bincount(found.visit, weights=found.label > 0, minlength=len(found.visits.viewer))
    kept = engaged[found.visit] > 0
    visit, post = found.visit[kept], found.post[kept]
    followed, label = found.followed[kept], found.label[kept]
    of_query, starts = np.unique(visit, return_index=True)
    starts = np.append(starts, len(visit)).astype(np.int64)
    facts = _Facts(history, found, post, visit, followed)
    matrix = np.empty((len(visit), len(NAMES)), dtype=np.float32)
    for n, (begin, end) in enumerate(pairwise(starts.tolist())):
        matrix[begin:end] = build(facts.of(slice(begin, end)))
        if progress:
            progress(n + 1, len(of_query))
    counts = {
        "visits": len(found.visits.viewer),
        "visits_with_nothing_in_reach": len(found.visits.viewer) - len(of_query),
        "engagements_out_of_reach": found.n_out_of_reach,
        "queries": len(of_query),
        "rows": len(visit),
    }
    return _dataset(facts, found, of_query, starts, matrix, label, counts)


class _Facts:
    """The raw columns (n,) of all rows, and the facts of one slate as a cut of them."""

    def __init__(
        self, history: History, found: Slates, post: Rows, visit: Rows, followed: Mask
    ) -> None:
        posts, past = history.posts, Past(history)
        self.viewer, self.at_ms = found.visits.viewer[visit], found.visits.at_ms[visit]
        self.post_id, self.author, self.format = (
            column[post] for column in (posts.ids, posts.author, posts.format)
        )
        self.source = np.where(followed, SOURCE_CODE["pushed_feed"], SOURCE_CODE["popular"])
        at, author, viewer = self.at_ms, self.author, self.viewer
        pair = past.pair(viewer, author)
        unknown = np.full(len(post), np.nan)
        self.viewer_engaged = past.did.before(viewer, at)
        self.author_posts = past.posted.before(author, at)
        self._formats = np.column_stack(
            [past.formats_of(viewer, np.full(len(post), code), at) for code in range(len(FORMATS))]
        )
        self._scalars: Mapping[str, Any] = {
            "viewer_engaged": self.viewer_engaged,
            "viewer_engaged_24h": past.did.since(viewer, at - DAY_MS, at),
            "viewer_follows": past.follows.before(viewer, at),
        }
        strength = past.strength_at(pair, at) + np.where(followed, FOLLOW_STRENGTH, 0.0)
        self._columns: Mapping[str, Any] = {
            "ms": posts.ms[post],
            "format": self.format,
            "source": self.source,
            "chars": posts.chars[post].astype(np.float64),
            "same_language": unknown,
            "likes": past.of_post("like").before(post, at),
            "comments": past.of_post("comment").before(post, at),
            "shares": past.of_post("share").before(post, at),
            "impressions": unknown,
            "engaged_1h": past.engagements.since(post, at - HOUR_MS, at),
            "engaged_24h": past.engagements.since(post, at - DAY_MS, at),
            "author_followers": past.followers.before(author, at),
            "author_posts": self.author_posts,
            "author_posts_7d": past.posted.since(author, at - 7 * DAY_MS, at),
            "author_engaged": sum(past.received(grade).before(author, at) for grade in GRADES),
            "author_first_ms": past.posted.first_ms(author, at),
            "affinity": affinity(strength),
            "engaged_author_ms": past.between.last_ms(pair, at),
            "engaged_back": past.between.before(past.pair(author, viewer), at),
            "followed_ms": past.followed.first_ms(pair, at),
            "seen": unknown,
        }

    def of(self, rows: slice) -> Facts:
        """Return the facts of one slate."""
        first = rows.start
        scalars: dict[str, Any] = {name: each[first] for name, each in self._scalars.items()}
        columns: dict[str, Any] = {name: each[rows] for name, each in self._columns.items()}
        return Facts(
            now_ms=int(self.at_ms[first]),
            viewer_formats=self._formats[first],
            **scalars,
            **columns,
        )


def _dataset(
    facts: _Facts,
    found: Slates,
    of_query: Rows,
    starts: Ids,
    matrix: Matrix,
    label: Column,
    counts: dict[str, int],
) -> Dataset:
    n, sizes = len(matrix), np.diff(starts)
    about = About(
        features=NAMES,
        schema_hash=schema_hash(),
        label_window_h=WINDOW_H,
        from_ms=int(facts.at_ms.min()),
        until_ms=int(facts.at_ms.max()) + WINDOW_MS,
        counts=counts,
    )
    columns = {
        "viewer_id": facts.viewer,
        "post_id": facts.post_id,
        "author_id": facts.author,
        "at_ms": facts.at_ms,
        "position": (np.arange(n) - np.repeat(starts[:-1], sizes)).astype(np.int32),
        "heavy_score": np.full(n, np.nan),
        "propensity": np.ones(n),
        "explored": np.zeros(n, dtype=np.bool_),
        "shown": np.ones(n, dtype=np.bool_),
        "label": label,
        **{head: label == grade for grade, head in enumerate(HEADS, start=1)},
        "censored": np.zeros(n, dtype=np.bool_),
        "cold_viewer": facts.viewer_engaged < COLD_ACTS,
        "cold_author": facts.author_posts < COLD_POSTS,
    }
    words = {
        "source": Words(facts.source.astype(np.int32), SOURCES),
        "ranker": Words(np.zeros(n, dtype=np.int32), ("chronological",)),
        "format": Words(facts.format.astype(np.int32), FORMATS),
    }
    queries = np.array([f"visit-{visit:07d}" for visit in of_query], dtype=object)
    whole = Dataset(about, queries, starts, columns, words, matrix)
    return _with_light_score(whole)


def _with_light_score(dataset: Dataset) -> Dataset:
    columns = {**dataset.columns, "light_score": by_affinity_decay(dataset)}
    return Dataset(
        dataset.about, dataset.queries, dataset.starts, columns, dataset.words, dataset.matrix
    )
