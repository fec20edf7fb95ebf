"""Posts from accounts that the viewer does not follow count a little less."""

import numpy as np

from feed.candidates import Candidates
from mixer.rules.weighing import weighed


class OutOfNetwork:
    """Multiplies the score of each out-of-network post by `factor`."""

    name = "out_of_network"

    def __init__(self, *, factor: float) -> None:
        """Let them count this much of what a followed author's would, in (0, 1]."""
        self._factor = factor

    def apply(self, candidates: Candidates) -> Candidates:
        """Return the same rows (n,), weighed."""
        outside = candidates["out_of_network"]
        if not outside.any():
            return candidates
        return weighed(candidates, self.name, np.where(outside, self._factor, 1.0))
