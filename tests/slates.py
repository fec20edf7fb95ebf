"""Slates whose truth is known: what a viewer does follows from two features, by a seeded draw."""

import numpy as np

from training.dataset import HEADS, About, Dataset, Words
from training.split import MS_PER_HOUR

HOURS_BETWEEN = 0.25
WINDOW_H = 2.0


def slates(
    n: int, *, rows: int = 12, seed: int = 1, features: tuple[str, ...] = ("good", "noise", "age_h")
) -> Dataset:
    """Make n slates; the chance of an engagement grows with `good` and falls with `age_h`.

    The first feature is unknown (NaN) in a tenth of the rows.
    """
    rng = np.random.default_rng(seed)
    total = n * rows
    matrix = rng.random((total, len(features)), dtype=np.float32)
    matrix[:, -1] *= 24
    pull = 4 * matrix[:, 0] - 0.1 * matrix[:, -1] - 2.5
    chance = 1 / (1 + np.exp(-pull))
    label = rng.binomial(4, chance * 0.5).astype(np.int8)
    matrix[rng.random(total) < 0.1, 0] = np.nan
    at_ms = (np.repeat(np.arange(n), rows) * HOURS_BETWEEN * MS_PER_HOUR).astype(np.int64)
    columns = {
        "viewer_id": np.repeat(rng.integers(1, 40, n), rows),
        "post_id": rng.integers(1, 300, total),
        "author_id": rng.integers(1, 30, total),
        "at_ms": at_ms + 1_700_000_000_000,
        "position": np.tile(np.arange(rows, dtype=np.int32), n),
        "light_score": rng.random(total),
        "heavy_score": np.full(total, np.nan),
        "propensity": np.ones(total),
        "explored": np.zeros(total, dtype=np.bool_),
        "shown": np.ones(total, dtype=np.bool_),
        "label": label,
        **{name: label == grade for grade, name in enumerate(HEADS, start=1)},
        "censored": np.zeros(total, dtype=np.bool_),
        "cold_viewer": np.repeat(rng.random(n) < 0.3, rows),
        "cold_author": rng.random(total) < 0.3,
    }
    words = {
        "source": Words(rng.integers(0, 2, total).astype(np.int32), ("pushed_feed", "popular")),
        "ranker": Words(np.zeros(total, dtype=np.int32), ("affinity_decay",)),
        "format": Words(rng.integers(0, 3, total).astype(np.int32), ("text", "image", "link")),
    }
    about = About(
        features=features,
        schema_hash="0" * 16,
        label_window_h=WINDOW_H,
        from_ms=int(columns["at_ms"].min()),
        until_ms=int(columns["at_ms"].max()) + 1,
        counts={"queries": n, "rows": total},
    )
    queries = np.array([f"q{each:05d}" for each in range(n)], dtype=object)
    return Dataset(about, queries, np.arange(n + 1) * rows, columns, words, matrix)
