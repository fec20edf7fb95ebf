"""The features of the heavy ranker: one table, and the only builder of the matrix.

Serving, export, the simulator and data sets made of a past all hand it the same `Facts`, so that
what a ranker was trained on is what it is given. Every feature is float32; NaN means unknown.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from feed.candidates import FORMATS, OUT_OF_NETWORK
from feed.order import Ids

Amounts = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float32]

VERSION = 1
"""Raised when a feature of the same name and unit comes to mean something else."""

UNKNOWN_MS = -1
MS_PER_HOUR = 3_600_000
MS_PER_DAY = 86_400_000

PRIOR_IMPRESSIONS = 20.0
PRIOR_RATE = 0.02
"""What is assumed of a post that hardly anybody saw: one engagement in fifty impressions."""

PRIOR_POSTS = 5.0
PRIOR_ENGAGEMENTS = 1.0
"""What is assumed of an author with hardly any post: one engagement each."""

PRIOR_ACTS = 5.0
"""So many engagements of a viewer count as spread evenly over the formats."""


class Feature(NamedTuple):
    """One column of the matrix; `unknown` says when it is NaN, "" that it never is."""

    name: str
    unit: str
    unknown: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known at `now_ms` of n candidates and of their viewer; nothing later is in it.

    Columns are (n,); a time of -1 and a NaN mean that nothing is known, or that it never happened.
    """

    now_ms: int
    ms: Ids
    format: Ids
    source: Ids
    chars: Amounts
    same_language: Amounts
    likes: Amounts
    comments: Amounts
    shares: Amounts
    impressions: Amounts
    engaged_1h: Amounts
    engaged_24h: Amounts
    author_followers: Amounts
    author_posts: Amounts
    author_posts_7d: Amounts
    author_engaged: Amounts
    author_first_ms: Ids
    affinity: Amounts
    engaged_author_ms: Ids
    engaged_back: Amounts
    followed_ms: Ids
    seen: Amounts
    viewer_engaged: float
    viewer_engaged_24h: float
    viewer_follows: float
    viewer_formats: Amounts
    """Engagements of the viewer by format (len(FORMATS),)."""


_Column = Callable[[Facts], npt.NDArray[np.generic] | float]
_TABLE: tuple[tuple[Feature, _Column], ...] = (
    (
        Feature("age_h", "hours", "", "since the post's effective time"),
        lambda f: np.maximum(f.now_ms - f.ms, 0) / MS_PER_HOUR,
    ),
    (Feature("format", "code", "", "text, image, video or link"), lambda f: f.format),
    (Feature("chars", "characters", "no text at hand", "length of the text"), lambda f: f.chars),
    (
        Feature("same_language", "0 or 1", "a language is unknown", "the viewer reads it"),
        lambda f: f.same_language,
    ),
    (Feature("likes", "likes", "not counted", "of the post so far"), lambda f: f.likes),
    (Feature("comments", "comments", "not counted", "of the post so far"), lambda f: f.comments),
    (Feature("shares", "shares", "not counted", "of the post, reposts too"), lambda f: f.shares),
    (
        Feature("like_rate", "likes per impression", "no impressions counted", "with a prior"),
        lambda f: _rate(f.likes, f.impressions),
    ),
    (
        Feature(
            "comment_rate", "comments per impression", "no impressions counted", "with a prior"
        ),
        lambda f: _rate(f.comments, f.impressions),
    ),
    (
        Feature("engaged_1h", "engagements", "not counted", "of the post in the last hour"),
        lambda f: f.engaged_1h,
    ),
    (
        Feature("engaged_24h", "engagements", "not counted", "of the post in the last 24 hours"),
        lambda f: f.engaged_24h,
    ),
    (
        Feature("velocity", "engagements per hour", "not counted", "over its life, at most a day"),
        lambda f: f.engaged_24h / (np.clip((f.now_ms - f.ms) / MS_PER_HOUR, 0, 24) + 1),
    ),
    (
        Feature("author_followers", "followers", "not counted", "of the author"),
        lambda f: f.author_followers,
    ),
    (Feature("author_posts", "posts", "not counted", "by the author"), lambda f: f.author_posts),
    (
        Feature("author_posts_per_day", "posts per day", "not counted", "over the last week"),
        lambda f: f.author_posts_7d / 7,
    ),
    (
        Feature("author_engaged", "engagements per post", "not counted", "with a prior"),
        lambda f: (
            (f.author_engaged + PRIOR_POSTS * PRIOR_ENGAGEMENTS) / (f.author_posts + PRIOR_POSTS)
        ),
    ),
    (
        Feature("author_days", "days", "no post before", "since the author's first post"),
        lambda f: _since(f.now_ms, f.author_first_ms) / 24,
    ),
    (Feature("affinity", "0.1 to 1", "", "of the viewer to the author"), lambda f: f.affinity),
    (
        Feature("engaged_author_h", "hours", "never", "since the viewer engaged with the author"),
        lambda f: _since(f.now_ms, f.engaged_author_ms),
    ),
    (
        Feature("engaged_back", "engagements", "not counted", "of the author with the viewer"),
        lambda f: f.engaged_back,
    ),
    (
        Feature("followed_h", "hours", "not followed", "since the viewer follows the author"),
        lambda f: _since(f.now_ms, f.followed_ms),
    ),
    (
        Feature("in_network", "0 or 1", "", "the source finds followed authors' posts"),
        lambda f: ~np.isin(f.source, OUT_OF_NETWORK),
    ),
    (Feature("source", "code", "", "which source found it"), lambda f: f.source),
    (Feature("seen", "times", "memory unread", "on this viewer's screen"), lambda f: f.seen),
    (
        Feature("format_share", "0 to 1", "", "of the viewer's engagements, with a prior"),
        lambda f: (
            (f.viewer_formats[f.format] + PRIOR_ACTS / len(FORMATS))
            / (f.viewer_formats.sum() + PRIOR_ACTS)
        ),
    ),
    (
        Feature("viewer_engaged", "engagements", "not counted", "by the viewer so far"),
        lambda f: f.viewer_engaged,
    ),
    (
        Feature("viewer_engaged_24h", "engagements", "not counted", "in the last 24 hours"),
        lambda f: f.viewer_engaged_24h,
    ),
    (
        Feature("viewer_follows", "accounts", "not counted", "that the viewer follows"),
        lambda f: f.viewer_follows,
    ),
    (Feature("hour", "0 to 24", "", "of the day, UTC"), lambda f: f.now_ms / MS_PER_HOUR % 24),
    (
        Feature("weekday", "0 to 6", "", "Monday is 0, UTC"),
        lambda f: (f.now_ms // MS_PER_DAY + 3) % 7,  # 1 January 1970 was a Thursday
    ),
)

FEATURES: tuple[Feature, ...] = tuple(feature for feature, _ in _TABLE)
NAMES: tuple[str, ...] = tuple(feature.name for feature in FEATURES)
_COLUMNS = {feature.name: (feature, column) for feature, column in _TABLE}


def schema_hash(names: Sequence[str] = NAMES) -> str:
    """Return 16 hex digits that change with the names, units, order or version of features."""
    lines = [f"{name},{_COLUMNS[name][0].unit}" for name in names]
    return sha256("\n".join([str(VERSION), *lines]).encode()).hexdigest()[:16]


def build(facts: Facts, names: Sequence[str] = NAMES) -> Matrix:
    """Return the matrix (n, len(names)) of these features, in this order."""
    matrix = np.empty((len(facts.ms), len(names)), dtype=np.float32)
    for place, name in enumerate(names):
        matrix[:, place] = _COLUMNS[name][1](facts)
    return matrix


def _since(now_ms: int, then_ms: Ids) -> Amounts:
    """Return the hours (n,) since a moment, NaN where there was none."""
    return np.where(then_ms == UNKNOWN_MS, np.nan, np.maximum(now_ms - then_ms, 0) / MS_PER_HOUR)


def _rate(engaged: Amounts, impressions: Amounts) -> Amounts:
    return (engaged + PRIOR_RATE * PRIOR_IMPRESSIONS) / (impressions + PRIOR_IMPRESSIONS)
