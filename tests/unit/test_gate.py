"""The gate names each thing that forbids a model to rank, and nothing else."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from rankers.artifact import Model
from rankers.heavy import as_share
from tests.fitted import lifts, ranker
from training.gate import refusals


@pytest.fixture(scope="module")
def model() -> Model:
    return ranker()


def refused(
    model: Model,
    figures: dict[str, Any] | None = None,
    champion: str | None = None,
    *,
    call_s: float = 0.001,
    **metrics: Any,
) -> list[str]:
    manifest = replace(model.manifest, metrics={**model.manifest.metrics, **metrics})
    seconds: Iterator[float] = (n * call_s for n in count())
    judged = replace(model, manifest=manifest)
    return refusals(judged, figures or {}, champion, deadline_s=0.05, clock=lambda: next(seconds))


def against(version: str, low: float) -> dict[str, Any]:
    return {"against": {"version": version, "lift": {"mean": 0.1, "low": low, "high": 0.2}}}


def test_a_model_that_is_better_than_all_passes(model: Model) -> None:
    assert refused(model) == []
    assert refused(model, against("abc", 0.01), "abc") == []
    assert refused(model, champion=model.manifest.version) == []


@pytest.mark.parametrize("name", ["chronological", "engagement_decay", "affinity_decay"])
def test_each_order_that_costs_nothing_must_be_beaten(model: Model, name: str) -> None:
    for low in (-0.01, 0.0, float("nan")):
        (reason,) = refused(model, lift=lifts(**{name: low}))
        assert f"does not beat {name}" in reason
    others = {each: lift for each, lift in lifts().items() if each != name}
    (reason,) = refused(model, lift=others)
    assert f"was not compared with {name}" in reason


def test_the_champion_must_be_beaten_and_that_one(model: Model) -> None:
    (reason,) = refused(model, against("abc", -0.001), "abc")
    assert "does not beat the champion abc" in reason
    for figures in ({}, against("another", 0.1)):
        (reason,) = refused(model, figures, "abc")
        assert "was not compared with the champion abc" in reason


def test_features_that_differ_made_again_are_refused(model: Model) -> None:
    assert refused(model, {"parity": {"max_diff": 1e-6}}) == []
    for worst in (0.01, None, float("nan")):
        (reason,) = refused(model, {"parity": {"max_diff": worst}})
        assert "made again differ" in reason


def test_a_model_that_is_slow_is_refused(model: Model) -> None:
    assert refused(model, call_s=0.02) == []
    (reason,) = refused(model, call_s=0.03)
    assert "30.0 ms for 200 posts" in reason


class Scoring:
    """A booster that gives what it is told to."""

    def __init__(self, *scores: float) -> None:
        self._scores = scores

    def predict(self, matrix: Any, **_: Any) -> Any:
        return np.resize(np.array(self._scores), len(matrix))


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ((1.0, np.nan), "not finite"),
        ((1.0, np.inf), "not finite"),
        ((2.0, 2.0), "the same score"),
        ((1e17, 2e17), "would tie"),
    ],
)
def test_scores_that_cannot_rank_are_refused(
    model: Model, scores: tuple[float, ...], said: str
) -> None:
    (reason,) = refused(replace(model, boosters=(Scoring(*scores),)))
    assert said in reason


def test_scores_are_mapped_into_0_and_1_in_their_order() -> None:
    raw = np.array([-1e9, -30.0, -1.0, 0.0, 1e-9, 2.0, 40.0, 1e9])
    shares = as_share(raw)
    assert (np.diff(shares) > 0).all() and shares.min() > 0 and shares.max() < 1
