"""The figures of docs/benchmarks.md, made from the results kept in benchmarks/results.

`python -m benchmarks.kept` prints them; a test compares.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from benchmarks.result import figure, told

RESULTS = Path(__file__).with_name("results")
_HEAD = """\
| benchmark | value | ceiling | ratio | p50 | p90 | p99 | n | load | commit |
|---|--:|--:|--:|--:|--:|--:|--:|--:|---|"""


def markdown(folder: Path) -> str:
    """Write one row for each kept result, in the order of their names, and then its details."""
    kept = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return "\n".join([_HEAD, *map(_row, kept), "", *map(_details, kept)])


def _row(kept: Mapping[str, Any]) -> str:
    unit, quantiles = kept["samples_in"], (kept["p50"], kept["p90"], kept["p99"])
    cells = [
        f"`{kept['name']}`",
        f"{figure(kept['value'])} {kept['unit']}",
        figure(kept["ceiling"]),
        f"{kept['ratio']:.0%}",
        *(f"{figure(each)} {unit}" for each in quantiles),
        f"{kept['n']:,}",
        f"{kept['load_1_min']}",
        f"`{kept['commit']}`",
    ]
    return f"| {' | '.join(cells)} |"


def _details(kept: Mapping[str, Any]) -> str:
    peers = [
        f"peer {name}: {figure(value)} {kept['unit']}" for name, value in kept["peers"].items()
    ]
    return f"- `{kept['name']}`: {'; '.join([*peers, told(kept['details'])])}"


if __name__ == "__main__":
    click.echo(markdown(RESULTS))
