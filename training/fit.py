"""Fits a heavy ranker: LightGBM's lambdarank on graded gains, or calibrated heads with weights.

Everything that could differ between two runs is pinned, so that the same rows and parameters give
the same model text, byte for byte, on the same version of LightGBM.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from feed.errors import Invalid
from rankers.artifact import Head
from training.dataset import GAINS, HEADS, Dataset, check_order
from training.extra import extra

Scores = npt.NDArray[np.float64]
Progress = Callable[[str, int, float], None]
"""Told after each round: what is fitted, how many rounds are done, the metric on the valid part."""

TRUNCATION = 30
"""Pairs count where one of the two is among so many: a page and a half, for NDCG of its top."""

LAST_POSITION = 99
"""Deeper positions share one bias: few people get there."""

LEAST_POSITIVES = 30
"""With fewer of them in a part, a head is noise."""

HEAD_WEIGHTS: Mapping[str, float] = dict(zip(HEADS, GAINS[1:], strict=True))

K = 10
NEWTON_STEPS = 50


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """How to fit; defaults of the trees are LightGBM's own.

    `patience` is how many rounds without progress on the valid part end it, whereupon the best so
    far is the last; 0: all `rounds` are taken. With `debias`,
    LightGBM learns how much each position is worth by itself, and takes that out (Hu et al.,
    "Unbiased LambdaMART", WWW 2019).
    """

    rounds: int = 300
    patience: int = 30
    learning_rate: float = 0.1
    leaves: int = 31
    least_rows_in_leaf: int = 20
    truncation: int = TRUNCATION
    debias: bool = False
    seed: int = 20_260_101
    threads: int = 0

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that every objective shares."""
        return {
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.least_rows_in_leaf,
            "seed": self.seed,
            "num_threads": self.threads,
            "deterministic": True,
            "force_col_wise": True,  # else LightGBM measures which is faster, and differs by it
            "verbosity": -1,
        }


@dataclass(frozen=True)
class Calibration:
    """Platt's map from the raw score of a head to a probability: 1 / (1 + exp(-(a raw + b)))."""

    a: float
    b: float

    def __call__(self, raw: Scores) -> Scores:
        """Return probabilities (n,)."""
        return np.asarray(1 / (1 + np.exp(-(self.a * raw + self.b))))


def fit_lambdarank(
    train: Dataset, valid: Dataset, fitting: Fitting, progress: Progress | None = None
) -> str:
    """Fit a ranker on graded gains and return its text, with the rounds that were best on valid."""
    parameters = {
        **fitting.parameters(),
        "objective": "lambdarank",
        "metric": "ndcg",
        "eval_at": [K],
        "label_gain": list(train.about.gains),
        "lambdarank_truncation_level": fitting.truncation,
    }
    labels = [each["label"].astype(np.float64) for each in (train, valid)]
    return _boosted("lambdarank", parameters, (train, valid), labels, fitting, progress)


def fit_heads(
    train: Dataset,
    valid: Dataset,
    fitting: Fitting,
    progress: Progress | None = None,
    weights: Mapping[str, float] = HEAD_WEIGHTS,
) -> tuple[Head, ...]:
    """Fit a classifier for each kind of engagement and calibrate it on the valid part.

    Kinds that hardly happened are left out.

    Raises:
        Invalid: None happened often enough.
    """
    names = [
        name for name in weights if min(train[name].sum(), valid[name].sum()) >= LEAST_POSITIVES
    ]
    if not names:
        raise Invalid(
            f"No kind of engagement happened {LEAST_POSITIVES} times in both parts: "
            "collect more, or fit --kind lambdarank."
        )
    return tuple(_head(name, weights[name], (train, valid), fitting, progress) for name in names)


def calibrated(raw: Scores, happened: npt.NDArray[np.bool_]) -> Calibration:
    """Fit Platt's two numbers by Newton's method, on his smoothed targets.

    Platt 1999; Lin, Lin and Weng, "A note on Platt's probabilistic outputs", 2007.
    """
    n_yes = int(happened.sum())
    n_no = len(happened) - n_yes
    target = np.where(happened, (n_yes + 1) / (n_yes + 2), 1 / (n_no + 2))
    columns = np.column_stack((raw, np.ones(len(raw))))
    values = np.array([1.0, 0.0])
    for _ in range(NEWTON_STEPS):
        said = Calibration(*values)(raw)
        slope = columns.T @ (said - target)
        curve = (columns * (said * (1 - said))[:, None]).T @ columns + 1e-9 * np.eye(2)
        step = np.linalg.solve(curve, slope)
        values -= step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-10:
            break
    return Calibration(float(values[0]), float(values[1]))


def _head(
    name: str,
    weight: float,
    parts: tuple[Dataset, Dataset],
    fitting: Fitting,
    progress: Progress | None,
) -> Head:
    parameters = {**fitting.parameters(), "objective": "binary", "metric": "binary_logloss"}
    labels = [part[name].astype(np.float64) for part in parts]
    text = _boosted(name, parameters, parts, labels, fitting, progress)
    raw = _raw_scores(text, parts[1], fitting)
    map_ = calibrated(raw, parts[1][name])
    return Head(name, text, map_.a, map_.b, weight)


def _boosted(
    name: str,
    parameters: Mapping[str, Any],
    parts: tuple[Dataset, Dataset],
    labels: list[Scores],
    fitting: Fitting,
    progress: Progress | None,
) -> str:
    lightgbm = extra("lightgbm")
    ranking = parameters["objective"] == "lambdarank"
    train = _rows(parts[0], labels[0], fitting, ranking=ranking)
    valid = _rows(parts[1], labels[1], fitting, ranking=ranking, reference=train)
    booster = lightgbm.train(
        dict(parameters),
        train,
        num_boost_round=fitting.rounds,
        valid_sets=[valid],
        callbacks=[
            *(
                [lightgbm.early_stopping(fitting.patience, verbose=False)]
                if fitting.patience
                else []
            ),
            *([_telling(name, progress)] if progress else []),
        ],
    )
    text: str = booster.model_to_string(num_iteration=booster.best_iteration)  # or all, without
    return text


def _rows(
    part: Dataset,
    labels: Scores,
    fitting: Fitting,
    *,
    ranking: bool,
    reference: Any = None,
) -> Any:
    """Hand rows to LightGBM; a ranker gets the groups, which are contiguous or refused."""
    check_order(part)
    more: dict[str, Any] = {}
    if ranking:
        more["group"] = part.sizes
    if ranking and fitting.debias:
        more["position"] = np.clip(part["position"], 0, LAST_POSITION)
    return extra("lightgbm").Dataset(
        part.matrix,
        label=labels,
        feature_name=list(part.about.features),
        reference=reference,
        free_raw_data=False,
        **more,
    )


def _raw_scores(text: str, part: Dataset, fitting: Fitting) -> Scores:
    booster = extra("lightgbm").Booster(model_str=text)
    return np.asarray(
        booster.predict(part.matrix, raw_score=True, num_threads=fitting.threads),
        dtype=np.float64,
    )


def _telling(name: str, progress: Progress) -> Callable[[Any], None]:
    def tell(env: Any) -> None:
        progress(name, env.iteration + 1, float(env.evaluation_result_list[0][2]))

    return tell
