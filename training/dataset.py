"""The data set that rankers are trained on: a folder of Parquet files and what is said of them.

`foryou train export` writes one; fit, evaluate and report read it. Rows are candidates, those of
one query (one slate as it was served) stand together, in order of position. Parquet is read batch
by batch into columns of their final size, so that memory is that of the columns and no more.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from feed.errors import Invalid
from feed.order import Mask, Rows
from training.extra import extra

Column = npt.NDArray[Any]
Matrix = npt.NDArray[np.float32]
Starts = npt.NDArray[np.int64]

ABOUT = "dataset.json"
ROWS = "rows-*.parquet"
BATCH_ROWS = 65_536
FEATURE = "f_"
"""What the names of feature columns begin with."""

LABELS = ("none", "click", "like", "comment", "share")
"""What the graded labels 0 to 4 mean; a long look counts as a like."""

GAINS = (0.0, 1.0, 2.0, 3.0, 4.0)
"""What a label is worth: a like two clicks and a comment three, as in the light formulas.

Not 2^label - 1, LightGBM's default, under which one share would outweigh a page of clicks.
"""

HEADS = ("clicked", "liked", "commented", "shared")

NUMBERS: Mapping[str, str] = {
    "viewer_id": "int64",
    "post_id": "int64",
    "author_id": "int64",
    "at_ms": "int64",
    "position": "int32",
    "light_score": "float64",
    "heavy_score": "float64",
    "propensity": "float64",
    "explored": "bool",
    "shown": "bool",
    "label": "int8",
    **dict.fromkeys(HEADS, "bool"),
    "censored": "bool",
    "cold_viewer": "bool",
    "cold_author": "bool",
}
WORDS = ("source", "ranker", "format")


@dataclass(frozen=True, kw_only=True)
class About:
    """What is said of a data set as a whole, in `dataset.json`.

    Served from `from_ms` to `until_ms`; `counts` are of what was found, joined and left out.
    """

    features: tuple[str, ...]
    schema_hash: str
    label_window_h: float
    from_ms: int
    until_ms: int
    gains: tuple[float, ...] = GAINS
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Words:
    """A column (n,) of few different words: a code for each row, and what the codes mean."""

    codes: npt.NDArray[np.int32]
    names: tuple[str, ...]

    def is_word(self, name: str) -> Mask:
        """Say where this word stands."""
        code = self.names.index(name) if name in self.names else -1
        return np.asarray(self.codes == code)


@dataclass(frozen=True)
class Dataset:
    """Candidates as aligned columns (n,), grouped by query.

    The rows of query q are `starts[q]` to `starts[q + 1]`; `queries` names it. `matrix` is
    (n, d) float32 with the features of `about`, NaN where unknown.
    """

    about: About
    queries: Column
    starts: Starts
    columns: Mapping[str, Column]
    words: Mapping[str, Words]
    matrix: Matrix

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.matrix)

    def __getitem__(self, name: str) -> Column:
        """Return a numeric column (n,)."""
        return self.columns[name]

    @property
    def sizes(self) -> Rows:
        """Count the rows of each query (q,)."""
        return np.diff(self.starts)

    @property
    def group(self) -> Rows:
        """Say of each row (n,) which query it belongs to."""
        return np.repeat(np.arange(len(self.queries)), self.sizes)

    @property
    def opened_ms(self) -> npt.NDArray[np.int64]:
        """Return when each query (q,) was first served."""
        return np.minimum.reduceat(self["at_ms"], self.starts[:-1])

    @property
    def gains(self) -> npt.NDArray[np.float64]:
        """Return what each row (n,) was worth to its viewer."""
        return np.asarray(self.about.gains, dtype=np.float64)[self["label"]]

    def feature(self, name: str) -> npt.NDArray[np.float32]:
        """Return one column (n,) of the matrix.

        Raises:
            Invalid: This data set does not have it.
        """
        if name not in self.about.features:
            raise Invalid(f"This data set has no feature {name!r}: export it with this version.")
        return self.matrix[:, self.about.features.index(name)]

    def take(self, rows: Mask) -> "Dataset":
        """Keep some rows (n,), and the queries that still have any."""
        sizes = np.add.reduceat(rows, self.starts[:-1]) if len(self) else self.sizes
        kept = sizes > 0
        return replace(
            self,
            queries=self.queries[kept],
            starts=np.concatenate(([0], np.cumsum(sizes[kept]))),
            columns={name: column[rows] for name, column in self.columns.items()},
            words={name: Words(each.codes[rows], each.names) for name, each in self.words.items()},
            matrix=self.matrix[rows],
        )

    def take_queries(self, kept: Mask) -> "Dataset":
        """Keep some queries (q,), whole."""
        return self.take(np.repeat(kept, self.sizes))


def learnable(dataset: Dataset) -> Dataset:
    """Keep what says something: rows that were on a screen, and whose label window is over."""
    return dataset.take(dataset["shown"] & ~dataset["censored"])


def schema(features: Iterable[str]) -> Any:
    """Return the Arrow schema of the Parquet files."""
    arrow = extra("pyarrow")
    words = {name: arrow.string() for name in ("query", *WORDS)}
    numbers = {
        name: arrow.bool_() if kind == "bool" else arrow.from_numpy_dtype(np.dtype(kind))
        for name, kind in NUMBERS.items()
    }
    values = {f"{FEATURE}{name}": arrow.float32() for name in features}
    return arrow.schema([*words.items(), *numbers.items(), *values.items()])


def write_about(folder: Path, about: About) -> None:
    """Write what is said of a data set."""
    text = json.dumps(asdict(about), indent=1)
    (folder / ABOUT).write_text(f"{text}\n", encoding="utf-8")


def read_about(folder: Path) -> About:
    """Read what is said of a data set.

    Raises:
        Invalid: There is none, or it says something else.
    """
    try:
        said = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        said |= {name: tuple(said[name]) for name in ("features", "gains")}
        return About(**said)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Invalid(
            f"{folder} is not a data set ({error}): `foryou train export` writes one."
        ) from None


def write(folder: Path, dataset: Dataset) -> None:
    """Write a data set that is in memory, as one file of rows."""
    arrow, parquet = extra("pyarrow"), extra("pyarrow.parquet")
    folder.mkdir(parents=True, exist_ok=True)
    values = dict(
        zip((f"{FEATURE}{name}" for name in dataset.about.features), dataset.matrix.T, strict=True)
    )
    words = {
        name: arrow.DictionaryArray.from_arrays(each.codes, list(each.names)).cast(arrow.string())
        for name, each in dataset.words.items()
    }
    columns = {"query": dataset.queries[dataset.group], **words, **dataset.columns, **values}
    table = arrow.table(columns, schema=schema(dataset.about.features))
    parquet.write_table(table, folder / "rows-00000.parquet")
    write_about(folder, dataset.about)


def read(folder: Path) -> Dataset:
    """Read a data set and check its order.

    Raises:
        Invalid: It is incomplete, or a query does not stand together in order of position.
    """
    about = read_about(folder)
    files = [_opened(path) for path in sorted(folder.glob(ROWS))]
    n = sum(file.metadata.num_rows for file in files)
    if n == 0:
        raise Invalid(f"{folder} holds no rows: nothing was served in its window.")
    into = _Reading(n, about)
    for file in files:
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            into.add(batch)
    dataset = into.done()
    check_order(dataset)
    return dataset


def check_order(dataset: Dataset) -> None:
    """Refuse rows from which a ranker would learn nonsense without a word.

    Raises:
        Invalid: A query stands in two places, has several viewers or is not in order of position,
            or a label is none that the gains know.
    """
    names, counts = np.unique(dataset.queries, return_counts=True)
    if (counts > 1).any():
        name = names[counts > 1][0]
        raise Invalid(f"Query {name!r} does not stand together: rows must be sorted by query.")
    within = np.diff(dataset.group) == 0
    for column, wrong, rule in (
        ("viewer_id", np.diff(dataset["viewer_id"]) != 0, "has more than one viewer"),
        ("position", np.diff(dataset["position"]) < 0, "is not in order of position"),
    ):
        if (rows := np.flatnonzero(within & wrong)).size:
            name = dataset.queries[dataset.group[rows[0]]]
            raise Invalid(f"Query {name!r} {rule} ({column}): export the data set again.")
    labels = dataset["label"]
    if labels.min() < 0 or labels.max() >= len(dataset.about.gains):
        raise Invalid(f"A label is outside 0 to {len(dataset.about.gains) - 1}.")


class _Reading:
    """Columns of their final size, filled batch by batch."""

    def __init__(self, n: int, about: About) -> None:
        self._about, self._row = about, 0
        self._columns = {name: np.empty(n, dtype=kind) for name, kind in NUMBERS.items()}
        self._codes = {name: np.empty(n, dtype=np.int32) for name in WORDS}
        self._names: dict[str, dict[str, int]] = {name: {} for name in WORDS}
        self._matrix = np.empty((n, len(about.features)), dtype=np.float32)
        self._queries: list[str] = []
        self._starts: list[int] = []

    def add(self, batch: Any) -> None:
        """Add a batch of rows."""
        at = slice(self._row, self._row + batch.num_rows)
        for name, column in self._columns.items():
            column[at] = _column(batch, name).to_numpy(zero_copy_only=False)
        for place, name in enumerate(self._about.features):
            values = _column(batch, f"{FEATURE}{name}")
            self._matrix[at, place] = values.to_numpy(zero_copy_only=False)
        for name, codes in self._codes.items():
            found, names = _coded(batch, name)
            known = self._names[name]
            codes[at] = np.array([known.setdefault(each, len(known)) for each in names])[found]
        self._add_queries(*_coded(batch, "query"))
        self._row = at.stop

    def _add_queries(self, codes: Column, names: Sequence[str]) -> None:
        begins = np.flatnonzero(np.diff(codes, prepend=-1))
        for row in begins.tolist():
            name = names[codes[row]]
            if row or not self._queries or name != self._queries[-1]:
                self._queries.append(name)
                self._starts.append(self._row + row)

    def done(self) -> Dataset:
        """Return what was read."""
        words = {
            name: Words(codes, tuple(self._names[name])) for name, codes in self._codes.items()
        }
        starts = np.array([*self._starts, self._row], dtype=np.int64)
        queries = np.array(self._queries, dtype=object)
        return Dataset(self._about, queries, starts, self._columns, words, self._matrix)


def _opened(path: Path) -> Any:
    try:
        return extra("pyarrow.parquet").ParquetFile(path)
    except (OSError, ValueError) as error:
        raise Invalid(f"{path} cannot be read: {error}.") from None


def _column(batch: Any, name: str) -> Any:
    try:
        return batch.column(name)
    except KeyError:
        raise Invalid(f"The rows have no column {name!r}: export the data set again.") from None


def _coded(batch: Any, name: str) -> tuple[Column, Sequence[str]]:
    """Return the codes (n,) of a column of words, and the words."""
    coded = _column(batch, name).dictionary_encode()
    return coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()
