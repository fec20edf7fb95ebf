"""What was on the screen already goes down, not away."""

import numpy as np

from feed.candidates import Candidates
from mixer.rules.weighing import weighed


class SeenLater:
    """Multiplies the score of a post by `factor` for each time it was on this viewer's screen.

    The column `seen` (n,) counts those times, fading as they get older, so that nobody runs out
    of content: with nothing else left, what was seen comes again.
    """

    name = "seen_later"

    def __init__(self, *, factor: float) -> None:
        """Let each impression of a post cost it this factor, in (0, 1]."""
        self._factor = factor

    def apply(self, candidates: Candidates) -> Candidates:
        """Return the same rows (n,), weighed."""
        seen = candidates["seen"]
        if not seen.any():
            return candidates
        return weighed(candidates, self.name, np.asarray(self._factor**seen, dtype=np.float64))
