"""Splits a data set by time, so that a ranker is judged on what came after what it learned from.

Between two parts lies a gap of one label window: what a viewer did about a slate served there
would still happen while the later part is served, and would leak into it.
"""

from dataclasses import dataclass

import numpy as np

from feed.errors import Invalid
from feed.order import Mask
from training.dataset import Dataset

MS_PER_HOUR = 3_600_000


@dataclass(frozen=True)
class Split:
    """Three parts in order of time; `n_purged` queries lie in the gaps between them.

    `valid_from_ms` and `test_from_ms` are when the later parts begin.
    """

    train: Dataset
    valid: Dataset
    test: Dataset
    valid_from_ms: int
    test_from_ms: int
    n_purged: int


def split(dataset: Dataset, *, valid_share: float = 0.15, test_share: float = 0.25) -> Split:
    """Split by the time at which queries were opened; shares are of the queries.

    Raises:
        Invalid: A part would be empty.
    """
    at_ms = dataset.opened_ms
    bounds = np.quantile(at_ms, [1 - test_share - valid_share, 1 - test_share], method="higher")
    valid_from, test_from = (int(bound) for bound in bounds)
    gap = int(dataset.about.label_window_h * MS_PER_HOUR)
    train = dataset.take_queries(at_ms < valid_from - gap)
    valid = dataset.take_queries((at_ms >= valid_from) & (at_ms < test_from - gap))
    test = dataset.take_queries(at_ms >= test_from)
    if not (len(train) and len(valid) and len(test)):
        hours = (at_ms.max() - at_ms.min()) / MS_PER_HOUR
        raise Invalid(
            f"{hours:.0f} hours of slates are too few for three parts with gaps of "
            f"{dataset.about.label_window_h:g} hours between them: export a longer window."
        )
    kept = sum(len(part.queries) for part in (train, valid, test))
    return Split(train, valid, test, valid_from, test_from, len(dataset.queries) - kept)


def from_moment(dataset: Dataset, from_ms: int) -> Dataset:
    """Keep the queries opened at `from_ms` or later: what a ranker fitted before may be judged on.

    Raises:
        Invalid: There are none.
    """
    later: Mask = dataset.opened_ms >= from_ms
    if not later.any():
        raise Invalid("This data set has nothing later than what the model was fitted on.")
    return dataset.take_queries(later)
