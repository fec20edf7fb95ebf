"""The light rankers: two transparent formulas over all candidates, chosen by name."""

import numpy as np
import numpy.typing as npt

from feed.candidates import Candidates
from feed.profile import Profile, Weights
from feed.stages import Scorer

Scores = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.float64] | npt.NDArray[np.int64] | float

MS_PER_HOUR = 3_600_000
DEFAULT = Profile()


def engagement_decay(
    *,
    likes: Numbers,
    comments: Numbers,
    age_h: Numbers,
    weights: Weights = DEFAULT.engagement_decay,
) -> Scores:
    """Score by engagement, decaying with age: (1 + 2 likes + 3 comments) / (age_h + 2)^1.5.

    The figures are those of the default weights.

    >>> round(float(engagement_decay(likes=10, comments=2, age_h=1)), 2)
    5.2
    """
    engaged = 1 + weights.likes * likes + weights.comments * comments
    return np.asarray(engaged / _decay(age_h, weights))


def affinity_decay(
    *,
    affinity: Numbers,
    likes: Numbers,
    comments: Numbers,
    age_h: Numbers,
    weights: Weights = DEFAULT.affinity_decay,
) -> Scores:
    """Score by closeness, damped engagement and age.

    affinity (1 + ln(1 + likes + 3 comments)) / (age_h + 2)^1.5, with the default weights

    >>> round(float(affinity_decay(affinity=0.9, likes=0, comments=0, age_h=1)), 4)
    0.1732
    """
    interest = affinity * (1 + np.log1p(weights.likes * likes + weights.comments * comments))
    return np.asarray(interest / _decay(age_h, weights))


class EngagementDecay:
    """What everybody engages with, the same order for every viewer."""

    name = "engagement_decay"

    def __init__(self, weights: Weights = DEFAULT.engagement_decay) -> None:
        """Use these weights."""
        self._weights = weights

    def score(self, candidates: Candidates, now_ms: int) -> Scores:
        """Return scores (n,) from the columns likes and comments."""
        return engagement_decay(
            likes=candidates["likes"],
            comments=candidates["comments"],
            age_h=_age_h(candidates, now_ms),
            weights=self._weights,
        )


class AffinityDecay:
    """What those close to this viewer wrote, engagement counted by its logarithm."""

    name = "affinity_decay"

    def __init__(self, weights: Weights = DEFAULT.affinity_decay) -> None:
        """Use these weights."""
        self._weights = weights

    def score(self, candidates: Candidates, now_ms: int) -> Scores:
        """Return scores (n,) from the columns affinity, likes and comments."""
        return affinity_decay(
            affinity=candidates["affinity"],
            likes=candidates["likes"],
            comments=candidates["comments"],
            age_h=_age_h(candidates, now_ms),
            weights=self._weights,
        )


def light_ranker(profile: Profile) -> Scorer:
    """Return the formula that a profile chooses, with its weights."""
    if profile.light.formula == EngagementDecay.name:
        return EngagementDecay(profile.weights)
    return AffinityDecay(profile.weights)


def _decay(age_h: Numbers, weights: Weights) -> Numbers:
    return np.asarray((age_h + weights.age_offset_h) ** weights.gravity)


def _age_h(candidates: Candidates, now_ms: int) -> Scores:
    return np.asarray(np.maximum(now_ms - candidates.ms, 0) / MS_PER_HOUR)
