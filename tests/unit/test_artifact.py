"""A model comes back as it was fitted, or is refused with a sentence."""

import json
from dataclasses import replace
from pathlib import Path

import lightgbm
import numpy as np
import pytest

from feed.errors import Invalid
from rankers.artifact import Head, Kind, Manifest, Model, load, read, sealed, text_of, write
from rankers.features import NAMES, Matrix


def matrix(n: int, seed: int = 1) -> Matrix:
    rows = np.random.default_rng(seed).random((n, len(NAMES)), dtype=np.float32)
    rows[::3, 2] = np.nan
    return rows


def booster(names: tuple[str, ...] = NAMES) -> str:
    rows = matrix(500)
    labels = (np.nan_to_num(rows[:, 0]) + rows[:, 4] > 1).astype(float)
    data = lightgbm.Dataset(rows, labels, feature_name=list(names))
    pins = {"objective": "binary", "verbosity": -1, "num_threads": 1, "num_leaves": 5}
    text: str = lightgbm.train(pins, data, num_boost_round=5).model_to_string()
    return text


def model(kind: Kind = "lambdarank") -> tuple[Manifest, Model]:
    blank = Manifest(
        version="",
        kind=kind,
        features=NAMES,
        schema_hash="",
        params={"rounds": 5},
        gains=(0, 1, 2, 3, 4),
        window={"from_ms": 0, "test_from_ms": 9},
        counts={"rows": 500},
        metrics={},
        created_at="2026-01-01T00:00:00+00:00",
        code_version="0",
        sha256="",
        golden_rows=(),
        golden_scores=(),
    )
    text = booster()
    heads = [Head("clicked", text, 1.0, 0.0, 1.0), Head("liked", text, 0.5, -1.0, 3.0)]
    return sealed(blank, heads if kind == "heads" else heads[:1], matrix(20, seed=2))


@pytest.mark.parametrize("kind", ["lambdarank", "heads"])
def test_a_model_is_read_as_it_was_written(kind: Kind, tmp_path: Path) -> None:
    manifest, fitted = model(kind)
    write(tmp_path, manifest, fitted.heads)
    found = read(tmp_path)
    assert found.manifest == manifest
    rows = matrix(50, seed=3)
    assert np.array_equal(found.predict(rows), fitted.predict(rows))
    with pytest.raises(ValueError, match="is not"):
        found.predict(rows[:, 1:])


def test_heads_are_summed_by_weight_as_probabilities() -> None:
    _, fitted = model("heads")
    rows = matrix(9)
    raw = lightgbm.Booster(model_str=fitted.heads[0].text).predict(rows, raw_score=True)
    raw = np.asarray(raw)
    wanted = 1 / (1 + np.exp(-raw)) + 3 / (1 + np.exp(1 - 0.5 * raw))
    assert fitted.predict(rows) == pytest.approx(wanted, abs=1e-12)


def refused(manifest: Manifest, text: str, match: str) -> None:
    with pytest.raises(Invalid, match=match) as error:
        load(manifest, text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["lambdarank", "heads"])
def test_what_is_not_the_fitted_model_is_refused(kind: Kind) -> None:
    manifest, fitted = model(kind)
    text = text_of(kind, fitted.heads)
    assert load(manifest, text)
    refused(manifest, text[:-40], "truncated or altered")
    refused(replace(manifest, features=("mood", *NAMES[1:])), text, "'mood', which this version")
    permuted = (NAMES[1], NAMES[0], *NAMES[2:])
    refused(replace(manifest, features=permuted), text, "meant something else")
    refused(replace(manifest, schema_hash="0" * 16), text, "meant something else")
    refused(replace(manifest, golden_rows=(), golden_scores=()), text, "no golden rows")
    off = (manifest.golden_scores[0] + 1e-6, *manifest.golden_scores[1:])
    refused(replace(manifest, golden_scores=off), text, "golden rows otherwise")


def test_permuted_features_are_refused_though_every_hash_is_right() -> None:
    manifest, _ = model()
    swapped = booster((NAMES[1], NAMES[0], *NAMES[2:]))
    again, _ = sealed(manifest, [Head("relevance", swapped, 1, 0, 1)], matrix(5))
    refused(again, swapped, "not those of the manifest in their order")


def test_scores_that_are_no_numbers_are_refused() -> None:
    manifest, fitted = model()
    lines = []
    for line in fitted.heads[0].text.split("\n"):
        name, _, values = line.partition("=")
        if name == "leaf_value":
            lines.append(f"leaf_value={' '.join(['nan'] * len(values.split()))}")
        elif name != "tree_sizes":  # without it LightGBM parses; with a wrong one it crashes
            lines.append(line)
    text = "\n".join(lines)
    again, _ = sealed(manifest, [Head("relevance", text, 1, 0, 1)], matrix(5))
    refused(again, text, "not finite")


def test_the_same_model_has_the_same_version_whenever_it_was_fitted() -> None:
    first, fitted = model()
    later, _ = sealed(replace(first, created_at="later"), fitted.heads, matrix(5))
    assert first.version == later.version and first.sha256.startswith(first.version)


def test_a_folder_without_a_model_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="foryou train fit"):
        read(tmp_path)
    manifest, fitted = model()
    write(tmp_path, manifest, fitted.heads)
    (tmp_path / "manifest.json").write_text(json.dumps({"version": "1"}))
    with pytest.raises(Invalid, match="cannot be read"):
        read(tmp_path)
