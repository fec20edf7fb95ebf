"""Affinity: how much a viewer engages with an author, in [0.1, 1]."""

import numpy as np
import numpy.typing as npt

from feed.order import Ids, among
from feed.query import Viewer

HALF_STRENGTH = 5.0
"""Strength at which affinity is halfway between its bounds."""

FOLLOW_STRENGTH = 2 / 7 * HALF_STRENGTH
"""What following counts for: a fresh follow without any engagement has affinity 0.3."""


def affinity(strength: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Map strengths (n,) into [0.1, 1): 0.1 + 0.9 s / (s + 5), negative strengths as 0."""
    s = np.maximum(strength, 0.0)
    return 0.1 + 0.9 * s / (s + HALF_STRENGTH)


def affinity_to(viewer: Viewer, authors: Ids) -> npt.NDArray[np.float64]:
    """Return the viewer's affinity (n,) to each of these authors (n,)."""
    follows = among(authors, viewer.followees)
    strength = np.where(follows, FOLLOW_STRENGTH, 0.0)
    if len(viewer.engaged_authors):
        at = np.searchsorted(viewer.engaged_authors, authors)
        at = np.minimum(at, len(viewer.engaged_authors) - 1)
        engaged = viewer.engaged_authors[at] == authors
        strength = strength + np.where(engaged, viewer.strength[at], 0.0)
    return affinity(strength)


def closest(viewer: Viewer, n: int) -> Ids:
    """Return the n whom the viewer hears with the highest affinity, the highest first."""
    near = affinity_to(viewer, viewer.heard)
    return viewer.heard[np.lexsort((viewer.heard, -near))[:n]]
