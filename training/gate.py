"""The gate: whether a model may rank, with a reason in one sentence for each thing that forbids it.

It reads what `foryou train fit` wrote into the manifest, what registering found, and tries the
model itself.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from rankers.artifact import Model
from rankers.heavy import as_share
from training.baselines import FORMULAS

MUST_BEAT = ("chronological", "engagement_decay", "affinity_decay")
"""The orders that cost nothing; popularity is shown, but nobody would serve it."""

PARITY = 1e-4
"""The largest difference between a feature as served and as made again, relative to 1 or itself."""

ROWS = 200
ROUNDS = 30

assert FORMULAS.keys() >= set(MUST_BEAT)


def refusals(
    model: Model,
    figures: Mapping[str, Any],
    champion: str | None,
    *,
    deadline_s: float,
    clock: Callable[[], float],
) -> list[str]:
    """Say what forbids a model to rank; nothing: it may.

    `figures` are what registering found. `clock` gives seconds; `deadline_s` is how long a request
    waits for the heavy ranker.
    """
    metrics = model.manifest.metrics
    return [
        *_unbeaten(metrics.get("lift") or {}, MUST_BEAT),
        *_unbeaten_champion(figures, champion, model.manifest.version),
        *_no_parity(figures.get("parity") or metrics.get("parity")),
        *_bad_scores(model),
        *_too_slow(model, deadline_s, clock),
    ]


def _unbeaten(lift: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        if (found := lift.get(name)) is None:
            yield f"It was not compared with {name}: fit it again, or evaluate it."
        elif not _is_above_zero(found):
            yield f"It does not beat {name}: its NDCG@10 is higher by {_told(found)}."


def _unbeaten_champion(
    figures: Mapping[str, Any], champion: str | None, version: str
) -> Iterator[str]:
    if champion is None or champion == version:
        return
    against = figures.get("against") or {}
    if against.get("version") != champion:
        yield (
            f"It was not compared with the champion {champion}: "
            "register it again with --data, on what was served lately."
        )
    elif not _is_above_zero(against["lift"]):
        yield (
            f"It does not beat the champion {champion}: "
            f"its NDCG@10 is higher by {_told(against['lift'])}."
        )


def _no_parity(parity: Mapping[str, Any] | None) -> Iterator[str]:
    """Refuse features that differ; a past that was never served has none to compare."""
    if parity is None:
        return
    worst = parity.get("max_diff")
    if worst is None or not worst <= PARITY:
        yield f"Its features made again differ from those served, by up to {worst}."


def _bad_scores(model: Model) -> Iterator[str]:
    scores = model.predict(_rows(model))
    if not np.isfinite(scores).all():
        yield "It gives scores that are not finite."
        return
    shares = as_share(scores)
    if len(np.unique(scores)) < 2:
        yield "It gives every post the same score."
    elif not ((shares > 0) & (shares < 1)).all() or len(np.unique(shares)) < len(np.unique(scores)):
        yield f"Its scores reach {np.abs(scores).max():.3g}: mapped into (0, 1) they would tie."


def _too_slow(model: Model, deadline_s: float, clock: Callable[[], float]) -> Iterator[str]:
    rows = _rows(model)
    spent = []
    for _ in range(ROUNDS):
        began = clock()
        model.predict(rows)
        spent.append(clock() - began)
    median = float(np.median(spent))
    if median > deadline_s / 2:
        yield (
            f"It takes {median * 1000:.1f} ms for {ROWS} posts, more than half of the "
            f"{deadline_s * 1000:.0f} ms that a request waits for it."
        )


def _rows(model: Model) -> Any:
    golden = np.array(model.manifest.golden_rows, dtype=np.float32)
    return np.resize(golden, (ROWS, golden.shape[1]))


def _is_above_zero(found: Mapping[str, Any]) -> bool:
    low = found.get("low")
    return low is not None and math.isfinite(low) and low > 0


def _told(found: Mapping[str, Any]) -> str:
    values = [found.get(name) for name in ("mean", "low", "high")]
    mean, low, high = ("unknown" if each is None else f"{each:+.3f}" for each in values)
    return f"{mean}, between {low} and {high}"
