"""Small heavy rankers for tests, fitted in a blink on made rows, to a pull that a test chooses."""

from typing import Any

import lightgbm
import numpy as np

from rankers.artifact import Head, Manifest, Model, sealed
from rankers.features import NAMES, Matrix

BASELINES = ("chronological", "popularity", "engagement_decay", "affinity_decay")
DAY_MS = 86_400_000


def matrix(n: int, seed: int = 1) -> Matrix:
    rows = np.random.default_rng(seed).random((n, len(NAMES)), dtype=np.float32)
    rows[:, NAMES.index("age_h")] *= 200
    return rows


def lifts(low: float = 0.05, **others: float) -> dict[str, Any]:
    """Say how much higher a model is than each baseline, at least."""
    lows = {name: low for name in BASELINES} | others
    return {name: {"mean": at + 0.02, "low": at, "high": at + 0.04} for name, at in lows.items()}


def ranker(pull: str = "age_h", *, rounds: int = 5, metrics: dict[str, Any] | None = None) -> Model:
    """Fit a ranker that likes a feature to be high, such as old posts."""
    rows = matrix(600)
    labels = (rows[:, NAMES.index(pull)] / rows[:, NAMES.index(pull)].max() * 4).astype(int)
    data = lightgbm.Dataset(rows, labels, group=[20] * 30, feature_name=list(NAMES))
    pins = {"objective": "lambdarank", "verbosity": -1, "num_threads": 1, "num_leaves": 15}
    text = lightgbm.train(pins, data, num_boost_round=rounds).model_to_string()
    blank = Manifest(
        version="",
        kind="lambdarank",
        features=NAMES,
        schema_hash="",
        params={"rounds": rounds},
        gains=(0, 1, 2, 3, 4),
        window={"from_ms": 0, "valid_from_ms": DAY_MS, "test_from_ms": 2 * DAY_MS},
        counts={"train_rows": 600},
        metrics={"lift": lifts()} if metrics is None else metrics,
        created_at="2026-01-01T00:00:00+00:00",
        code_version="0",
        sha256="",
        golden_rows=(),
        golden_scores=(),
    )
    return sealed(blank, [Head("relevance", text, 1.0, 0.0, 1.0)], matrix(20, seed=2))[1]
