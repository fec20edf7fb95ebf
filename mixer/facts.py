"""From what storage knew at a moment to the facts that the feature builder reads.

For the heavy stage and for the log of slates; training has facts of its own making.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from feed.affinity import FOLLOW_STRENGTH, affinity
from feed.order import Ids
from rankers.features import UNKNOWN_MS, Facts
from storage.moments import Moment, Moments

Codes = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Known:
    """The facts of some posts (n,), and the number of the last fold that they know of."""

    ids: Ids
    facts: Facts
    fold: int


class KnownFacts:
    """Loads facts, in one round trip."""

    def __init__(self, moments: Moments) -> None:
        """Read `moments`."""
        self._moments = moments

    async def of(self, viewer_id: int, ids: Ids, sources: Codes, now_ms: int) -> Known:
        """Return what is known now of these posts (n,), found by these sources (n,).

        Raises:
            Unavailable: The truth cannot be reached.
        """
        moment = await self._moments.at(viewer_id, ids, now_ms)
        return Known(ids, facts_of(moment, sources), moment.fold)


def facts_of(moment: Moment, sources: Codes) -> Facts:
    """Return the facts of a moment, as the feature builder takes them."""
    followed = np.where(moment.followed_ms == UNKNOWN_MS, 0.0, FOLLOW_STRENGTH)
    return Facts(
        now_ms=moment.now_ms,
        ms=moment.ms,
        format=moment.format,
        source=sources.astype(np.int64),
        chars=moment.chars.astype(np.float64),
        same_language=np.where(moment.same_language < 0, np.nan, moment.same_language),
        likes=moment.likes.astype(np.float64),
        comments=moment.comments.astype(np.float64),
        shares=moment.shares.astype(np.float64),
        impressions=moment.impressions.astype(np.float64),
        engaged_1h=moment.engaged_1h.astype(np.float64),
        engaged_24h=moment.engaged_24h.astype(np.float64),
        author_followers=moment.author_followers.astype(np.float64),
        author_posts=moment.author_posts.astype(np.float64),
        author_posts_7d=moment.author_posts_7d.astype(np.float64),
        author_engaged=moment.author_engaged.astype(np.float64),
        author_first_ms=moment.author_first_ms,
        affinity=affinity(moment.strength + followed),
        engaged_author_ms=moment.engaged_author_ms,
        engaged_back=moment.engaged_back.astype(np.float64),
        followed_ms=moment.followed_ms,
        seen=moment.seen.astype(np.float64),
        viewer_engaged=float(moment.viewer_formats.sum()),
        viewer_engaged_24h=float(moment.viewer_engaged_24h),
        viewer_follows=float(moment.viewer_follows),
        viewer_formats=moment.viewer_formats.astype(np.float64),
    )
