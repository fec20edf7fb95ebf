"""Writes what was served, joined with what was done about it, as a data set; in streams.

A slate is a query. Only what was known at `until` counts. A row is shown when an impression came
for it; its label is what its viewer did within the window. A row that stood below what was served
has position -1. Memory is that of one batch of slates.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from feed.candidates import FORMATS, SOURCES
from feed.order import Ids, Rows
from rankers.features import NAMES, schema_hash
from storage.connections import Connection
from storage.learning import (
    Slate,
    Span,
    acts,
    authors_and_formats,
    count_slates,
    slates,
)
from training.dataset import FEATURE, WORDS, About, Column, schema, write_about
from training.extra import extra
from training.labels import joined

BATCH = 500
COLD = 5
"""A viewer with fewer engagements, an author with fewer posts before the moment, is cold."""

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Terms:
    """What is exported: slates of a span, labels of a window (h), as known at the span's end."""

    span: Span
    window_h: float

    @property
    def window_ms(self) -> int:
        """The label window in milliseconds."""
        return int(self.window_h * 3_600_000)

    @property
    def until_ms(self) -> int:
        """When the span ends, in milliseconds."""
        return int(self.span.end.timestamp() * 1000)


async def export(
    connection: Connection, folder: Path, terms: Terms, progress: Progress | None = None
) -> About:
    """Write a data set of what was logged; the connection is in a transaction of its own.

    `dataset.json` comes last: without it the folder is none.
    """
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240  a command with nothing else to do
    counts: Counter[str] = Counter(await count_slates(connection, terms.span))
    first_ms = last_ms = terms.until_ms
    parquet = extra("pyarrow.parquet")
    ours, into, file = schema_hash(), schema(NAMES), folder / "rows-00000.parquet"
    with parquet.ParquetWriter(file, into, use_dictionary=["query", *WORDS]) as writer:
        async for batch in slates(connection, terms.span, batch=BATCH):
            same = [slate for slate in batch if slate.schema_hash == ours]
            counts["slates_of_other_features"] += len(batch) - len(same)
            if same:
                writer.write_table(await _table(connection, same, terms, counts))
                first_ms = min(first_ms, same[0].now_ms)
                last_ms = same[-1].now_ms
            if progress:
                progress(counts["rows"])
    about = About(
        features=NAMES,
        schema_hash=ours,
        label_window_h=terms.window_h,
        from_ms=first_ms,
        until_ms=last_ms,
        counts=dict(counts),
    )
    write_about(folder, about)
    return about


async def _table(
    connection: Connection, batch: Sequence[Slate], terms: Terms, counts: Counter[str]
) -> Any:
    acts_of = await acts(connection, batch, known=terms.span.end, window_ms=terms.window_ms)
    rows = Batch(batch, terms)
    posts = await authors_and_formats(connection, np.unique(rows.ids))
    done = joined(rows.group, rows.ids, rows.opened_ms, acts_of, window_ms=terms.window_ms)
    counts.update(done.counts())
    return rows.table(done.labels(), posts, counts)


class Batch:
    """The rows (n,) of some slates, one after the other."""

    def __init__(self, slates: Sequence[Slate], terms: Terms) -> None:
        """Put them one after the other."""
        self._slates, self._terms = slates, terms
        self._rows = np.concatenate([slate.rows for slate in slates])
        self._matrix = np.concatenate([slate.features for slate in slates])
        self.group: Rows = np.repeat(np.arange(len(slates)), [len(each.rows) for each in slates])
        self.ids = self._rows["id"].astype(np.int64)
        self.opened_ms = np.array([slate.now_ms for slate in slates], dtype=np.int64)

    def table(
        self, labels: dict[str, Column], posts: tuple[Ids, Ids, Ids], counts: Counter[str]
    ) -> Any:
        """Return the Arrow table, sorted by query and position; add to `counts`.

        Rows whose post is not there any more are left out.
        """
        author, format = _of_posts(posts, self.ids)
        columns = {"author_id": author, **self._numbers(), **labels}
        order = np.lexsort((columns["position"], self.group))
        order = order[author[order] != 0]
        counts["posts_gone"] += len(self.ids) - len(order)
        counts["rows"] += len(order)
        counts["queries"] += len(np.unique(self.group[order]))
        counts["rows_shown"] += int(columns["shown"][order].sum())
        counts["rows_censored"] += int(columns["censored"][order].sum())
        counts["engaged_but_not_shown"] += int(
            ((columns["label"] > 0) & ~columns["shown"])[order].sum()
        )
        return _arrow(columns, self._words(format), order)

    def _numbers(self) -> dict[str, Column]:
        rows, group, matrix = self._rows, self.group, self._matrix
        served_to = np.array([slate.served_to for slate in self._slates])[group]
        at_ms = self.opened_ms[group]
        return {
            "viewer_id": np.array([each.viewer_id for each in self._slates], np.int64)[group],
            "post_id": self.ids,
            "at_ms": at_ms,
            "position": np.where(rows["position"] < served_to, rows["position"], -1),
            "light_score": rows["light"],
            "heavy_score": rows["heavy"],
            "propensity": rows["propensity"],
            "explored": np.array([slate.explored for slate in self._slates])[group],
            "censored": at_ms + self._terms.window_ms > self._terms.until_ms,
            "cold_viewer": matrix[:, NAMES.index("viewer_engaged")] < COLD,
            "cold_author": matrix[:, NAMES.index("author_posts")] < COLD,
            **{f"{FEATURE}{name}": matrix[:, place] for place, name in enumerate(NAMES)},
        }

    def _words(self, format: Ids) -> dict[str, tuple[Column, Sequence[str]]]:
        return {
            "query": (self.group, [f"{each.snapshot_id}.{each.nonce}" for each in self._slates]),
            "ranker": (self.group, [slate.ranker for slate in self._slates]),
            "source": (self._rows["source"], SOURCES),
            "format": (format, FORMATS),
        }


def _of_posts(posts: tuple[Ids, Ids, Ids], ids: Ids) -> tuple[Ids, Ids]:
    """Return author and format of each post (n,); author 0 where there is none."""
    known, authors, formats = (np.append(column, 0) for column in posts)
    at = np.searchsorted(known[:-1], ids)
    return np.where(known[at] == ids, authors[at], 0), formats[at]


def _arrow(
    columns: dict[str, Column], words: dict[str, tuple[Column, Sequence[str]]], order: Rows
) -> Any:
    arrow, into = extra("pyarrow"), schema(NAMES)
    arrays = {}
    for name, (codes, spelled) in words.items():
        coded = arrow.DictionaryArray.from_arrays(codes[order].astype(np.int32), list(spelled))
        arrays[name] = coded.cast(arrow.string())
    for name, column in columns.items():
        kind = into.field(name).type.to_pandas_dtype()
        arrays[name] = arrow.array(column[order].astype(kind, copy=False))
    return arrow.table([arrays[name] for name in into.names], schema=into)
