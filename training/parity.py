"""Works out again, from the truth of today, what was known when a slate was served.

A counter then is the counter now less what was folded since; windows of time are counted in what
was folded by then. Nothing of the code that serves is used but the feature builder, so that what
serving knew and what training would believe can be compared, feature by feature.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from feed.affinity import FOLLOW_STRENGTH, affinity
from feed.candidates import FORMATS
from feed.order import Ids, Mask
from rankers.features import NAMES, Facts, Matrix, build
from storage.connections import Connection
from storage.learning import Slate
from storage.moments import COUNTED, SETTLED_MS
from storage.rewind import DAY_MS, Asked, Table, Today, today

HOUR_US, DAY_US = 3_600_000_000, 86_400_000_000
TOLERANCE = 1e-4
"""Largest difference, relative above 1; strengths are kept in 4 bytes, the rest is exact."""

Amounts = npt.NDArray[np.float64]


class Difference(NamedTuple):
    """How far one feature is off: the largest |logged - worked out again|, and in how many rows."""

    name: str
    largest: float
    n_off: int
    n: int


@dataclass(frozen=True)
class Again:
    """Features (n, d) worked out again, and which of them can be (n, d)."""

    matrix: Matrix
    sure: Mask


async def compare(
    connection: Connection, slates: Sequence[Slate], *, half_life_s: float
) -> list[Difference]:
    """Compare the logged features of these slates with those worked out again."""
    asked = Asked(
        np.array([slate.viewer_id for slate in slates], dtype=np.int64),
        np.array([slate.now_ms for slate in slates], dtype=np.int64),
        np.concatenate([slate.rows["id"].astype(np.int64) for slate in slates]),
    )
    past = Past(await today(connection, asked), half_life_s)
    again = [past.of(place, slate) for place, slate in enumerate(slates)]
    logged = np.concatenate([slate.features for slate in slates])
    matrix = np.concatenate([each.matrix for each in again])
    return differences(logged, matrix, np.concatenate([each.sure for each in again]))


def differences(logged: Matrix, matrix: Matrix, sure: Mask) -> list[Difference]:
    """Compare two matrices (n, d) where `sure` (n, d); unknown in one of them only is infinite."""
    one, other = logged.astype(np.float64), matrix.astype(np.float64)
    off = np.abs(one - other)
    off[np.isnan(one) & np.isnan(other)] = 0.0
    off[np.isnan(one) ^ np.isnan(other)] = np.inf
    off[~sure] = 0.0
    too_far = off > TOLERANCE * np.maximum(1, np.abs(np.nan_to_num(one)))
    return [
        Difference(name, float(off[:, d].max(initial=0)), int(too_far[:, d].sum()), int(n))
        for d, (name, n) in enumerate(zip(NAMES, sure.sum(axis=0), strict=True))
    ]


class Past:
    """What was folded, sorted so that what concerns one slate is found at once."""

    def __init__(self, now: Today, half_life_s: float) -> None:
        """Take how things stand."""
        self._now = now
        self._half_life_us = half_life_s * 1e6
        self._of_post = _By(now.folded, "post")
        self._of_author = _By(now.folded, "author")
        self._of_viewer = _By(now.folded, "viewer")

    def of(self, place: int, slate: Slate) -> Again:
        """Work out the features of one slate; `place` is its own among those asked for."""
        posts = _found(self._now.posts, slate.rows["id"].astype(np.int64))
        facts, sure = self._facts(place, slate, posts)
        matrix = build(facts)
        whole = np.ones((len(matrix), len(NAMES)), dtype=np.bool_)
        whole[(posts["deleted_ms"] != -1) | (posts["id"] == 0)] = False
        for name, known in sure.items():
            whole[:, NAMES.index(name)] &= known
        return Again(matrix, whole)

    def _facts(self, place: int, slate: Slate, posts: Table) -> tuple[Facts, dict[str, Mask]]:
        authors, viewer = posts["author"], slate.viewer_id
        followed_ms = self._followed_ms(slate, authors)
        ours = _Ours(self._now.pairs, self._of_viewer, viewer, authors, slate, self._half_life_us)
        facts = Facts(
            now_ms=slate.now_ms,
            source=slate.rows["source"].astype(np.int64),
            affinity=affinity(ours.strength + np.where(followed_ms == -1, 0.0, FOLLOW_STRENGTH)),
            engaged_author_ms=ours.engaged_ms,
            engaged_back=np.maximum(ours.engaged_back, 0),
            followed_ms=followed_ms,
            viewer_follows=float(self._now.follows_of[place]),
            **self._about_posts(place, slate, posts),
            **self._about_authors(slate, authors),
            **self._about_viewer(slate, posts["id"]),
        )
        edited = posts["edited_ms"] > slate.now_ms
        return facts, {"chars": ~edited, "engaged_author_h": ours.engaged_sure}

    def _about_posts(self, place: int, slate: Slate, posts: Table) -> dict[str, Any]:
        at_us, of_post = slate.now_ms * 1000, self._of_post.rows(posts["id"])
        since = of_post.since(slate.fold)
        lately = of_post.known(slate.fold).between(at_us - DAY_US, at_us)
        language, languages = self._now.languages[place], self._now.languages_of
        return {
            "ms": posts["ms"],
            "format": posts["format"],
            "chars": posts["chars"],
            "same_language": np.array(
                [_same(languages.get(id), language) for id in posts["id"].tolist()]
            ),
            **{
                name: np.maximum(posts[name] - since.sum(name), 0)
                for name in ("likes", "comments", "shares", "impressions")
            },
            "engaged_1h": np.maximum(lately.between(at_us - HOUR_US, at_us).sum("engaged"), 0),
            "engaged_24h": np.maximum(lately.sum("engaged"), 0),
        }

    def _about_authors(self, slate: Slate, authors: Ids) -> dict[str, Any]:
        people = _found(self._now.authors, authors)
        since = self._of_author.rows(authors).since(slate.fold)
        n_posts = people["posts"] - since.sum("posts")
        began_since = (n_posts <= 0) & (since.sum("posts") > 0)
        return {
            "author_followers": people["followers"] - since.sum("followers"),
            "author_posts": np.maximum(n_posts, 0),
            "author_posts_7d": self._posts_7d(authors, slate.now_ms),
            "author_engaged": np.maximum(people["engaged"] - since.sum("engaged"), 0),
            "author_first_ms": np.where(began_since, -1, people["first_ms"]),
        }

    def _about_viewer(self, slate: Slate, ids: Ids) -> dict[str, Any]:
        at_us = slate.now_ms * 1000
        mine = self._of_viewer.rows(np.array([slate.viewer_id]))
        formats = self._formats(slate.viewer_id, mine.since(slate.fold))
        week = mine.known(slate.fold).between(at_us - 7 * DAY_US, at_us)
        day = week.between(at_us - DAY_US, at_us).table
        looked = week.table
        return {
            "seen": np.array([looked["impressions"][looked["post"] == id].sum() for id in ids]),
            "viewer_engaged": float(formats.sum()),
            "viewer_engaged_24h": float(day["engaged"][day["author"] != slate.viewer_id].sum()),
            "viewer_formats": formats,
        }

    def _posts_7d(self, authors: Ids, now_ms: int) -> Amounts:
        written = self._now.written
        there = (written["ms"] >= now_ms - 7 * DAY_MS) & (written["ms"] < now_ms - SETTLED_MS)
        there &= (written["deleted_ms"] == -1) | (written["deleted_ms"] > now_ms)
        wrote = written["author"][there]  # sorted
        n = np.searchsorted(wrote, authors, "right") - np.searchsorted(wrote, authors)
        return np.asarray(np.minimum(n, COUNTED), dtype=np.float64)

    def _formats(self, viewer: int, since: "_Rows") -> Amounts:
        now = _found(self._now.viewers, np.array([viewer]))
        formats = np.array([now[name][0] for name in FORMATS], dtype=np.float64)
        done = since.table.take(since.table["author"] != viewer)
        np.subtract.at(formats, done["format"], done["engaged"])
        return formats

    def _followed_ms(self, slate: Slate, authors: Ids) -> Ids:
        follows, settled_ms = self._now.follows, slate.now_ms - SETTLED_MS
        there = (follows["viewer"] == slate.viewer_id) & (follows["from_ms"] < settled_ms)
        there &= (follows["until_ms"] == -1) | (follows["until_ms"] >= settled_ms)
        since = dict(
            zip(follows["author"][there].tolist(), follows["from_ms"][there].tolist(), strict=True)
        )
        return np.array([since.get(author, -1) for author in authors.tolist()], dtype=np.int64)


class _Ours:
    """What stood between a viewer and the authors (n,) of a slate, both ways."""

    def __init__(
        self,
        pairs: Table,
        folded: "_By",
        viewer: int,
        authors: Ids,
        slate: Slate,
        half_life_us: float,
    ) -> None:
        n = len(authors)
        self.strength, self.engaged_back = np.zeros(n), np.zeros(n)
        self.engaged_ms = np.full(n, -1, dtype=np.int64)
        self.engaged_sure = np.ones(n, dtype=np.bool_)
        mine = folded.rows(np.array([viewer])).table
        for row in _rows(pairs, pairs["viewer"] == viewer):
            at = authors == row["author"]
            if not at.any():
                continue
            acts = mine.take(mine["author"] == row["author"])
            later = acts.take(acts["fold"] > slate.fold)
            undone = later["weight"] * np.exp2((later["at_us"] - row["at_us"]) / half_life_us)
            passed = (slate.now_ms * 1000 - row["at_us"]) / half_life_us
            self.strength[at] = (row["strength"] - undone.sum()) * np.exp2(-passed)
            engaged = acts.take(acts["engaged"] > 0)
            by_then = engaged["at_us"][engaged["fold"] <= slate.fold] // 1000
            if (engaged["fold"] <= slate.fold).all():
                self.engaged_ms[at] = row["engaged_ms"]
            elif len(by_then):
                self.engaged_ms[at] = by_then.max()
            elif row["engaged"] != engaged["engaged"].sum():
                self.engaged_sure[at] = False  # it happened before what is kept begins
        for row in _rows(pairs, pairs["author"] == viewer):
            at = authors == row["viewer"]
            if at.any():
                back = folded.rows(np.array([row["viewer"]])).since(slate.fold).table
                self.engaged_back[at] = (
                    row["engaged"] - back["engaged"][back["author"] == viewer].sum()
                )


class _By:
    """Rows sorted by one column of ids."""

    def __init__(self, table: Table, name: str) -> None:
        self._table = table.take(np.argsort(table[name], kind="stable"))
        self._keys = self._table[name]

    def rows(self, keys: Ids) -> "_Rows":
        """Return the rows of each of these keys (n,); one key may stand there twice."""
        begin = np.searchsorted(self._keys, keys)
        sizes = np.searchsorted(self._keys, keys, "right") - begin
        of = np.repeat(np.arange(len(keys)), sizes)
        first = np.repeat(begin - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes)
        return _Rows(self._table.take(first + np.arange(len(of))), of, len(keys))


@dataclass(frozen=True)
class _Rows:
    """Rows (m,) of what was folded, and to which of n keys each belongs."""

    table: Table
    of: Ids
    n: int

    def _take(self, mask: Mask) -> "_Rows":
        return _Rows(self.table.take(mask), self.of[mask], self.n)

    def since(self, fold: int) -> "_Rows":
        """Return what was folded after a fold."""
        return self._take(self.table["fold"] > fold)

    def known(self, fold: int) -> "_Rows":
        """Return what was folded by then."""
        return self._take(self.table["fold"] <= fold)

    def between(self, from_us: int, until_us: int) -> "_Rows":
        """Return what happened in a window of time."""
        at_us = self.table["at_us"]
        return self._take((at_us >= from_us) & (at_us < until_us))

    def sum(self, name: str) -> Amounts:
        """Sum a column by key (n,)."""
        sums = np.bincount(self.of, weights=self.table[name], minlength=self.n)
        return np.asarray(sums, dtype=np.float64)


def _found(table: Table, ids: Ids) -> Table:
    """Return the rows of a table, sorted by id, that have these ids (n,); zeros where none has."""
    if not len(table):
        return Table({name: np.zeros(len(ids), dtype=np.int64) for name in table.columns})
    at = np.minimum(np.searchsorted(table["id"], ids), len(table) - 1)
    there = table["id"][at] == ids
    return Table({name: np.where(there, column[at], 0) for name, column in table.columns.items()})


def _rows(table: Table, mask: Mask) -> Iterator[dict[str, Any]]:
    kept = table.take(mask)
    names = list(kept.columns)
    columns = [column.tolist() for column in kept.columns.values()]
    return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def _same(language: str | None, spoken: set[str] | None) -> float:
    if language is None or spoken is None:
        return float("nan")
    return float(language in spoken)
