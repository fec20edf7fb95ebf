"""The feature table and its only builder."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from feed.candidates import FORMATS, SOURCE_CODE
from rankers.features import FEATURES, NAMES, UNKNOWN_MS, Facts, build, schema_hash

NOW_MS = 1_767_261_600_000  # Thursday 1 January 2026, 10:00 UTC
HOUR_MS = 3_600_000


def facts() -> Facts:
    """Make two candidates: one of which everything is known, one of which nothing is."""
    nothing = [float("nan"), float("nan")]
    both = {
        name: np.array([3.0, np.nan])
        for name, kind in Facts.__annotations__.items()
        if kind == "Amounts" or "float64" in str(kind)
    }
    return Facts(
        now_ms=NOW_MS,
        ms=np.array([NOW_MS - 2 * HOUR_MS, NOW_MS + 5]),
        format=np.array([1, 0]),
        source=np.array([SOURCE_CODE["pushed_feed"], SOURCE_CODE["popular"]]),
        author_first_ms=np.array([NOW_MS - 48 * HOUR_MS, UNKNOWN_MS]),
        engaged_author_ms=np.array([NOW_MS - HOUR_MS, UNKNOWN_MS]),
        followed_ms=np.array([NOW_MS - 3 * HOUR_MS, UNKNOWN_MS]),
        viewer_engaged=7,
        viewer_engaged_24h=nothing[0],
        viewer_follows=4,
        **{**both, "viewer_formats": np.array([1.0, 4, 0, 0])},
    )


def value(name: str) -> list[float]:
    return [float(each) for each in build(facts(), [name])[:, 0]]


def test_times_become_hours_and_what_never_was_is_unknown() -> None:
    assert value("age_h") == [2, 0]
    for name, known in (("author_days", 2), ("engaged_author_h", 1), ("followed_h", 3)):
        first, second = value(name)
        assert first == known and np.isnan(second), name


def test_the_moment_is_that_of_its_week() -> None:
    assert value("hour") == [10, 10] and value("weekday") == [3, 3]


def test_few_numbers_are_drawn_to_what_is_assumed() -> None:
    assert value("like_rate")[0] == np.float32((3 + 0.4) / (3 + 20))
    assert value("format_share") == [np.float32(5.25 / 10), np.float32(2.25 / 10)]
    assert value("author_engaged")[0] == np.float32((3 + 5) / (3 + 5))
    assert value("velocity")[0] == 1


def test_what_is_unknown_is_nan_and_nothing_else_is() -> None:
    matrix = build(facts())
    assert matrix.dtype == np.float32 and matrix.shape == (2, len(FEATURES))
    never = {feature.name for feature in FEATURES if not feature.unknown} - {"affinity"}
    unknown = {name for name, row in zip(NAMES, matrix[1], strict=True) if np.isnan(row)}
    assert not unknown & never
    assert {"likes", "like_rate", "seen", "viewer_engaged_24h"} <= unknown
    assert np.isnan(matrix[0]).sum() == 1


def test_columns_stand_in_the_order_that_was_asked_for() -> None:
    some = list(reversed(NAMES))
    assert np.array_equal(build(facts(), some), build(facts())[:, ::-1], equal_nan=True)
    assert build(replace(facts(), likes=np.array([5.0, 6])), ["likes"]).tolist() == [[5], [6]]


def test_the_schema_hash_changes_with_names_and_their_order() -> None:
    assert schema_hash() == schema_hash(NAMES) and len(schema_hash()) == 16
    assert len({schema_hash(), schema_hash(NAMES[::-1]), schema_hash(NAMES[1:])}) == 3


def test_every_feature_says_what_it_is() -> None:
    assert len(set(NAMES)) == len(NAMES) and 25 <= len(NAMES) <= 40
    assert all(feature.unit and feature.meaning for feature in FEATURES)
    assert len(FORMATS) == 4


def test_the_docs_show_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    for name, unit, unknown, meaning in FEATURES:
        assert f"| `{name}` | {unit} | {unknown or 'never'} | {meaning} |" in page
