"""The heavy ranker: a fitted model over the light ranker's best K, the others in their order after.

Scores of a model may be any numbers. Rules multiply scores, and a multiplier would raise a negative
one, so the scores are mapped into (0, 1) first, in the same order.
"""

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]


def as_share(raw: Scores) -> Scores:
    """Map scores (n,) into (0, 1) in the same order; unlike a logistic it keeps large ones apart.

    >>> as_share(np.array([-9.0, 0.0, 3.0])).round(6).tolist()
    [0.05, 0.5, 0.875]
    """
    return np.asarray(0.5 + 0.5 * raw / (1 + np.abs(raw)))
