"""Fitting: LightGBM's own example comes out as it should, and the same rows give the same bytes."""

from dataclasses import replace
from pathlib import Path

import lightgbm
import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from feed.errors import Invalid
from tests.slates import slates
from training.dataset import Dataset
from training.fit import Calibration, Fitting, calibrated, fit_heads, fit_lambdarank
from training.metrics import calibration_error, ndcg
from training.split import split

EXAMPLE = Path(__file__).parents[2] / "samples" / "lambdarank_example"
GAINS = tuple(2.0**label - 1 for label in range(5))
SMALL = Fitting(rounds=12, leaves=7, threads=1)


def example(part: str) -> Dataset:
    """Read a part of LightGBM's example as one of our data sets."""
    rows, labels = load_svmlight_file(str(EXAMPLE / f"rank.{part}.gz"), n_features=301)
    sizes = np.loadtxt(EXAMPLE / f"rank.{part}.query", dtype=np.int64)
    one = slates(1, rows=1)
    columns = {name: np.zeros(len(labels), column.dtype) for name, column in one.columns.items()}
    return Dataset(
        about=replace(one.about, features=tuple(f"n{n}" for n in range(301)), gains=GAINS),
        queries=np.array([f"{part}{n}" for n in range(len(sizes))], dtype=object),
        starts=np.concatenate(([0], np.cumsum(sizes))),
        columns={**columns, "label": labels.astype(np.int8)},
        words={},
        matrix=rows.toarray().astype(np.float32),
    )


def predicted(text: str, dataset: Dataset) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(lightgbm.Booster(model_str=text).predict(dataset.matrix, num_threads=1))


def test_the_example_of_lightgbm_comes_out_as_with_the_bare_library() -> None:
    train, test = example("train"), example("test")
    ours = predicted(fit_lambdarank(train, test, Fitting(rounds=100, patience=0, threads=1)), test)
    pins = {"deterministic": True, "force_col_wise": True, "verbosity": -1, "num_threads": 1}
    rows = lightgbm.Dataset(train.matrix, train["label"], group=train.sizes)
    bare = lightgbm.train({"objective": "lambdarank", **pins}, rows, num_boost_round=100)
    value = np.nanmean(ndcg(test.gains, ours, test.starts, k=10))
    assert value == pytest.approx(0.736, abs=0.01)
    assert np.array_equal(ours, bare.predict(test.matrix, num_threads=1))


@pytest.mark.parametrize("fitting", [SMALL, replace(SMALL, debias=True)])
def test_the_same_rows_give_the_same_bytes(fitting: Fitting) -> None:
    parts = split(slates(300))
    texts = {fit_lambdarank(parts.train, parts.valid, fitting) for _ in range(3)}
    assert len(texts) == 1
    heads = {fit_heads(parts.train, parts.valid, fitting) for _ in range(2)}
    assert len(heads) == 1


def test_fitting_ends_when_the_valid_part_has_nothing_to_gain() -> None:
    parts = split(slates(300))
    told: list[tuple[str, int, float]] = []
    text = fit_lambdarank(
        parts.train,
        parts.valid,
        replace(SMALL, rounds=500, patience=10),
        lambda name, done, value: told.append((name, done, value)),
    )
    values = [value for _, _, value in told]
    assert [done for _, done, _ in told] == list(range(1, len(told) + 1)) and len(told) < 500
    best = int(np.argmax(values)) + 1
    assert lightgbm.Booster(model_str=text).num_trees() == best == len(told) - 10


def test_gains_and_truncation_are_those_that_were_set() -> None:
    parts = split(slates(300))
    text = fit_lambdarank(parts.train, parts.valid, replace(SMALL, truncation=7))
    assert "[label_gain: 0,1,2,3,4]" in text and "[lambdarank_truncation_level: 7]" in text


def test_rows_that_are_not_grouped_are_refused() -> None:
    parts = split(slates(300))
    torn = parts.train.queries.copy()
    torn[5] = torn[0]
    with pytest.raises(Invalid, match="does not stand together"):
        fit_lambdarank(replace(parts.train, queries=torn), parts.valid, SMALL)


def test_debiasing_learns_what_matters_and_not_where_it_stood() -> None:
    # Whoever was clicked stood high or was good; what stood high had the feature `noise` high.
    rng = np.random.default_rng(5)
    whole = slates(2_000, rows=10, seed=6)
    noise = whole.matrix[:, 1].reshape(-1, 10)
    noise[:] = np.sort(noise, axis=1)[:, ::-1]
    good = np.nan_to_num(whole.matrix[:, 0], nan=0.5)
    looked = 1 / (1 + whole["position"]) ** 1.5
    clicked = rng.random(len(whole)) < looked * good
    biased = replace(whole, columns={**whole.columns, "label": clicked.astype(np.int8)})
    parts = split(biased)
    truth = np.nan_to_num(parts.test.matrix[:, 0], nan=0.5).astype(np.float64)
    fitting = Fitting(rounds=60, patience=0, leaves=7, threads=1)
    value = {
        debias: np.nanmean(
            ndcg(
                truth,
                predicted(
                    fit_lambdarank(parts.train, parts.valid, replace(fitting, debias=debias)),
                    parts.test,
                ),
                parts.test.starts,
                k=5,
            )
        )
        for debias in (False, True)
    }
    assert value[True] > value[False] + 0.02


def test_a_head_says_how_often_it_happens() -> None:
    parts = split(slates(800))
    heads = fit_heads(parts.train, parts.valid, SMALL)
    named = [(head.name, head.weight) for head in heads]
    assert named == [("clicked", 1.0), ("liked", 2.0)]  # hardly anything else happened
    for head in heads:
        raw = lightgbm.Booster(model_str=head.text).predict(
            parts.test.matrix, raw_score=True, num_threads=1
        )
        said = Calibration(head.a, head.b)(np.asarray(raw))
        assert calibration_error(parts.test[head.name].astype(float), said, 10) < 0.03


def test_calibration_finds_the_numbers_that_made_the_data() -> None:
    rng = np.random.default_rng(1)
    raw = rng.normal(0, 2, 50_000)
    happened = rng.random(50_000) < 1 / (1 + np.exp(-(0.5 * raw - 1)))
    found = calibrated(raw, happened)
    assert (found.a, found.b) == pytest.approx((0.5, -1), abs=0.05)


def test_without_enough_of_anything_there_are_no_heads() -> None:
    parts = split(slates(60))
    nothing = {name: np.zeros(len(parts.train), np.bool_) for name in ("clicked", "liked")}
    nothing |= {name: np.zeros(len(parts.train), np.bool_) for name in ("commented", "shared")}
    train = replace(parts.train, columns={**parts.train.columns, **nothing})
    with pytest.raises(Invalid, match="collect more"):
        fit_heads(train, parts.valid, SMALL)
