"""The data set on disk and in memory: read as written, and refused when it is out of order."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest

import training.dataset
from feed.errors import Invalid, Misconfigured
from tests.slates import slates
from training.dataset import check_order, learnable, read, schema, write
from training.split import MS_PER_HOUR, split, split_at


def test_what_was_written_is_read(tmp_path: Path) -> None:
    written = slates(30)
    write(tmp_path, written)
    found = read(tmp_path)
    assert found.about == written.about
    assert found.queries.tolist() == written.queries.tolist()
    assert found.starts.tolist() == written.starts.tolist()
    assert np.array_equal(found.matrix, written.matrix, equal_nan=True)
    for name, column in written.columns.items():
        assert np.array_equal(found[name], column, equal_nan=column.dtype.kind == "f"), name
        assert found[name].dtype == column.dtype
    for name, words in written.words.items():
        for word in words.names:
            assert np.array_equal(found.words[name].is_word(word), words.is_word(word))


def test_rows_of_many_files_and_batches_are_one_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = slates(30)
    write(tmp_path, written)
    rows = parquet.read_table(tmp_path / "rows-00000.parquet")
    half = int(written.starts[11]) + 2  # within a query
    parquet.write_table(rows.slice(0, half), tmp_path / "rows-00000.parquet")
    parquet.write_table(rows.slice(half), tmp_path / "rows-00001.parquet")
    monkeypatch.setattr(training.dataset, "BATCH_ROWS", 7)
    found = read(tmp_path)
    assert found.starts.tolist() == written.starts.tolist()
    assert found.queries.tolist() == written.queries.tolist()
    assert np.array_equal(found.words["source"].is_word("popular"), popular(written))


def popular(dataset: Any) -> Any:
    return dataset.words["source"].is_word("popular")


def test_a_query_in_two_places_is_refused() -> None:
    torn = slates(4)
    torn = replace(torn, queries=np.array(["a", "b", "a", "c"], dtype=object))
    with pytest.raises(Invalid, match="Query 'a' does not stand together"):
        check_order(torn)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("position", 0, "'q00000' is not in order of position"),
        ("viewer_id", 99, "'q00000' has more than one viewer"),
        ("label", 5, "outside 0 to 4"),
        ("label", -1, "outside 0 to 4"),
    ],
)
def test_rows_that_teach_nonsense_are_refused(column: str, value: int, said: str) -> None:
    whole = slates(3)
    changed = whole[column].copy()
    changed[2] = value
    with pytest.raises(Invalid, match=said):
        check_order(replace(whole, columns={**whole.columns, column: changed}))


def test_files_that_say_less_than_the_schema_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="is not a data set"):
        read(tmp_path)
    write(tmp_path, slates(3))
    file = tmp_path / "rows-00000.parquet"
    rows = parquet.read_table(file)
    parquet.write_table(rows.drop_columns(["label"]), file)
    with pytest.raises(Invalid, match="no column 'label'"):
        read(tmp_path)
    parquet.write_table(rows.slice(0, 0), file)
    with pytest.raises(Invalid, match="holds no rows"):
        read(tmp_path)
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(Invalid, match="cannot be read"):
        read(tmp_path)


def test_the_schema_names_each_feature_as_a_column_of_float32() -> None:
    assert schema(["age_h"]).field("f_age_h").type == arrow.float32()


def test_only_what_was_on_a_screen_and_had_its_time_teaches() -> None:
    whole = slates(3)
    shown = whole["shown"].copy()
    shown[: whole.starts[1]] = False
    shown[-1] = False
    censored = whole["censored"].copy()
    censored[-2] = True
    left = learnable(
        replace(whole, columns={**whole.columns, "shown": shown, "censored": censored})
    )
    assert left.queries.tolist() == whole.queries[1:].tolist()
    assert len(left) == len(whole) - whole.starts[1] - 2
    assert left["post_id"].tolist() == whole["post_id"][whole.starts[1] : -2].tolist()


def test_between_the_parts_lies_a_label_window() -> None:
    whole = slates(400)
    parts = split(whole)
    window = whole.about.label_window_h * MS_PER_HOUR
    train, valid, test = (each.opened_ms for each in (parts.train, parts.valid, parts.test))
    assert train.max() + window < parts.valid_from_ms <= valid.min()
    assert valid.max() + window < parts.test_from_ms <= test.min()
    assert len(train) + len(valid) + len(test) + parts.n_purged == 400
    assert 90 <= len(test) <= 110 and parts.n_purged > 0
    again = split_at(whole, parts.valid_from_ms, parts.test_from_ms)
    assert again.test.queries.tolist() == parts.test.queries.tolist()


def test_slates_of_less_than_the_gaps_are_not_split() -> None:
    with pytest.raises(Invalid, match="too few for three parts"):
        split(slates(3))


def test_without_the_extra_a_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(tmp_path, slates(3))
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(Misconfigured, match=r"pip install 'foryou\[train\]'"):
        read(tmp_path)
