"""What people wrote, followed and did in the past, as columns in order of time.

Read from a folder of the files that `foryou import` takes, so that a product can train on what it
has before it has served a page. Here an engagement may lack its viewer, a post may say its length
(`chars`) in place of a text, and everything else that the importer checks is taken as it stands.
"""

import csv
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from feed.candidates import FORMATS
from feed.errors import Invalid
from feed.order import Ids

Column = npt.NDArray[Any]
Line = Mapping[str, str]

ANONYMOUS = 0
"""The viewer of an engagement of which nobody knows who it was."""

GRADES = {"click": 1, "like": 2, "comment": 3, "share": 4}
"""The graded label of each kind of engagement; other kinds are not read."""


@dataclass(frozen=True)
class Posts:
    """Posts (p,) in order of time; `original` and `answered` are ids, 0 where there is none."""

    ids: Ids
    author: Ids
    ms: Ids
    format: Column
    chars: Ids
    original: Ids
    answered: Ids


@dataclass(frozen=True)
class Acts:
    """Engagements (a,) in order of time, each with its grade; replies and reposts are among them.

    `post` is the row of the post in `Posts`.
    """

    viewer: Ids
    post: Ids
    grade: Ids
    ms: Ids


@dataclass(frozen=True)
class Follows:
    """Edges (e,) in order of time."""

    follower: Ids
    followee: Ids
    ms: Ids


@dataclass(frozen=True)
class History:
    """All of it."""

    posts: Posts
    acts: Acts
    follows: Follows


def read_history(folder: Path) -> History:
    """Read posts, engagements and follows.

    Raises:
        Invalid: A file is missing, or a line of it cannot be read.
    """
    posts = _posts(_lines(folder, "posts"))
    acts = _acts(_lines(folder, "engagements"), posts)
    return History(posts, acts, _follows(_lines(folder, "follows")))


def _posts(lines: Sequence[Line]) -> Posts:
    ms = np.array([_ms(line["created_at"]) for line in lines], dtype=np.int64)
    ids = _numbers(lines, "id")
    order = np.lexsort((ids, ms))
    code = {name: n for n, name in enumerate(FORMATS)}
    columns = (
        ids,
        _numbers(lines, "author_id"),
        ms,
        np.array([code.get(line.get("format") or "", 0) for line in lines], dtype=np.int64),
        np.array(
            [int(line.get("chars") or len(line.get("body") or "")) for line in lines],
            dtype=np.int64,
        ),
        _numbers(lines, "repost_of"),
        _numbers(lines, "reply_to"),
    )
    return Posts(*(column[order] for column in columns))


def _acts(lines: Sequence[Line], posts: Posts) -> Acts:
    """Join what was reported with what follows from posts: a reply comments, a repost shares."""
    known = [line for line in lines if line["type"] in GRADES]
    viewers = [_numbers(known, "viewer_id")]
    targets = [_numbers(known, "post_id")]
    grades = [np.array([GRADES[line["type"]] for line in known], dtype=np.int64)]
    times = [np.array([_ms(line["at"]) for line in known], dtype=np.int64)]
    for target, grade in ((posts.answered, GRADES["comment"]), (posts.original, GRADES["share"])):
        rows = np.flatnonzero(target)
        viewers.append(posts.author[rows])
        targets.append(target[rows])
        grades.append(np.full(len(rows), grade))
        times.append(posts.ms[rows])
    target, ms = np.concatenate(targets), np.concatenate(times)
    by_id = np.argsort(posts.ids)
    at = np.minimum(np.searchsorted(posts.ids[by_id], target), len(by_id) - 1)
    post = by_id[at]
    order = np.argsort(ms, kind="stable")
    order = order[posts.ids[post[order]] == target[order]]  # of known posts only
    return Acts(
        np.concatenate(viewers)[order], post[order], np.concatenate(grades)[order], ms[order]
    )


def _follows(lines: Sequence[Line]) -> Follows:
    ms = np.array([_ms(line["created_at"]) for line in lines], dtype=np.int64)
    order = np.argsort(ms, kind="stable")
    columns = _numbers(lines, "follower_id"), _numbers(lines, "followee_id"), ms
    return Follows(*(column[order] for column in columns))


def _lines(folder: Path, name: str) -> Sequence[Line]:
    for path in (folder / f"{name}.csv", folder / f"{name}.csv.gz"):
        if path.exists():
            opened = gzip.open if path.suffix == ".gz" else open
            with opened(path, "rt", encoding="utf-8", newline="") as file:
                return list(csv.DictReader(file))
    raise Invalid(f"{folder} has no {name}.csv or {name}.csv.gz (docs/training.md).")


def _numbers(lines: Sequence[Line], name: str) -> Ids:
    try:
        return np.array([int(line.get(name) or 0) for line in lines], dtype=np.int64)
    except ValueError as error:
        raise Invalid(f"A {name} is not a number: {error}.") from None


def _ms(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{text!r} is not a time, as 2026-01-02T03:04:05Z is.") from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
