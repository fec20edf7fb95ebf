"""How many seconds does `foryou train fit` take to fit a ranker to rows that are in memory?

Ceiling: bare LightGBM on the same rows, with the same parameters, threads and rounds. Ours besides
checks the order of the rows, tells its progress, and writes the model's text. Both fit in turns.
"""

import time
from statistics import median
from typing import Any

import numpy as np

from benchmarks.machine import machine
from benchmarks.options import Options, say
from benchmarks.result import Result, spread
from training.dataset import HEADS, NUMBERS, About, Dataset
from training.extra import extra
from training.fit import Fitting, fit_lambdarank

ROWS = 200_000
FEATURES = 30
SLATE = 50
VALID_SHARE = 0.2
TREES = Fitting(rounds=60, patience=0, leaves=63)


async def run(options: Options) -> Result:
    """Fit ours and the bare library in turns."""
    n = (options.size or ROWS) // SLATE
    say(f"making {n * SLATE:,} rows of {n:,} slates")
    train, valid = slates(n, options.seed), slates(int(n * VALID_SHARE), options.seed + 1)
    ours, bare = [], []
    _bare(train, valid)  # both then find the library loaded and its threads started
    for round_ in range(1, options.rounds + 1):
        say(f"round {round_} of {options.rounds}")
        ours.append(_timed(lambda: fit_lambdarank(train, valid, TREES, lambda *_: None)))
        bare.append(_timed(lambda: _bare(train, valid)))
    return Result(
        name="fit",
        value=median(ours),
        unit="s",
        ceiling=median(bare),
        ceiling_is="bare LightGBM on the same rows",
        ratio=median(each / mine for mine, each in zip(ours, bare, strict=True)),
        spread=spread(ours, "s"),
        details={
            "rows": len(train),
            "features": FEATURES,
            "trees": TREES.rounds,
            "leaves": TREES.leaves,
            "times_bare": round(median(mine / b for mine, b in zip(ours, bare, strict=True)), 3),
        },
        machine=await machine(),
    )


def slates(n: int, seed: int) -> Dataset:
    """Make n slates whose labels follow from a few of the features."""
    rng = np.random.default_rng(seed)
    total = n * SLATE
    matrix = rng.normal(size=(total, FEATURES)).astype(np.float32)
    pull = matrix[:, 0] + matrix[:, 1] * matrix[:, 2] - np.abs(matrix[:, 3]) - 1
    label = rng.binomial(len(HEADS), 0.6 / (1 + np.exp(-pull)))
    columns = {name: np.zeros(total, dtype=kind) for name, kind in NUMBERS.items()}
    columns |= {"label": label.astype(np.int8), "viewer_id": np.repeat(np.arange(n), SLATE)}
    columns["position"] = np.tile(np.arange(SLATE, dtype=np.int32), n)
    about = About(
        features=tuple(f"feature_{n}" for n in range(FEATURES)),
        schema_hash="",
        label_window_h=24,
        from_ms=0,
        until_ms=1,
        counts={},
    )
    queries = np.array([f"{each:08d}" for each in range(n)], dtype=object)
    return Dataset(about, queries, np.arange(n + 1) * SLATE, columns, {}, matrix)


def _bare(train: Dataset, valid: Dataset) -> Any:
    lightgbm = extra("lightgbm")
    rows = lightgbm.Dataset(train.matrix, train["label"], group=train.sizes, free_raw_data=False)
    held = lightgbm.Dataset(
        valid.matrix, valid["label"], group=valid.sizes, reference=rows, free_raw_data=False
    )
    parameters = {
        **TREES.parameters(),
        "objective": "lambdarank",
        "metric": "ndcg",
        "eval_at": [10],
        "label_gain": list(train.about.gains),
    }
    return lightgbm.train(parameters, rows, num_boost_round=TREES.rounds, valid_sets=[held])


def _timed(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
