"""One trial from rows to a judged model: what `foryou train fit`, `evaluate` and `report` do."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from feed.errors import Invalid
from rankers.artifact import Head, Kind, Manifest, Model, sealed
from rankers.features import schema_hash
from training.baselines import FORMULAS, Scores, logistic_regression
from training.dataset import Dataset
from training.evaluate import Evaluation, document, evaluate
from training.fit import Fitting, Progress, calibrated, fit_heads, fit_lambdarank
from training.report import Part, Subject
from training.split import Split, split, split_at

MODEL = "model"
"""What the ranker on trial is called among the others."""

GOLDEN = 32
"""Rows by which every node proves that it loaded the model that was fitted."""


@dataclass(frozen=True)
class Trial:
    """A model, the parts of the data, and how it did on the last of them."""

    manifest: Manifest
    model: Model
    parts: Split
    found: Evaluation


def fit(
    dataset: Dataset,
    kind: Kind,
    fitting: Fitting,
    *,
    shares: tuple[float, float],
    created_at: str,
    progress: Progress | None = None,
) -> Trial:
    """Split by time, fit, and judge on the test part; `shares` are those of valid and test.

    Raises:
        Invalid: The data set was made by another version, or is too short.
    """
    if dataset.about.schema_hash != schema_hash(dataset.about.features):
        raise Invalid("The features of this data set meant something else: export it again.")
    parts = split(dataset, valid_share=shares[0], test_share=shares[1])
    heads: tuple[Head, ...]
    if kind == "heads":
        heads = fit_heads(parts.train, parts.valid, fitting, progress)
    else:
        text = fit_lambdarank(parts.train, parts.valid, fitting, progress)
        heads = (Head("relevance", text, 1.0, 0.0, 1.0),)
    blank = _manifest(dataset, parts, kind, fitting, created_at)
    manifest, model = sealed(blank, heads, parts.valid.matrix[:GOLDEN])
    found = judge(model, parts, seed=fitting.seed)
    return Trial(replace(manifest, metrics=document(found)), model, parts, found)


def judge_again(model: Model, dataset: Dataset, *, seed: int) -> Trial:
    """Judge a model on what a data set has later than what it was fitted on.

    Raises:
        Invalid: It has nothing later, or other features.
    """
    if dataset.about.features != model.manifest.features:
        raise Invalid("The data set has other features than the model: export it again.")
    window = model.manifest.window
    parts = split_at(dataset, window["valid_from_ms"], window["test_from_ms"])
    if not len(parts.test):
        raise Invalid("This data set has nothing later than what the model was fitted on.")
    return Trial(model.manifest, model, parts, judge(model, parts, seed=seed))


def judge(model: Model, parts: Split, *, seed: int) -> Evaluation:
    """Compare a model with every baseline on the test part.

    Logistic regression learns from the training part; where there is none it is left out.
    """
    scores: dict[str, Scores] = {MODEL: model.predict(parts.test.matrix)}
    scores |= {name: ranker(parts.test) for name, ranker in FORMULAS.items()}
    if len(parts.train):
        scores["logistic_regression"] = logistic_regression(parts.train)(parts.test)
    return evaluate(parts.test, scores, model=MODEL, seed=seed)


def subject(trial: Trial, dataset: Dataset) -> Subject:
    """Return what a report is about; the scores of a lambdarank are calibrated on the valid part.

    Raises:
        Invalid: The data set lacks the parts that the model was fitted on.
    """
    if not (len(trial.parts.train) and len(trial.parts.valid)):
        raise Invalid("A report needs the data set that the model was fitted on.")
    manifest = trial.manifest
    return Subject(
        version=manifest.version,
        kind=manifest.kind,
        parts=tuple(_parts(trial)),
        parameters=manifest.params,
        scores=trial.model.predict(dataset.matrix),
    )


def _parts(trial: Trial) -> Iterator[Part]:
    model, parts = trial.model, trial.parts
    if trial.manifest.kind == "lambdarank":
        calibration = calibrated(model.predict(parts.valid.matrix), parts.valid["label"] > 0)
        yield Part(
            name="any engagement",
            text=model.heads[0].text,
            weight=1.0,
            happened=(parts.test["label"] > 0).astype(np.float64),
            said=calibration(model.predict(parts.test.matrix)),
            base=float((parts.train["label"] > 0).mean()),
        )
        return
    for place, head in enumerate(model.heads):
        yield Part(
            name=head.name,
            text=head.text,
            weight=head.weight,
            happened=parts.test[head.name].astype(np.float64),
            said=model.probability(place, parts.test.matrix),
            base=float(parts.train[head.name].mean()),
        )


def _manifest(
    dataset: Dataset, parts: Split, kind: Kind, fitting: Fitting, created_at: str
) -> Manifest:
    return Manifest(
        version="",
        kind=kind,
        features=dataset.about.features,
        schema_hash="",
        params={name: value for name, value in asdict(fitting).items() if name != "threads"},
        gains=dataset.about.gains,
        window={
            "from_ms": int(parts.train.opened_ms.min()),
            "valid_from_ms": parts.valid_from_ms,
            "test_from_ms": parts.test_from_ms,
            "until_ms": int(parts.test.opened_ms.max()) + 1,
        },
        counts=_counts(parts),
        metrics={},
        created_at=created_at,
        code_version=_code_version(),
        sha256="",
        golden_rows=(),
        golden_scores=(),
    )


def _counts(parts: Split) -> Mapping[str, int]:
    counts = {"purged_queries": parts.n_purged}
    for name in ("train", "valid", "test"):
        part: Dataset = getattr(parts, name)
        counts |= {f"{name}_queries": len(part.queries), f"{name}_rows": len(part)}
        counts[f"{name}_engaged"] = int((part["label"] > 0).sum())
    return counts


def _code_version() -> str:
    try:
        return version("foryou")
    except PackageNotFoundError:
        return "unknown"  # run from a folder that was never installed
