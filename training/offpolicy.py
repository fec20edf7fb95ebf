"""Off-policy: what another ranker would have earned, from the log of one that chose at random.

Of each choice three things are known: what it earned, how likely the ranker that was serving made
it (its true propensity, logged), and how likely the other would have made it. The ratio of the two
is the weight of what was earned. A few heavy weights can carry all of an estimate; then it is
refused, because its interval lies as well: resamples hold the same few.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from feed.errors import Invalid
from training.metrics import AT_ONCE, RESAMPLES, Interval, Starts, Values

LEAST_ESS = 100.0
"""Below this effective sample size nothing is estimated.

A mean of 100 has a standard error of a tenth of its spread, and the percentiles of a bootstrap are
about right from there on; the sample of Open Bandit in the tests that is refused has 2.
"""

CLIP = 10.0
"""No single choice counts as more than ten in the clipped estimate: less variance, some bias."""

Assumption = Literal["cascade", "position"]
"""What is assumed of a slate.

cascade: what a place earns depends on what stands there and above it, on nothing below (McInerney
et al., KDD 2020); its weight is the product of the ratios down to it. position: it depends on what
stands there alone (Li et al., KDD 2018); its weight is its own ratio, which is exact only for
marginal propensities, and for conditional ones takes the rows above as they were logged.
"""


@dataclass(frozen=True)
class Logs:
    """Choices (n,) in units (m,) that are independent of each other: what was earned, what counts.

    `starts` (m + 1,) says where each unit begins: one row each for single choices, one slate each
    for slates. `weight` is target over logged propensity. With a reward model `predicted` is what
    it says of the row that was chosen, and `expected` of the target's choice in its place.
    """

    reward: Values
    weight: Values
    starts: Starts
    predicted: Values | None = None
    expected: Values | None = None


@dataclass(frozen=True)
class Findings:
    """Estimates of what a unit earns under the target, and how far they carry.

    `ess` is the effective sample size (sum w)^2 / sum w^2 of `n` units, for slates that of the
    place where it is least; `refused` says why there are no estimates, if there are none.
    """

    values: Mapping[str, Interval]
    logged: Interval
    n: int
    ess: float
    max_weight: float
    refused: str | None

    def required(self) -> Mapping[str, Interval]:
        """Return the estimates.

        Raises:
            Invalid: They are refused.
        """
        if self.refused:
            raise Invalid(self.refused)
        return self.values


def choices(
    reward: Values,
    logged: Values,
    target: Values,
    *,
    predicted: Values | None = None,
    expected: Values | None = None,
) -> Logs:
    """Return logs of single choices (n,): a contextual bandit.

    Raises:
        Invalid: A propensity is none, or a reward is not finite.
    """
    _check(reward, logged, target)
    return Logs(reward, target / logged, np.arange(len(reward) + 1), predicted, expected)


def slates(
    reward: Values, logged: Values, target: Values, starts: Starts, *, assumes: Assumption
) -> Logs:
    """Return logs of slates, whose rows (n,) stand in order of place; a slate earns their sum.

    Propensities are those of a row at its place, given the rows above it.

    Raises:
        Invalid: A propensity is none, or a reward is not finite.
    """
    _check(reward, logged, target)
    ratio = target / logged
    if assumes == "cascade":
        parts = np.split(ratio, starts[1:-1])
        ratio = np.concatenate([np.cumprod(part) for part in parts])
    return Logs(reward, ratio, starts)


def estimated(logs: Logs, *, seed: int, clip: float = CLIP, least: float = LEAST_ESS) -> Findings:
    """Estimate what a unit earns under the target, with bootstrap intervals over the units.

    ips: mean of w r. clipped: with min(w, clip). snips: sum of w r over sum of w, at each place
    (Swaminathan and Joachims, NIPS 2015). dr, with a reward model: mean of expected + w (r -
    predicted) (Dudik et al., ICML 2011).
    """
    n = len(logs.starts) - 1
    ess, heaviest = _effective(logs), float(logs.weight.max(initial=0.0))
    units = np.arange(len(logs.starts) - 1)
    seen = _bootstrapped({"logged": _Mean(_by_unit(logs.reward, logs))}, units, seed)
    refused = None
    if ess < least:
        refused = (
            f"Refused: {n:,} logged choices count as {ess:.1f} (effective sample size), fewer than "
            f"{least:g}; one weighs {heaviest:,.0f}. Log more exploration, or judge a ranker "
            "nearer to the one that was serving."
        )
        return Findings({}, seen["logged"], n, ess, heaviest, refused)
    values = _bootstrapped(_estimators(logs, clip), units, seed)
    return Findings(values, seen["logged"], n, ess, heaviest, refused)


class _Mean:
    """The mean of what units (m,) contribute."""

    def __init__(self, of: Values) -> None:
        self._of = of

    def __call__(self, picked: npt.NDArray[np.int64]) -> Values:
        """Return the estimate for each resample (b, m) of units."""
        return np.asarray(self._of[picked].mean(axis=1))


class _Normalised:
    """The sum over places of weighted rewards over the weights at that place."""

    def __init__(self, logs: Logs) -> None:
        sizes = np.diff(logs.starts)
        self._earned = np.zeros((len(sizes), int(sizes.max())))
        self._weight = np.zeros_like(self._earned)
        place = np.arange(len(logs.reward)) - np.repeat(logs.starts[:-1], sizes)
        at = (np.repeat(np.arange(len(sizes)), sizes), place)
        self._earned[at] = logs.weight * logs.reward
        self._weight[at] = logs.weight
        self._there = np.zeros_like(self._earned)
        self._there[at] = 1.0

    def __call__(self, picked: npt.NDArray[np.int64]) -> Values:
        """Return the estimate for each resample (b, m); places that few slates have count less."""
        value = np.zeros(len(picked))
        for earned, weight, there in zip(
            self._earned.T, self._weight.T, self._there.T, strict=True
        ):
            total = weight[picked].sum(axis=1)
            share = there[picked].mean(axis=1)
            mean = np.divide(
                earned[picked].sum(axis=1), total, out=np.zeros(len(picked)), where=total > 0
            )
            value += share * mean
        return value


_Estimator = _Mean | _Normalised


def _estimators(logs: Logs, clip: float) -> Mapping[str, _Estimator]:
    found: dict[str, _Estimator] = {
        "ips": _Mean(_by_unit(logs.weight * logs.reward, logs)),
        "clipped": _Mean(_by_unit(np.minimum(logs.weight, clip) * logs.reward, logs)),
        "snips": _Normalised(logs),
    }
    if logs.predicted is not None and logs.expected is not None:
        corrected = logs.expected + logs.weight * (logs.reward - logs.predicted)
        found["dr"] = _Mean(_by_unit(corrected, logs))
    return found


def _bootstrapped(
    estimators: Mapping[str, _Estimator], units: npt.NDArray[np.int64], seed: int
) -> dict[str, Interval]:
    """Return each estimate with its percentile interval, all from the same resamples of units."""
    rng, n = np.random.default_rng(seed), len(units)
    resampled: dict[str, list[Values]] = {name: [] for name in estimators}
    for _ in range(0, RESAMPLES, AT_ONCE):
        picked = rng.integers(0, n, size=(AT_ONCE, n))
        for name, estimator in estimators.items():
            resampled[name].append(estimator(picked))
    found = {}
    for name, estimator in estimators.items():
        low, high = np.quantile(np.concatenate(resampled[name]), (0.025, 0.975))
        found[name] = Interval(float(estimator(units[None])[0]), float(low), float(high), n)
    return found


def _effective(logs: Logs) -> float:
    """Return the least effective sample size of a place at which most slates have a row."""
    sizes = np.diff(logs.starts)
    place = np.arange(len(logs.reward)) - np.repeat(logs.starts[:-1], sizes)
    total = np.bincount(place, weights=logs.weight)
    squares = np.bincount(place, weights=logs.weight**2)
    common = np.bincount(place) * 2 >= len(sizes)
    ess = np.divide(total**2, squares, out=np.zeros(len(total)), where=squares > 0)
    return float(ess[common].min(initial=len(sizes)))


def _by_unit(values: Values, logs: Logs) -> Values:
    return np.asarray(np.add.reduceat(values, logs.starts[:-1]))


def _check(reward: Values, logged: Values, target: Values) -> None:
    if not len(reward):
        raise Invalid("Nothing was logged that another ranker could be judged on.")
    if not (np.isfinite(logged).all() and (logged > 0).all() and (logged <= 1).all()):
        raise Invalid("A logged propensity is not in (0, 1]: what was chosen can be chosen.")
    if not (np.isfinite(target).all() and (target >= 0).all() and (target <= 1).all()):
        raise Invalid("A propensity of the target is not in [0, 1].")
    if not np.isfinite(reward).all():
        raise Invalid("A reward is not finite.")
