"""Writes what is known of a fitted ranker as one HTML file that needs nothing else.

Made for a person who decides whether this ranker should go live: whom it beats and by how much,
whether its probabilities are true, what it looks at, where it is weak, and what has changed since.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

import numpy as np
import numpy.typing as npt

from training import plots
from training.dataset import Dataset
from training.evaluate import MAIN, Evaluation
from training.extra import extra
from training.metrics import Interval, calibration_error, relative_cross_entropy
from training.split import Split

Scores = npt.NDArray[np.float64]

MS_PER_DAY = 86_400_000
EXPLAINED_ROWS = 2_000
"""Rows of the test part whose scores are taken apart: enough for means, and seconds of work."""

POSITIONS = 60
BUCKETS = 20
DECILES = 10
DRIFTED = 0.2
"""A population stability index above this is usually called a change (Siddiqi 2006)."""

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #24292f; background: #fff;
       max-width: 860px; margin: 2.5rem auto 5rem; padding: 0 1.25rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2.6rem 0 .3rem; }
p { margin: .3rem 0 .9rem; color: #57606a; max-width: 70ch; } img { width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; margin: .6rem 0 1rem;
        font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: #57606a; border-bottom: 1px solid #d0d7de; }
th, td { padding: .28rem .6rem .28rem 0; } td { border-bottom: 1px solid #eaeef2; }
td:not(:first-child), th:not(:first-child) { text-align: right; }
.verdict { border-left: 4px solid #1f6feb; padding: .5rem .9rem; background: #f6f8fa;
           color: #24292f; }
.verdict.no { border-color: #bc4c00; } .ours td { font-weight: 600; }
"""


@dataclass(frozen=True)
class Part:
    """One booster of a ranker: its text, its weight in the value, and the calibrated probability.

    `said` are probabilities (n,) for the rows of the test part, and `happened` what came of them.
    """

    name: str
    text: str
    weight: float
    happened: Scores
    said: Scores
    base: float


@dataclass(frozen=True)
class Subject:
    """What the report is about; `scores` (n,) are for the rows of the whole data set."""

    version: str
    kind: str
    parts: Sequence[Part]
    parameters: Mapping[str, object]
    scores: Scores


def report(subject: Subject, dataset: Dataset, split: Split, found: Evaluation, seed: int) -> str:
    """Return the report as the text of an HTML document."""
    rows = np.random.default_rng(seed).permutation(len(split.test))[:EXPLAINED_ROWS]
    explained = split.test.matrix[np.sort(rows)]
    contributions = _contributions(subject.parts, explained)
    sections = [
        _head(subject, split, found),
        _lift(found),
        _calibration(subject.parts),
        _importance(subject.parts, dataset, explained, contributions),
        _positions(dataset),
        _slices(found),
        _spread(found),
        _drift(subject.scores, dataset, split),
        _features(subject.parts, split),
    ]
    title = escape(f"Ranker {subject.version}")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style><body>{''.join(sections)}</body></html>\n"
    )


def _head(subject: Subject, split: Split, found: Evaluation) -> str:
    parts = ((name, getattr(split, name)) for name in ("train", "valid", "test"))
    counts = _table(
        ("part", "from", "to", "slates", "rows", "engaged with"),
        (
            (
                name,
                _day(part.opened_ms.min()),
                _day(part.opened_ms.max()),
                f"{len(part.queries):,}",
                f"{len(part):,}",
                f"{(part['label'] > 0).mean():.2%}",
            )
            for name, part in parts
        ),
    )
    used = ", ".join(f"{name} {value}" for name, value in subject.parameters.items())
    return (
        f"<h1>Ranker {escape(subject.version)}</h1><p>{escape(subject.kind)}: {escape(used)}</p>"
        f"{_verdict(found)}{counts}"
        f"<p>Split by time; {split.n_purged:,} slates in the gaps of one label window between the "
        f"parts were left out. On {found.n_empty:,} of {found.n_queries:,} test slates nobody "
        "engaged with anything: they have no ranking metric. Everything below is on the test part "
        "unless it says otherwise.</p>"
    )


def _verdict(found: Evaluation) -> str:
    lost = [name for name in found.lift if name not in found.beaten]
    ours = found.rankers[found.model][MAIN]
    said = f"It beats {', '.join(found.beaten) or 'nothing'}: no interval touches its own."
    if lost:
        said += f" It does not clearly beat {', '.join(lost)}."
    mark = "" if not lost else " no"
    return f'<p class="verdict{mark}">NDCG@10 {_told(ours)}. {escape(said)}</p>'


def _lift(found: Evaluation) -> str:
    order = sorted(found.rankers, key=lambda name: -found.rankers[name][MAIN].mean)
    metrics = list(found.rankers[found.model])
    rows = (
        (
            name,
            *(f"{found.rankers[name][metric].mean:.3f}" for metric in metrics),
            _signed(found.lift[name]) if name in found.lift else "",
        )
        for name in order
    )
    return _section(
        "Lift",
        "How well each order puts first what its viewer then engaged with. Ties count at their "
        "worst. The last column is how much higher the model is on the same slates.",
        _image(plots.lift(found), "NDCG@10 of every ranker"),
        _table(("ranker", *metrics, "model is higher by"), rows, marked=found.model),
    )


def _calibration(parts: Sequence[Part]) -> str:
    curves = {part.name: (part.happened, part.said) for part in parts}
    rows = (
        (
            part.name,
            f"{part.happened.mean():.3%}",
            f"{part.said.mean():.3%}",
            f"{calibration_error(part.happened, part.said):.4f}",
            f"{relative_cross_entropy(part.happened, part.said, part.base):+.1f} %",
        )
        for part in parts
    )
    return _section(
        "Calibration",
        "Whether what is said to happen in one of ten cases does. A curve on the diagonal is true; "
        "the last column compares with always saying the rate of the training part.",
        _image(plots.calibration(curves), "What was said against what happened"),
        _table(("", "happened", "said", "ECE", "better than the base rate by"), rows),
    )


def _importance(
    parts: Sequence[Part],
    dataset: Dataset,
    explained: npt.NDArray[np.float32],
    contributions: Scores,
) -> str:
    names = dataset.about.features
    shap = dict(zip(names, np.abs(contributions).mean(axis=0).tolist(), strict=True))
    gains = sum((part.weight * _gain(part.text) for part in parts), np.zeros(len(names)))
    gain = dict(zip(names, (gains / max(gains.sum(), 1e-12)).tolist(), strict=True))
    top = sorted(shap, key=lambda name: -shap[name])
    return _section(
        "What it looks at",
        f"Scores of {len(explained):,} rows taken apart by feature (TreeSHAP, Lundberg 2020). "
        "Below, how much each value of a feature moves a score, up or down.",
        _image(plots.importance(gain, shap), "Importance of features"),
        _image(plots.dependences(explained, contributions, names, top), "Contribution by value"),
    )


def _positions(dataset: Dataset) -> str:
    shown = dataset["shown"] & (dataset["position"] >= 0) & (dataset["position"] < POSITIONS)
    place = dataset["position"][shown]
    n = np.bincount(place, minlength=1).astype(np.float64)
    engaged = (dataset["label"][shown] > 0).astype(np.float64)
    hits = np.asarray(np.bincount(place, weights=engaged, minlength=1), dtype=np.float64)
    low, high = _wilson(hits, np.maximum(n, 1))
    return _section(
        "Position bias",
        "How often what was on the screen was engaged with, by where it stood, in the whole data "
        "set. It falls because better posts stand higher and because fewer people get there; only "
        "slates that were explored at random tell the two apart.",
        _image(plots.positions(hits / np.maximum(n, 1), low, high), "Engagement by position"),
    )


def _slices(found: Evaluation) -> str:
    rivals = {name: found.rankers[name][MAIN].mean for name in found.lift}
    if not (found.slices and rivals):
        return ""
    rival = max(rivals, key=lambda name: rivals[name])
    rows = (
        (
            part.name,
            f"{part.n_rows:,}",
            f"{part.rankers[found.model].n:,}",
            _told(part.rankers[found.model]),
            _told(part.rankers[rival]),
        )
        for part in found.slices
    )
    return _section(
        "Slices",
        "The same for parts of the rows, each ranked among themselves, beside the strongest "
        "baseline. A cold viewer or author has hardly a past.",
        _image(plots.slices(found.slices, found.model, rival), "NDCG@10 by slice"),
        _table(("slice", "rows", "slates judged", found.model, rival), rows),
    )


def _spread(found: Evaluation) -> str:
    rows = (
        (name, f"{each.coverage:.1%}", f"{each.gini:.3f}", f"{each.top_tenth:.1%}")
        for name, each in found.spread.items()
    )
    return _section(
        "Who is shown",
        "Of all posts in the slates, how many stand in somebody's first ten; how unequally those "
        "places fall to authors; and how many of them the most shown tenth of the authors has.",
        _table(("ranker", "coverage", "Gini of authors", "top tenth's places"), rows, found.model),
    )


def _drift(scores: Scores, dataset: Dataset, split: Split) -> str:
    at_ms = dataset["at_ms"]
    order = np.argsort(at_ms, kind="stable")
    chunks = [rows for rows in np.array_split(order, BUCKETS) if len(rows)]
    first = int(at_ms.min())
    days = np.array([(at_ms[rows].mean() - first) / MS_PER_DAY for rows in chunks])
    quantiles = np.array([np.quantile(scores[rows], (0.1, 0.5, 0.9)) for rows in chunks])
    test_day = (split.test_from_ms - first) / MS_PER_DAY
    return _section(
        "Score drift",
        "Median and 10 to 90% range of the scores over time. Where they wander after the line, "
        "what the ranker is given no longer looks like what it learned from.",
        _image(plots.drift(days, quantiles, test_day), "Scores over time"),
    )


def _features(parts: Sequence[Part], split: Split) -> str:
    splits = sum((_splits(part.text) for part in parts), np.zeros(len(split.test.about.features)))
    rows = []
    for column, name in enumerate(split.test.about.features):
        before, after = split.train.matrix[:, column], split.test.matrix[:, column]
        moved = stability_index(before, after)
        told = _complaint(before, splits[column], moved)
        rows.append(
            (name, f"{np.isnan(after).mean():.1%}", f"{splits[column]:,.0f}", f"{moved:.2f}", told)
        )
    return _section(
        "Features",
        "How much of each is unknown, in how many splits it is used, how far its distribution has "
        "moved between the training and the test part (population stability index), and what is "
        "dead.",
        _table(("feature", "unknown", "splits", "PSI", ""), rows),
    )


def _complaint(before: npt.NDArray[np.float32], n_splits: float, moved: float) -> str:
    known = before[~np.isnan(before)]
    if not len(known):
        return "dead: always unknown"
    if known.min() == known.max() and len(known) == len(before):
        return "dead: always the same"
    if n_splits == 0:
        return "dead: never used"
    return "has drifted" if moved > DRIFTED else ""


def stability_index(before: npt.NDArray[np.float32], after: npt.NDArray[np.float32]) -> float:
    """Return the population stability index over the deciles of `before`; unknown is a bin too.

    Sum of (p - q) ln(p / q) over the bins, shares no smaller than one in 10,000.
    """
    known = before[~np.isnan(before)]
    if not len(known):
        return 0.0
    edges = np.unique(np.quantile(known, np.linspace(0, 1, DECILES + 1)[1:-1]))
    shares = []
    for values in (before, after):
        bins = np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values))
        counts = np.bincount(bins, minlength=len(edges) + 2)
        shares.append(np.maximum(counts / max(len(values), 1), 1e-4))
    return float(((shares[1] - shares[0]) * np.log(shares[1] / shares[0])).sum())


def _contributions(parts: Sequence[Part], matrix: npt.NDArray[np.float32]) -> Scores:
    """Return how much each feature moves the raw value of each row (n, d), by weight of parts."""
    total = np.zeros(matrix.shape)
    for part in parts:
        booster = extra("lightgbm").Booster(model_str=part.text)
        total += part.weight * booster.predict(matrix, pred_contrib=True, num_threads=1)[:, :-1]
    return total


def _gain(text: str) -> Scores:
    booster = extra("lightgbm").Booster(model_str=text)
    return np.asarray(booster.feature_importance("gain"), dtype=np.float64)


def _splits(text: str) -> Scores:
    booster = extra("lightgbm").Booster(model_str=text)
    return np.asarray(booster.feature_importance("split"), dtype=np.float64)


def _wilson(hits: Scores, n: Scores, z: float = 1.96) -> tuple[Scores, Scores]:
    """Return Wilson's score interval of each rate (Wilson 1927)."""
    rate = hits / n
    middle = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return middle - half, middle + half


def _section(title: str, said: str, *contents: str) -> str:
    return f"<h2>{escape(title)}</h2><p>{escape(said)}</p>{''.join(contents)}"


def _image(svg: str, said: str) -> str:
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{escape(said)}" src="data:image/svg+xml;base64,{data}">'


def _table(head: Iterable[str], rows: Iterable[Sequence[str]], marked: str | None = None) -> str:
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    return f"<table><tr>{names}</tr>{''.join(_table_rows(rows, marked))}</table>"


def _table_rows(rows: Iterable[Sequence[str]], marked: str | None) -> Iterator[str]:
    for row in rows:
        kind = ' class="ours"' if row[0] == marked else ""
        yield f"<tr{kind}>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"


def _told(value: Interval) -> str:
    return f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"


def _signed(value: Interval) -> str:
    return f"{value.mean:+.3f} [{value.low:+.3f}, {value.high:+.3f}]"


def _day(ms: int) -> str:
    return datetime.fromtimestamp(int(ms) / 1000, UTC).strftime("%Y-%m-%d %H:%M")
