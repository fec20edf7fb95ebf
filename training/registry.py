"""Changes who ranks: registers a model, promotes it through the gate, rolls it back; all audited.

`foryou models` and the admin api both come here.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from feed.errors import Conflict
from rankers.artifact import Model, load, manifest_text, read_manifest, text_of
from storage.audit import append_audit
from storage.connections import Connection
from storage.models import (
    Texts,
    crown,
    lock_models,
    model_row,
    model_texts,
    put_model,
    serving,
    set_aside,
    uncrown,
)
from training.dataset import Dataset
from training.evaluate import MAIN, evaluate
from training.gate import refusals
from training.split import split_at

SEED = 1


class Refused(Conflict):
    """The gate lets a model not pass; `reasons` are sentences."""

    def __init__(self, version: str, reasons: list[str]) -> None:
        """Say all of them."""
        super().__init__(f"The gate refuses {version}. {' '.join(reasons)}")
        self.reasons = reasons


@dataclass(frozen=True)
class By:
    """Who makes a change, and why."""

    actor: str
    why: str | None = None


@dataclass(frozen=True)
class Change:
    """What became of the registry; versions, None is the light ranker alone.

    `overruled` are the reasons for which the gate would have refused.
    """

    action: str
    version: str | None
    before: str | None
    overruled: list[str] = field(default_factory=list)
    audit_id: int | None = None


async def register(
    connection: Connection, model: Model, by: By, dataset: Dataset | None = None
) -> Change:
    """Register a model; with a data set, compare it with the champion on what is new to both.

    Raises:
        Conflict: Another model has this version.
        Invalid: The data set has nothing that is new to both.
    """
    manifest = model.manifest
    before = (await serving(connection)).champion
    figures: Mapping[str, Any] = {}
    if dataset is not None and before is not None and before != manifest.version:
        figures = {"against": compared(model, await _loaded(connection, before), dataset)}
    texts = Texts(manifest_text(manifest), text_of(manifest.kind, model.heads))
    new = await put_model(connection, manifest.version, texts, figures)
    action = "models.registered" if new else "models.judged"
    return await _noted(connection, Change(action, manifest.version, before), by)


def compared(model: Model, champion: Model, dataset: Dataset) -> dict[str, Any]:
    """Compare two models on the slates that were served after both had been fitted."""
    windows = (model.manifest.window, champion.manifest.window)
    test_from_ms = max(window["test_from_ms"] for window in windows)
    test = split_at(dataset, windows[0]["valid_from_ms"], test_from_ms).test
    scores = {
        name: each.predict(test.matrix[:, _places(each, dataset)])
        for name, each in (("model", model), ("champion", champion))
    }
    found = evaluate(test, scores, model="model", seed=SEED)
    return {
        "version": champion.manifest.version,
        "lift": asdict(found.lift["champion"]),
        "metric": MAIN,
        "n_queries": found.n_queries,
    }


async def promote(
    connection: Connection, version: str, by: By, *, force: bool, deadline_s: float
) -> Change:
    """Let a model rank, if the gate lets it pass or is overruled; in a transaction.

    Raises:
        Refused: It does not pass.
        NotFound: There is none of this version.
        Conflict: It ranks already, or it is overruled without a reason.
    """
    if force and not by.why:
        raise Conflict("Who overrules the gate says why.")
    await lock_models(connection)
    before = (await serving(connection)).champion
    row = await model_row(connection, version)
    if before == version:
        raise Conflict(f"{version} is the champion already.")
    model = await _loaded(connection, version)  # what cannot be loaded is not forced either
    reasons = refusals(model, row.figures, before, deadline_s=deadline_s, clock=time.perf_counter)
    if reasons and not force:
        raise Refused(version, reasons)
    await crown(connection, version)
    return await _noted(connection, Change("models.promoted", version, before, reasons), by)


async def shadow(connection: Connection, version: str, by: By) -> Change:
    """Let a model score beside the one that ranks, in place of the shadow before.

    Raises:
        NotFound: There is none of this version.
        Conflict: It ranks.
    """
    await lock_models(connection)
    before = (await serving(connection)).shadow
    if (await model_row(connection, version)).state == "champion":
        raise Conflict(f"{version} is the champion: it cannot be its own shadow.")
    await _loaded(connection, version)
    await set_aside(connection, version, "shadow")
    return await _noted(connection, Change("models.shadowed", version, before), by)


async def retire(connection: Connection, version: str, by: By) -> Change:
    """Take a model out of service; when it is the champion, the light ranker serves alone.

    Raises:
        NotFound: There is none of this version.
    """
    await lock_models(connection)
    before = (await serving(connection)).champion
    if (await model_row(connection, version)).state == "champion":
        await crown(connection, None)
    else:
        await set_aside(connection, version, "retired")
    return await _noted(connection, Change("models.retired", version, before), by)


async def roll_back(connection: Connection, by: By) -> Change:
    """Undo the last change of who ranks.

    Raises:
        Conflict: There is nothing to undo.
    """
    await lock_models(connection)
    before = (await serving(connection)).champion
    now = await uncrown(connection)
    return await _noted(connection, Change("models.rolled_back", now, before), by)


async def _loaded(connection: Connection, version: str) -> Model:
    texts = await model_texts(connection, version)
    return load(read_manifest(texts.manifest), texts.model)


def _places(model: Model, dataset: Dataset) -> list[int]:
    return [dataset.about.features.index(name) for name in model.manifest.features]


async def _noted(connection: Connection, change: Change, by: By) -> Change:
    detail = {
        "version": change.version,
        "before": change.before,
        "why": by.why,
        "overruled": change.overruled,
    }
    audit_id = await append_audit(connection, actor=by.actor, action=change.action, detail=detail)
    return Change(change.action, change.version, change.before, change.overruled, audit_id)
