"""Makes samples/se_quantum from the tables of its source: python samples/make_se_quantum.py FOLDER.

FOLDER holds posts.csv, events.csv and follows_derived.csv (samples/se_quantum/NOTICE.md says where
they come from). No choice is left to chance, so the result is always the same.
"""

import csv
import gzip
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

Rows = list[dict[str, str]]


def post_rows(posts: Rows) -> Iterator[Sequence[str]]:
    """Return the rows of posts.csv; an answer replies to its question."""
    for post in posts:
        if post["author_id"]:  # two lost theirs
            yield (
                post["post_id"],
                post["author_id"],
                post["created_at"],
                post["body_chars"],
                post["parent_post_id"],
            )


def engagement_rows(events: Rows, posts: set[str]) -> Iterator[Sequence[str]]:
    """Return the rows of engagements.csv: comments, and likes without a name at their day's end.

    Answers are posts already. Of votes and favourites only the day is known, so nobody could know
    of them before it was over.
    """
    for event in events:
        if event["post_id"] not in posts:
            continue
        if event["type"] == "comment" and event["user_id"]:
            yield event["user_id"], event["post_id"], "comment", event["ts"]
        elif event["type"] in ("upvote", "favorite"):
            yield "", event["post_id"], "like", a_day_later(event["ts"])


def known_at(at: str) -> str:
    """Write a time; where it is a day only, the end of that day."""
    return a_day_later(at) if at.endswith("T00:00:00.000Z") else at


def a_day_later(at: str) -> str:
    """Write the time one day later."""
    later = datetime.fromisoformat(at) + timedelta(days=1)
    return later.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def main(source: Path, target: Path) -> None:
    """Read the source tables and write the three files of the sample."""
    posts, events, follows = (
        read(source / name) for name in ("posts.csv", "events.csv", "follows_derived.csv")
    )
    target.mkdir(exist_ok=True)
    known = list(post_rows(posts))
    columns = ("id", "author_id", "created_at", "chars", "reply_to")
    write(target / "posts.csv.gz", columns, known)
    done = sorted(engagement_rows(events, {row[0] for row in known}), key=lambda row: row[3])
    write(target / "engagements.csv.gz", ("viewer_id", "post_id", "type", "at"), done)
    edges = ((row["follower_id"], row["followee_id"], known_at(row["ts"])) for row in follows)
    write(target / "follows.csv.gz", ("follower_id", "followee_id", "created_at"), edges)


def read(path: Path) -> Rows:
    """Read one table."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write one table; gzip without a time, so that the same rows are the same file."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(__file__).parent / "se_quantum")
