"""What a heavy ranker must beat: the orders that cost nothing, and the simplest that learns.

Each gives scores (n,) for the rows of a data set, from the same features that the ranker reads.
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from rankers.light import affinity_decay, engagement_decay
from training.dataset import Dataset
from training.extra import extra

Scores = npt.NDArray[np.float64]
Ranker = Callable[[Dataset], Scores]

AGE_H, LIKES, COMMENTS, AFFINITY = "age_h", "likes", "comments", "affinity"
"""The features that the formulas read."""

LOGISTIC_ROWS = 1_000_000
"""The latest rows that logistic regression learns from: more of them change nothing it can say."""


def chronological(dataset: Dataset) -> Scores:
    """Score the newest highest."""
    return -_known(dataset, AGE_H)


def popularity(dataset: Dataset) -> Scores:
    """Score by what everybody engaged with, however old: likes and three times comments."""
    return np.asarray(_known(dataset, LIKES) + 3 * _known(dataset, COMMENTS))


def by_engagement_decay(dataset: Dataset) -> Scores:
    """Score by the light formula that is the same for every viewer."""
    return engagement_decay(
        likes=_known(dataset, LIKES),
        comments=_known(dataset, COMMENTS),
        age_h=_known(dataset, AGE_H),
    )


def by_affinity_decay(dataset: Dataset) -> Scores:
    """Score by the light formula that knows how close viewer and author are."""
    return affinity_decay(
        affinity=_known(dataset, AFFINITY),
        likes=_known(dataset, LIKES),
        comments=_known(dataset, COMMENTS),
        age_h=_known(dataset, AGE_H),
    )


FORMULAS: Mapping[str, Ranker] = {
    "chronological": chronological,
    "popularity": popularity,
    "engagement_decay": by_engagement_decay,
    "affinity_decay": by_affinity_decay,
}


def logistic_regression(train: Dataset) -> Ranker:
    """Fit the chance of any engagement by logistic regression on the logarithms of the features.

    What is unknown counts as the median, and that it was unknown as a feature of its own.
    """
    pipeline, preprocessing = extra("sklearn.pipeline"), extra("sklearn.preprocessing")
    model = pipeline.make_pipeline(
        preprocessing.FunctionTransformer(_logarithms),
        extra("sklearn.impute").SimpleImputer(
            strategy="median", add_indicator=True, keep_empty_features=True
        ),
        preprocessing.StandardScaler(),
        extra("sklearn.linear_model").LogisticRegression(max_iter=1_000),
    )
    model.fit(train.matrix[-LOGISTIC_ROWS:], train["label"][-LOGISTIC_ROWS:] > 0)
    return lambda dataset: np.asarray(model.decision_function(dataset.matrix), dtype=np.float64)


def _known(dataset: Dataset, name: str) -> Scores:
    """Return a feature (n,), 0 where it is unknown."""
    return np.nan_to_num(dataset.feature(name).astype(np.float64), nan=0.0)


def _logarithms(matrix: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    values = matrix.astype(np.float64)
    return np.asarray(np.sign(values) * np.log1p(np.abs(values)))
