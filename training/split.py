"""Splits a data set by time, so that a ranker is judged on what came after what it learned from.

Between two parts lies a gap of one label window: what a viewer did about a slate served there
would still happen while the later part is served, and would leak into it.
"""

from dataclasses import dataclass

import numpy as np

from feed.errors import Invalid
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
    parts = split_at(dataset, int(bounds[0]), int(bounds[1]))
    if not (len(parts.train) and len(parts.valid) and len(parts.test)):
        hours = (at_ms.max() - at_ms.min()) / MS_PER_HOUR
        raise Invalid(
            f"{hours:.0f} hours of slates are too few for three parts with gaps of "
            f"{dataset.about.label_window_h:g} hours between them: export a longer window."
        )
    return parts


def split_at(dataset: Dataset, valid_from_ms: int, test_from_ms: int) -> Split:
    """Split at these moments, as a model was fitted; a part may be empty."""
    at_ms = dataset.opened_ms
    gap = int(dataset.about.label_window_h * MS_PER_HOUR)
    train = dataset.take_queries(at_ms < valid_from_ms - gap)
    valid = dataset.take_queries((at_ms >= valid_from_ms) & (at_ms < test_from_ms - gap))
    test = dataset.take_queries(at_ms >= test_from_ms)
    kept = sum(len(part.queries) for part in (train, valid, test))
    return Split(train, valid, test, valid_from_ms, test_from_ms, len(dataset.queries) - kept)
