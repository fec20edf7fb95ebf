"""The result of one benchmark, as a table for people and as one line of JSON to keep."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Spread:
    """How one measured quantity was distributed over `n` samples."""

    p50: float
    p90: float
    p99: float
    n: int
    unit: str


def spread(samples: Sequence[float], unit: str) -> Spread:
    """Sum up samples by their quantiles.

    >>> spread([1.0, 2.0, 3.0], "ms").p50
    2.0
    """
    p50, p90, p99 = np.quantile(np.asarray(samples, dtype=np.float64), (0.5, 0.9, 0.99))
    return Spread(_rounded(p50), _rounded(p90), _rounded(p99), len(samples), unit)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What was measured: `ratio` is how much of `ceiling` is reached, 1.0 being all of it.

    `value` and `ceiling` are medians over rounds, `ratio` is the median of the rounds' own ratios,
    so that a noisy second costs both sides of one round and not the comparison. `peers` are other
    ways of doing the same, in the same unit and run. `details` say what was measured on.
    """

    name: str
    value: float
    unit: str
    ceiling: float
    ceiling_is: str
    ratio: float
    spread: Spread
    peers: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)


def line(result: Result) -> str:
    """Write a result as one line of JSON."""
    fields = asdict(result)
    samples = fields.pop("spread")
    machine = fields.pop("machine")
    samples["samples_in"] = samples.pop("unit")
    fields["peers"] = {name: _rounded(value) for name, value in result.peers.items()}
    figures = {key: _rounded(fields.pop(key)) for key in ("value", "ceiling", "ratio")}
    return json.dumps({"name": fields.pop("name"), **figures, **fields, **samples, **machine})


def table(result: Result, question: str) -> str:
    """Write a result as a table under its question."""
    rows = [
        (result.name, f"{figure(result.value)} {result.unit}", ""),
        ("ceiling", f"{figure(result.ceiling)} {result.unit}", result.ceiling_is),
        ("ratio", f"{result.ratio:.1%}", "of the ceiling"),
        *(("peer", f"{figure(value)} {result.unit}", name) for name, value in _peers(result)),
        *_quantiles(result.spread),
        *((key, told(value), "") for key, value in result.details.items()),
        *((key, told(value), "") for key, value in result.machine.items()),
    ]
    width = max(len(name) for name, _, _ in rows)
    lines = [f"  {name:<{width}}  {text:<24}  {note}".rstrip() for name, text, note in rows]
    return "\n".join([question, "", *lines])


def _peers(result: Result) -> list[tuple[str, float]]:
    return list(result.peers.items())


def _quantiles(samples: Spread) -> list[tuple[str, str, str]]:
    values = {"p50": samples.p50, "p90": samples.p90, "p99": samples.p99}
    rows = [(name, f"{figure(value)} {samples.unit}", "") for name, value in values.items()]
    return [*rows, ("n", f"{samples.n:,}", "")]


def told(value: Any) -> str:
    """Write a value for people; a mapping as its names and values.

    >>> told({"feeds": 2000, "ms": 1.25})
    'feeds 2,000, ms 1.25'
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {told(each)}" for key, each in value.items())
    return figure(value) if isinstance(value, int | float) else str(value)


def figure(value: float) -> str:
    """Write a number for people, with four digits that mean something.

    >>> figure(123456.7), figure(20.1284), figure(3)
    ('123,457', '20.13', '3')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:,.4g}"


def _rounded(value: float) -> float:
    """Keep five significant digits: more would only be noise."""
    return float(f"{value:.5g}")
