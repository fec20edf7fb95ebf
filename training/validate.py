"""Says whether a data set, and the logs that it was made of, can be trusted."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from feed.errors import Invalid
from rankers.features import FEATURES, schema_hash
from storage.connections import Connection
from storage.learning import CHECKS, Problem, Slate, Span, check, duplicate_impressions, slates
from training.dataset import Dataset, read
from training.parity import TOLERANCE, Difference, compare

BEARABLE = 0.01
"""So large a share of events may be wrong: clients are restarted, logs are dropped when full."""

UNLIKE = 0.001
"""So large a share of rows may differ in a feature: what was followed, left and followed again."""


class Check(NamedTuple):
    """One line of the list, with at most ten examples."""

    name: str
    passed: bool
    said: str
    examples: list[Any]


async def validate(
    connection: Connection, folder: Path, *, n_slates: int, half_life_s: float
) -> list[Check]:
    """Check a data set and the logs of its span; the connection reads one moment."""
    try:
        dataset = read(folder)
    except Invalid as error:
        return [Check("order", False, str(error), [])]
    about = dataset.about
    window = timedelta(hours=about.label_window_h)
    span = Span(_moment(about.from_ms), _moment(about.until_ms) + window)
    checks = [
        Check("order", True, f"{len(dataset):,} rows of {len(dataset.queries):,} queries", []),
        _schema(dataset),
        *[_bearable(name, await check(connection, name, span)) for name in CHECKS],
        _none("duplicate_impressions", await duplicate_impressions(connection, span)),
        positions(dataset),
        nulls(dataset),
    ]
    some = await _some(connection, span, n_slates)
    found = await compare(connection, some, half_life_s=half_life_s) if some else []
    return [*checks, parity(found)]


def _schema(dataset: Dataset) -> Check:
    same = dataset.about.schema_hash == schema_hash(dataset.about.features)
    return Check("schema", same, f"features {dataset.about.schema_hash}", [])


def _bearable(name: str, problem: Problem) -> Check:
    said = f"{problem.n:,} of {problem.of:,} events"
    return Check(name, problem.n <= BEARABLE * problem.of, said, problem.examples)


def _none(name: str, problem: Problem) -> Check:
    return Check(name, problem.n == 0, f"{problem.n:,}", problem.examples)


def positions(dataset: Dataset) -> Check:
    """Check that shown rows have a position, and fewer were shown further down."""
    shown, position = dataset["shown"], dataset["position"]
    lost = int((shown & (position < 0)).sum())
    n = np.bincount(position[shown & (position >= 0)], minlength=10)
    said = f"{lost:,} shown without being served; shown by position: {n[:10].tolist()}"
    rows = np.flatnonzero(shown & (position < 0))[:10]
    examples = [
        (str(dataset.queries[dataset.group[row]]), int(dataset["post_id"][row])) for row in rows
    ]
    bearable = lost <= BEARABLE * max(int(shown.sum()), 1)
    return Check("position_histogram", bearable and (len(n) < 20 or n[0] >= n[19]), said, examples)


def nulls(dataset: Dataset) -> Check:
    """Check that what is always known is known; name what never is."""
    rates = {name: float(np.isnan(dataset.feature(name)).mean()) for name in dataset.about.features}
    always = {feature.name for feature in FEATURES if not feature.unknown}
    wrong = [(name, rate) for name, rate in rates.items() if rate > 0 and name in always]
    dead = [name for name, rate in rates.items() if rate == 1]
    said = "highest: " + ", ".join(
        f"{name} {rate:.0%}" for name, rate in sorted(rates.items(), key=lambda r: -r[1])[:5]
    )
    if dead:
        said += f"; never known: {', '.join(dead)}"
    return Check("null_rates", not wrong, said, wrong[:10])


def parity(found: Sequence[Difference]) -> Check:
    """Check that features worked out again are those that were logged; examples: the furthest."""
    off = [each for each in found if each.n_off > UNLIKE * each.n]
    n = max((each.n for each in found), default=0)
    furthest = sorted(found, key=lambda each: (-each.n_off, -each.largest))[:10]
    said = f"{len(found) - len(off)} of {len(found)} features agree to {TOLERANCE:g} on {n:,} rows"
    examples = [f"{e.name}: max |diff| {e.largest:.3g}, {e.n_off:,} rows off" for e in furthest]
    return Check("parity", not off and n > 0, said, examples)


async def _some(connection: Connection, span: Span, n: int) -> list[Slate]:
    some: list[Slate] = []
    async for batch in slates(connection, span, batch=min(n, 500)):
        some += [slate for slate in batch if slate.schema_hash == schema_hash()]
        if len(some) >= n:
            break
    return some[:n]


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
