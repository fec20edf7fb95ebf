"""The figures in docs/benchmarks.md are those of the results that are kept."""

import json

import pytest

from benchmarks.kept import RESULTS, markdown
from cli.bench import NAMES

KEPT = sorted(RESULTS.glob("*.json"))


def test_the_page_shows_the_kept_results_and_no_others() -> None:
    page = (RESULTS.parents[1] / "docs" / "benchmarks.md").read_text()
    assert markdown(RESULTS) in page, "run python -m benchmarks.kept and put its table there"


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_kept_result_is_one_line_of_a_benchmark_that_exists(path) -> None:  # type: ignore[no-untyped-def]
    (line,) = path.read_text().splitlines()
    kept = json.loads(line)
    assert kept["name"] == path.stem and kept["name"] in NAMES
    assert kept["commit"] and kept["n"] > 0 and 0 < kept["ratio"] <= 1.5
