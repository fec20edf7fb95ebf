"""The pictures of the report, each a figure as the text of an SVG."""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from training.evaluate import MAIN, Evaluation, Slice
from training.extra import extra
from training.metrics import Interval, calibration_bins

Scores = npt.NDArray[np.float64]

ACCENT, QUIET, INK, GRID, WARM = "#1f6feb", "#8b949e", "#24292f", "#d0d7de", "#bc4c00"
STYLE = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.hashsalt": "foryou",  # the same figure is the same text
}
BARS = 15
DEPENDENCES = 6
DOTS = 1_500
"""Points of one scatter plot; more of them only make the file larger."""

WIDE = 8.2
ROW = 0.34


def lift(found: Evaluation) -> str:
    """Show every ranker's NDCG@10 with its interval, the model's as a band across."""
    names = sorted(found.rankers, key=lambda name: found.rankers[name][MAIN].mean)
    with _figure(height=0.9 + ROW * len(names)) as (figure, axes):
        ours = found.rankers[found.model][MAIN]
        axes.axvspan(ours.low, ours.high, color=ACCENT, alpha=0.12, lw=0)
        for row, name in enumerate(names):
            colour = ACCENT if name == found.model else INK
            _interval(axes, found.rankers[name][MAIN], row, colour)
        _rows(axes, names, "NDCG@10, with 95% intervals over queries")
        return _svg(figure)


def slices(parts: Sequence[Slice], model: str, rival: str) -> str:
    """Show the model and its strongest baseline in each slice."""
    with _figure(height=0.9 + ROW * len(parts)) as (figure, axes):
        for row, part in enumerate(reversed(parts)):
            _interval(axes, part.rankers[rival], row + 0.14, QUIET)
            _interval(axes, part.rankers[model], row - 0.14, ACCENT)
        axes.plot([], [], "o", color=ACCENT, label=model)
        axes.plot([], [], "o", color=QUIET, label=rival)
        _legend(axes)
        _rows(axes, [part.name for part in reversed(parts)], "NDCG@10 within the slice")
        return _svg(figure)


def calibration(curves: Mapping[str, tuple[Scores, Scores]]) -> str:
    """Show for each head how often happened what it gave a probability."""
    with _figure(height=3.4, columns=len(curves)) as (figure, axes):
        for each, (name, (happened, said)) in zip(np.atleast_1d(axes), curves.items(), strict=True):
            mean, rate, _ = calibration_bins(happened, said)
            top = float(max(mean.max(), rate.max())) * 1.08 or 1.0
            each.plot([0, top], [0, top], color=GRID, lw=1, zorder=0)
            each.plot(mean, rate, "o-", color=ACCENT, ms=4, lw=1.2)
            each.set(title=name, xlabel="said", ylabel="happened", xlim=(0, top), ylim=(0, top))
            each.set_box_aspect(1)
        return _svg(figure)


def importance(gain: Mapping[str, float], shap: Mapping[str, float]) -> str:
    """Show what the trees gained by each feature, and how much each moves a score."""
    names = sorted(shap, key=lambda name: shap[name])[-BARS:]
    with _figure(height=0.9 + 0.28 * len(names), columns=2) as (figure, axes):
        for each, values, title in zip(
            axes,
            (shap, gain),
            ("mean |SHAP| on the test part", "share of the gain of all splits"),
            strict=True,
        ):
            each.barh(names, [values[name] for name in names], color=ACCENT, height=0.62)
            each.set_title(title)
            each.tick_params(length=0)
        axes[1].set_yticklabels([])
        return _svg(figure)


def dependences(
    matrix: npt.NDArray[np.float32], contributions: Scores, names: Sequence[str], top: Sequence[str]
) -> str:
    """Show, for the features that move scores most, how the contribution goes with the value."""
    shown = top[:DEPENDENCES]
    with _figure(height=4.6, columns=3, lines=2) as (figure, axes):
        for each, name in zip(axes.ravel(), shown, strict=False):
            column = list(names).index(name)
            each.axhline(0, color=GRID, lw=1, zorder=0)
            each.plot(
                matrix[:DOTS, column],
                contributions[:DOTS, column],
                ".",
                color=ACCENT,
                ms=2.5,
                alpha=0.5,
                rasterized=True,
            )
            each.set_title(name)
        for each in axes.ravel()[len(shown) :]:
            each.set_axis_off()
        return _svg(figure)


def positions(rate: Scores, low: Scores, high: Scores) -> str:
    """Show how often rows were engaged with, by the position they stood at."""
    with _figure(height=2.8) as (figure, axes):
        place = np.arange(len(rate))
        axes.fill_between(place, low, high, color=ACCENT, alpha=0.15, lw=0)
        axes.plot(place, rate, "-", color=ACCENT, lw=1.4)
        axes.set(xlabel="position", ylabel="engaged with", ylim=(0, None))
        return _svg(figure)


def drift(at_days: Scores, quantiles: Scores, split_day: float) -> str:
    """Show the middle and the 10 to 90% range of the model's scores over time."""
    with _figure(height=2.8) as (figure, axes):
        axes.fill_between(at_days, quantiles[:, 0], quantiles[:, 2], color=ACCENT, alpha=0.15, lw=0)
        axes.plot(at_days, quantiles[:, 1], "o-", color=ACCENT, ms=3, lw=1.2)
        axes.axvline(split_day, color=WARM, lw=1)
        axes.annotate(
            " test part", (split_day, 1), xycoords=("data", "axes fraction"), va="top", color=WARM
        )
        axes.set(xlabel="days since the first slate", ylabel="score")
        return _svg(figure)


def _interval(axes: Any, value: Interval, row: float, colour: str) -> None:
    axes.plot([value.low, value.high], [row, row], color=colour, lw=1.6, solid_capstyle="butt")
    axes.plot([value.mean], [row], "o", color=colour, ms=5)


def _rows(axes: Any, names: Sequence[str], label: str) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(label)


def _legend(axes: Any) -> None:
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


@contextmanager
def _figure(*, height: float, columns: int = 1, lines: int = 1) -> Iterator[tuple[Any, Any]]:
    """Lend a figure and its axes in our style."""
    with extra("matplotlib").rc_context(STYLE):
        figure = extra("matplotlib.figure").Figure(figsize=(WIDE, height), layout="constrained")
        yield figure, figure.subplots(lines, columns)


def _svg(figure: Any) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None}, dpi=140)
    return text.getvalue()
