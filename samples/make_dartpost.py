"""Makes samples/dartpost from the DartPost tables: python samples/make_dartpost.py FOLDER.

FOLDER holds posts.csv, events.csv and follows_derived.csv (samples/dartpost/NOTICE.md says where
they come from). Every choice is a hash of what is being written, so the result is always the same.
"""

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import product
from pathlib import Path

from dartpost_topics import ECHOES, SHORT, TOPICS, TRENDING, Topic

Rows = list[dict[str, str]]

ADJECTIVES = (
    "Amber", "Brisk", "Calm", "Copper", "Dappled", "Early", "Fern", "Gentle", "Golden", "Hazel",
    "Indigo", "Ivory", "Juniper", "Keen", "Little", "Marble", "Misty", "Nimble", "Olive", "Plain",
    "Quiet", "Russet", "Silver", "Tidy", "Velvet",
)  # fmt: skip
ANIMALS = (
    "Badger", "Crane", "Dormouse", "Egret", "Finch", "Gecko", "Heron", "Ibis", "Jackdaw", "Kite",
    "Lark", "Marten", "Newt", "Otter", "Plover", "Robin", "Swift", "Tern", "Vole", "Wren",
)  # fmt: skip
PEOPLE = 125
"""The source numbers them from 1; some left no trace in its tables."""
SLACK = 12
"""Characters by which a text may be longer than the one it stands for."""

_used: Counter[str] = Counter()


def pick(seed: str, things: Sequence[str]) -> str:
    """Pick one of these things, always the same for the same seed."""
    return things[int.from_bytes(sha256(seed.encode()).digest()[:8], "big") % len(things)]


def shuffled(seed: str, author_id: str, lines: Iterable[str]) -> list[str]:
    """Order lines as if at random; what this author, then anybody, has said least comes first."""

    def place(line: str) -> tuple[int, int, bytes]:
        by_author = _used[f"{author_id} {line}"]
        return by_author, _used[line], sha256(f"{seed} {line}".encode()).digest()

    return sorted(lines, key=place)


def use(author_id: str, line: str) -> str:
    """Note that an author says this."""
    _used[line] += 1
    _used[f"{author_id} {line}"] += 1
    return line


def spoken(seed: str, author_id: str, line: str) -> str:
    """Say a line in the way that was said least: with one of the parts of each [a|b|c]."""
    use(author_id, line)
    parts = [part.split("|") for part in re.split(r"[\[\]]", line)]
    ways = ["".join(way) for way in product(*parts)]
    text = use(author_id, shuffled(seed, author_id, ways)[0])
    return text[0].upper() + text[1:]


def longest(line: str) -> int:
    """Return how long a line is at most, whatever is chosen in it."""
    return sum(max(map(len, part.split("|"))) for part in re.split(r"[\[\]]", line))


def fitted(seed: str, author_id: str, first: Sequence[str], rest: Sequence[str], chars: int) -> str:
    """Say one of `first` and as many of `rest` as fit into `chars`, a question only at the end."""
    fits = [line for line in first if longest(line) <= chars + SLACK] or [min(first, key=longest)]
    said = [spoken(seed, author_id, shuffled(seed, author_id, fits)[0])]
    left = set(rest)
    while not said[-1].endswith("?"):
        room = chars + SLACK - len(" ".join(said))
        fits = [line for line in left if longest(line) < room]
        fits = [line for line in fits if room < 100 or not line.endswith("?")]
        if not fits:
            break
        line = shuffled(seed, author_id, fits)[0]
        left.remove(line)
        said.append(spoken(seed, author_id, line))
    return " ".join(said)


def topics_of(author_id: str) -> list[str]:
    """Return the three topics that an author writes about."""
    names = [name for name in TOPICS if name != TRENDING]
    return sorted(names, key=lambda name: sha256(f"{author_id} {name}".encode()).digest())[:3]


def topic_of(post: dict[str, str]) -> str:
    """Return what a post is about: everybody's topic when it was trending, else one of three."""
    if post["is_trending"] == "1":
        return TRENDING
    return pick(f"topic {post['post_id']}", topics_of(post["author_id"]))


def appendix(post: dict[str, str], topic: Topic, chars: int) -> str:
    """Write the link and the tags of a post; tags take at most half of it."""
    seed = f"appendix {post['post_id']}"
    page = f" https://example.org/{pick(seed, topic.pages)}" if post["has_url"] == "1" else ""
    tags = ""
    for tag in shuffled(seed, post["author_id"], topic.tags)[: int(post["n_tags"])]:
        if len(tags) + len(tag) + 2 <= chars / 2:
            tags += f" #{use(post['author_id'], tag)}"
    return page + tags


def body_of(post: dict[str, str]) -> str:
    """Write the text of an original, about as long as the one it stands for."""
    seed, chars = post["post_id"], int(post["text_chars"])
    name = topic_of(post)
    topic = TOPICS[name]
    end = appendix(post, topic, chars)
    room = chars - len(end)
    if room < min(longest(line) for line in topic.begin) - SLACK:
        return pick(seed, nearest(SHORT, max(room, 2))) + end
    author_id = post["author_id"]
    paragraphs = [fitted(seed, author_id, topic.begin, topic.go_on, room)]
    for other in (each for each in topics_of(author_id) if each != name):
        left = room - len("\n\n".join(paragraphs))
        if left > 150:
            more = TOPICS[other]
            paragraphs.append(fitted(f"{seed} {other}", author_id, more.begin, more.go_on, left))
    return "\n\n".join(paragraphs) + end


def comment_of(post: dict[str, str], root: dict[str, str]) -> str:
    """Write what a repost adds; a few characters in the source are taken for nothing."""
    seed, chars = post["post_id"], int(post["text_chars"])
    if chars < 5:
        return ""
    if chars < 15:
        return pick(seed, nearest(SHORT, chars))
    return fitted(seed, post["author_id"], ECHOES, TOPICS[topic_of(root)].go_on, chars)


def nearest(texts: Sequence[str], chars: int) -> list[str]:
    """Return the four texts whose length is nearest."""
    return sorted(texts, key=lambda text: abs(len(text) - chars))[:4]


def names_of(ids: Iterable[int]) -> dict[int, str]:
    """Give every id a name made of an adjective and an animal, no two the same."""
    names = [f"{adjective} {animal}" for adjective in ADJECTIVES for animal in ANIMALS]
    mixed = sorted(names, key=lambda name: sha256(name.encode()).digest())
    return dict(zip(sorted(ids), mixed, strict=False))


def time_of(text: str) -> str:
    """Write a time with exactly three digits of a second."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return f"{whole}.{fraction.ljust(3, '0')}Z"


def post_rows(posts: Rows) -> Iterable[Sequence[object]]:
    """Return the rows of posts.csv; a reshare becomes a repost of its root."""
    by_id = {post["post_id"]: post for post in posts}
    for post in posts:
        root = by_id.get(post["root_post_id"])
        body = comment_of(post, root) if root else body_of(post)
        shape = "link" if post["has_url"] == "1" and not root else "text"
        yield (
            post["post_id"], post["author_id"], time_of(post["created_at"]), body, shape,
            "en" if body else "", post["root_post_id"],
        )  # fmt: skip


def main(source: Path, target: Path) -> None:
    """Read the source tables and write the four files of the sample."""
    posts, events, follows = (
        read(source / name) for name in ("posts.csv", "events.csv", "follows_derived.csv")
    )
    target.mkdir(exist_ok=True)
    write(target / "users.csv", ("id", "name"), names_of(range(1, PEOPLE + 1)).items())
    columns = ("id", "author_id", "created_at", "body", "format", "lang", "repost_of")
    write(target / "posts.csv", columns, post_rows(posts))
    write(
        target / "follows.csv",
        ("follower_id", "followee_id", "created_at"),
        ((row["follower_id"], row["followee_id"], time_of(row["ts"])) for row in follows),
    )
    write(
        target / "engagements.csv",
        ("viewer_id", "post_id", "type", "at"),
        (
            (event["user_id"], event["post_id"], event["type"], time_of(event["ts"]))
            for event in events
            if event["type"] != "reshare"  # each is a post of its own already
        ),
    )


def read(path: Path) -> Rows:
    """Read one table."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write one table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(__file__).parent / "dartpost")
