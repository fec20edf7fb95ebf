"""Judges rankers on slates that came after what they learned from.

One ranker is *the* model; every other is a baseline, and the model is compared with each on the
same queries (a paired difference). Everything comes with a bootstrap interval over queries.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from feed.errors import Invalid
from feed.order import Mask
from training.dataset import Dataset
from training.metrics import (
    Interval,
    Metric,
    auc,
    average_precision,
    interval,
    ndcg,
    reciprocal_rank,
    worst_case_order,
)

Scores = npt.NDArray[np.float64]

MAIN = "ndcg@10"
METRICS: Mapping[str, Metric] = {
    MAIN: partial(ndcg, k=10),
    "ndcg@20": partial(ndcg, k=20),
    "map": average_precision,
    "mrr": reciprocal_rank,
    "auc": auc,
}
TOP = 10
LEAST_IN_SLICE = 20
"""A slice of fewer queries says nothing."""


@dataclass(frozen=True)
class Spread:
    """What a ranker's first ten places show of all there was.

    `coverage` is the share of different posts that stand in some slate's first ten; `gini` says
    how unequally those places fall to authors (0: equally, 1: all to one), and `top_tenth` the
    share of places that the most shown tenth of the authors has.
    """

    coverage: float
    gini: float
    top_tenth: float


@dataclass(frozen=True)
class Slice:
    """NDCG@10 of every ranker on a part of the rows, ranked among themselves."""

    name: str
    n_rows: int
    rankers: Mapping[str, Interval]


@dataclass(frozen=True)
class Evaluation:
    """How rankers did on `n_queries` slates; on `n_empty` of them nobody engaged with anything.

    `lift` is how much higher the model's NDCG@10 is than each baseline's, on the same queries;
    `beaten` names the baselines whose whole interval lies below the model's.
    """

    model: str
    n_queries: int
    n_empty: int
    n_rows: int
    rankers: Mapping[str, Mapping[str, Interval]]
    lift: Mapping[str, Interval]
    beaten: tuple[str, ...]
    spread: Mapping[str, Spread]
    slices: tuple[Slice, ...]


def evaluate(test: Dataset, scores: Mapping[str, Scores], *, model: str, seed: int) -> Evaluation:
    """Judge rankers by their scores (n,) for the rows of `test`.

    Raises:
        Invalid: A score is not finite, or nobody engaged with anything.
    """
    for name, each in scores.items():
        if not np.isfinite(each).all():
            raise Invalid(f"{name} gives scores that are not finite.")
    values = {name: _values(test, each) for name, each in scores.items()}
    n_empty = int(np.isnan(values[model][MAIN]).sum())
    if n_empty == len(test.queries):
        raise Invalid("Nobody engaged with anything in the test part: there is nothing to judge.")
    rankers = {
        name: {metric: interval(each, seed=seed) for metric, each in found.items()}
        for name, found in values.items()
    }
    others = [name for name in scores if name != model]
    return Evaluation(
        model=model,
        n_queries=len(test.queries),
        n_empty=n_empty,
        n_rows=len(test),
        rankers=rankers,
        lift={
            name: interval(values[model][MAIN] - values[name][MAIN], seed=seed) for name in others
        },
        beaten=tuple(name for name in others if rankers[model][MAIN].above(rankers[name][MAIN])),
        spread={name: _spread(test, each) for name, each in scores.items()},
        slices=tuple(_slices(test, scores, seed)),
    )


def document(found: Evaluation) -> dict[str, Any]:
    """Return an evaluation as JSON can hold it: what is not known is null."""
    known: dict[str, Any] = _known(asdict(found))
    return known


def _known(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _known(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_known(each) for each in value]
    return None if isinstance(value, float) and np.isnan(value) else value


def _values(test: Dataset, scores: Scores) -> Mapping[str, Scores]:
    return {name: metric(test.gains, scores, test.starts) for name, metric in METRICS.items()}


def _spread(test: Dataset, scores: Scores) -> Spread:
    rows = worst_case_order(test.gains, scores, test.starts)
    place = np.arange(len(test)) - np.repeat(test.starts[:-1], test.sizes)
    top = rows[place < TOP]
    posts = len(np.unique(test["post_id"][top])) / len(np.unique(test["post_id"]))
    authors, author = np.unique(test["author_id"], return_inverse=True)
    places = np.sort(np.bincount(author[top], minlength=len(authors)))
    tenth = max(1, len(authors) // 10)
    return Spread(posts, gini(places), float(places[-tenth:].sum() / places.sum()))


def gini(amounts: npt.NDArray[np.int64]) -> float:
    """Return the Gini coefficient of amounts (n,), ascending.

    >>> gini(np.array([1, 1, 1])), gini(np.array([0, 0, 0, 4]))
    (0.0, 0.75)
    """
    n = len(amounts)
    weighed = float((np.arange(1, n + 1) * amounts).sum())
    return 2 * weighed / (n * float(amounts.sum())) - (n + 1) / n


def _slices(test: Dataset, scores: Mapping[str, Scores], seed: int) -> Iterator[Slice]:
    for name, rows in _parts(test):
        part = test.take(rows)
        if len(part.queries) < LEAST_IN_SLICE:
            continue
        main: Callable[[Scores], Scores] = partial(_main_of_slice, part)
        found = {ranker: interval(main(each[rows]), seed=seed) for ranker, each in scores.items()}
        if next(iter(found.values())).n >= LEAST_IN_SLICE:
            yield Slice(name, len(part), found)


def _main_of_slice(part: Dataset, scores: Scores) -> Scores:
    """Return NDCG@10 (q,) of a slice; where a query has one row left there is nothing to order."""
    return np.where(part.sizes > 1, METRICS[MAIN](part.gains, scores, part.starts), np.nan)


def _parts(test: Dataset) -> Iterator[tuple[str, Mask]]:
    for name in ("viewer", "author"):
        cold = test[f"cold_{name}"]
        yield f"cold {name}", cold
        yield f"warm {name}", ~cold
    for name in ("format", "source"):
        for word in sorted(test.words[name].names):
            yield f"{name} {word}", test.words[name].is_word(word)
