"""A fitted ranker as two texts, the model and its manifest, and the way back, which trusts neither.

`foryou train fit` writes them; every node loads them. There is no pickle: a model is LightGBM's own
text, or for heads a JSON of such texts. What is not the model that was fitted is refused.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from feed.errors import Invalid, Misconfigured
from rankers.features import NAMES, Matrix, schema_hash

Kind = Literal["lambdarank", "heads"]
Scores = npt.NDArray[np.float64]

MODEL, MANIFEST = "model.txt", "manifest.json"
VERSION_DIGITS = 12
GOLDEN_TOLERANCE = 1e-9
"""Golden scores are of the same library and rows; another processor may round the last digits."""


@dataclass(frozen=True)
class Head:
    """One booster of a model by heads; its probability is 1 / (1 + exp(-(a raw + b)))."""

    name: str
    text: str
    a: float
    b: float
    weight: float


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What is known of a model. `golden_rows` and `golden_scores` are what it gave when fitted.

    `window` holds the milliseconds from which its parts begin; None in a golden row is NaN.
    """

    version: str
    kind: Kind
    features: tuple[str, ...]
    schema_hash: str
    params: Mapping[str, Any]
    gains: tuple[float, ...]
    window: Mapping[str, int]
    counts: Mapping[str, int]
    metrics: Mapping[str, Any]
    created_at: str
    code_version: str
    sha256: str
    golden_rows: tuple[tuple[float | None, ...], ...]
    golden_scores: tuple[float, ...]


@dataclass(frozen=True)
class Model:
    """A ranker that was checked and is ready."""

    manifest: Manifest
    heads: tuple[Head, ...]
    boosters: tuple[Any, ...]

    def predict(self, matrix: Matrix) -> Scores:
        """Return a score (n,) for each row of features (n, d), on one thread; higher is better.

        Of heads it is the sum of weight times probability.

        Raises:
            ValueError: Another number of columns than the model has features.
        """
        if matrix.ndim != 2 or matrix.shape[1] != len(self.manifest.features):
            raise ValueError(f"{matrix.shape} is not (n, {len(self.manifest.features)})")
        if self.manifest.kind == "lambdarank":
            return self._raw(0, matrix)
        values = [
            head.weight * self.probability(place, matrix) for place, head in enumerate(self.heads)
        ]
        return np.asarray(np.sum(values, axis=0))

    def probability(self, place: int, matrix: Matrix) -> Scores:
        """Return the calibrated probability (n,) of one head."""
        head = self.heads[place]
        return np.asarray(1 / (1 + np.exp(-(head.a * self._raw(place, matrix) + head.b))))

    def _raw(self, place: int, matrix: Matrix) -> Scores:
        raw = self.boosters[place].predict(matrix, raw_score=True, num_threads=1)
        return np.asarray(raw, dtype=np.float64)


def text_of(kind: Kind, heads: Sequence[Head]) -> str:
    """Return the text of a model; that of lambdarank is its booster's own."""
    if kind == "lambdarank":
        return heads[0].text
    return json.dumps({"heads": [asdict(head) for head in heads]}, indent=0)


def sealed(manifest: Manifest, heads: Sequence[Head], golden: Matrix) -> tuple[Manifest, Model]:
    """Complete a manifest with what follows from the model: version, hashes, golden scores.

    The version is the beginning of the text's hash, so that the same model has the same version.
    """
    digest = sha256(text_of(manifest.kind, heads).encode()).hexdigest()
    manifest = replace(
        manifest,
        version=digest[:VERSION_DIGITS],
        sha256=digest,
        schema_hash=schema_hash(manifest.features),
    )
    scores = _opened(manifest, heads).predict(golden)
    manifest = replace(
        manifest,
        golden_rows=tuple(tuple(map(_told, row)) for row in golden.tolist()),
        golden_scores=tuple(scores.tolist()),
    )
    return manifest, _opened(manifest, heads)


def write(folder: Path, manifest: Manifest, heads: Sequence[Head]) -> None:
    """Write `model.txt` and `manifest.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MODEL).write_text(text_of(manifest.kind, heads), encoding="utf-8")
    (folder / MANIFEST).write_text(f"{manifest_text(manifest)}\n", encoding="utf-8")


def read(folder: Path) -> Model:
    """Read and check what `write` wrote.

    Raises:
        Invalid: It is not there, or not what was fitted.
    """
    try:
        manifest = (folder / MANIFEST).read_text(encoding="utf-8")
        text = (folder / MODEL).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(
            f"{folder} holds no model ({error}): `foryou train fit` writes one."
        ) from None
    return load(read_manifest(manifest), text)


def manifest_text(manifest: Manifest) -> str:
    """Write a manifest as JSON."""
    return json.dumps(asdict(manifest), indent=1)


def read_manifest(text: str) -> Manifest:
    """Read a manifest.

    Raises:
        Invalid: It is none of ours.
    """
    try:
        said = json.loads(text)
        said |= {name: tuple(said[name]) for name in ("features", "gains", "golden_scores")}
        said["golden_rows"] = tuple(tuple(row) for row in said["golden_rows"])
        return Manifest(**said)
    except (ValueError, KeyError, TypeError) as error:
        raise Invalid(f"This manifest cannot be read ({error}): fit the model again.") from None


def load(manifest: Manifest, text: str) -> Model:
    """Return the model of these texts, once it has proved to be the one that was fitted.

    Raises:
        Invalid: It was fitted on other features, is truncated or altered, or scores otherwise.
    """
    unknown = [name for name in manifest.features if name not in NAMES]
    if unknown:
        raise Invalid(
            f"The model wants the feature {unknown[0]!r}, which this version cannot make."
        )
    if schema_hash(manifest.features) != manifest.schema_hash:
        raise Invalid("The model was fitted when its features meant something else: fit it again.")
    if sha256(text.encode()).hexdigest() != manifest.sha256:
        raise Invalid("The model's text is truncated or altered: its hash is not the manifest's.")
    # Only now: LightGBM does not survive a text that was cut or edited, it takes the process along.
    model = _opened(manifest, _heads(manifest, text))
    for booster in model.boosters:
        if tuple(booster.feature_name()) != manifest.features:
            raise Invalid("The model's features are not those of the manifest in their order.")
    _prove(model)
    return model


def _prove(model: Model) -> None:
    rows, wanted = model.manifest.golden_rows, np.array(model.manifest.golden_scores)
    if not rows or len(rows) != len(wanted):
        raise Invalid("The manifest has no golden rows to check the model with.")
    scores = model.predict(np.array(rows, dtype=np.float32))
    if not np.isfinite(scores).all():
        raise Invalid("The model gives scores that are not finite.")
    if not np.allclose(scores, wanted, rtol=GOLDEN_TOLERANCE, atol=GOLDEN_TOLERANCE):
        worst = float(np.abs(scores - wanted).max())
        raise Invalid(
            f"The model scores its golden rows otherwise than when fitted, by {worst:.3g}."
        )


def _heads(manifest: Manifest, text: str) -> tuple[Head, ...]:
    if manifest.kind == "lambdarank":
        return (Head("relevance", text, 1.0, 0.0, 1.0),)
    try:
        return tuple(Head(**head) for head in json.loads(text)["heads"])
    except (ValueError, KeyError, TypeError) as error:
        raise Invalid(f"The model's heads cannot be read ({error}).") from None


def _opened(manifest: Manifest, heads: Sequence[Head]) -> Model:
    try:
        import lightgbm
    except (ImportError, OSError) as error:
        raise Misconfigured(
            f"A heavy ranker needs lightgbm, which cannot be loaded ({error}): "
            "run pip install 'foryou[heavy]'."
        ) from None
    try:
        boosters = tuple(lightgbm.Booster(model_str=head.text) for head in heads)
    except lightgbm.basic.LightGBMError as error:
        raise Invalid(f"LightGBM cannot read the model: {error}.") from None
    return Model(manifest, tuple(heads), boosters)


def _told(value: float) -> float | None:
    return None if math.isnan(value) else value
