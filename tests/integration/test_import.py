"""`foryou import`: what comes in, what is refused, and that it can stop anywhere and go on."""

import asyncio
import csv
import json
import signal
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner

from cli.import_command import import_command
from feed.affinity import HALF_STRENGTH
from feed.errors import Conflict, Invalid
from feed.settings import Settings
from storage.connections import Postgres
from storage.engagements import Event, fold, record
from storage.imports import Refusal, Report, import_folder
from storage.posts import edit_post

pytestmark = pytest.mark.anyio

SAMPLE = Path(__file__).parents[2] / "samples" / "dartpost"
NOW = datetime(2026, 1, 10, 12, 0, 0, tzinfo=UTC)
T = "2026-01-09T00:00:00.000Z"

TRUTH = {
    "users": "SELECT to_jsonb(u) - 'created_at' FROM users u ORDER BY id",
    "posts": "SELECT to_jsonb(p) - 'received_at' FROM posts p ORDER BY id",
    "post_stats": "SELECT * FROM post_stats ORDER BY post_id",
    "follows": "SELECT * FROM follows ORDER BY 1, 2",
    "reactions": "SELECT * FROM reactions ORDER BY 1, 2, 3",
    "engagements": "SELECT to_jsonb(e) - 'received_at' FROM engagements e"
    " ORDER BY day, viewer_id, event_id",
    "affinity": "SELECT * FROM affinity ORDER BY 1, 2",
    "hidden_posts": "SELECT * FROM hidden_posts ORDER BY 1, 2",
    "outbox_events": "SELECT type, payload FROM outbox_events ORDER BY type, payload",
    "deltas": "SELECT count(*) FROM engagement_deltas",
}


class Recorder:
    """Keeps what an import says, and may stop it at a step."""

    def __init__(self, stop_after: str = "") -> None:
        self.refusals: list[Refusal] = []
        self.steps: list[str] = []
        self.stop_after = stop_after

    def progress(self, step: str, done: int, total: int) -> None:
        assert 0 <= done <= total
        self.steps.append(step)
        if step == self.stop_after:
            raise KeyboardInterrupt

    def refused(self, refusal: Refusal) -> None:
        self.refusals.append(refusal)

    @property
    def codes(self) -> dict[str, dict[int, str]]:
        """The codes by file and line."""
        found: dict[str, dict[int, str]] = {}
        for refusal in self.refusals:
            found.setdefault(refusal.file, {})[refusal.line] = refusal.code
        return found


def files(folder: Path, **kinds: str) -> Path:
    """Write CSV files, as their text."""
    folder.mkdir(exist_ok=True)
    for kind, text in kinds.items():
        (folder / f"{kind}.csv").write_text(text)
    return folder


def table(*lines: str) -> str:
    return "\n".join(lines) + "\n"


PEOPLE = table("id,name", "1,Ada", "2,Bob", "3,Cyd", "4,Dee")
POSTS = table("id,author_id,created_at,body", f"10,1,{T},hello", f"20,2,{T},hi")


async def load(
    postgres: Postgres,
    folder: Path,
    listener: Recorder | None = None,
    *,
    now: datetime = NOW,
    shift_to_now: bool = False,
    settings: Settings | None = None,
) -> Report:
    return await import_folder(
        postgres,
        folder,
        settings=settings or Settings(),
        now=now,
        shift_to_now=shift_to_now,
        listener=listener,
    )


async def rows(postgres: Postgres, query: Any, values: Sequence[Any] = ()) -> list[Any]:
    async with postgres.connection() as connection:
        return await (await connection.execute(query, values)).fetchall()


async def truth(postgres: Postgres) -> dict[str, list[Any]]:
    """Return all there is, but for when it was received."""
    found = {name: await rows(postgres, query) for name, query in TRUTH.items()}
    return {name: [tuple(map(rounded, row)) for row in each] for name, each in found.items()}


def rounded(value: Any) -> Any:
    """Forget the last digits of a sum, which depend on the order of what was summed."""
    return float(f"{value:.9g}") if isinstance(value, float) else value


def sample(name: str) -> list[dict[str, str]]:
    with (SAMPLE / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# ---------------------------------------------------------------------- the sample


async def test_the_sample_comes_in_whole_and_counters_agree_with_a_recount(
    postgres: Postgres,
) -> None:
    listener = Recorder()
    report = await load(postgres, SAMPLE, listener)
    assert listener.refusals == []
    assert {kind: each.written for kind, each in report.counts.items()} == {
        "users": 125, "posts": 1070, "follows": 1081, "engagements": 2643,
    }  # fmt: skip
    assert (
        await rows(
            postgres,
            "SELECT id, follower_count FROM users EXCEPT"
            " SELECT u.id, count(f.followee_id) FROM users u"
            " LEFT JOIN follows f ON f.followee_id = u.id GROUP BY u.id",
        )
        == []
    )
    likes = {
        (row["viewer_id"], row["post_id"]) for row in sample("engagements") if row["type"] == "like"
    }
    comments = [row for row in sample("engagements") if row["type"] == "comment"]
    reposts = [row for row in sample("posts") if row["repost_of"]]
    assert await rows(
        postgres, "SELECT sum(likes), sum(comments), sum(reposts) FROM post_stats"
    ) == [(len(likes), len(comments), len(reposts))]
    assert await rows(postgres, "SELECT count(*) FROM reactions WHERE active") == [(len(likes),)]


async def test_a_repost_of_the_sample_always_points_at_an_original(postgres: Postgres) -> None:
    await load(postgres, SAMPLE)
    assert (
        await rows(
            postgres,
            "SELECT r.id FROM posts r LEFT JOIN posts o ON o.id = r.repost_of"
            " WHERE r.repost_of IS NOT NULL AND (o.id IS NULL OR o.repost_of IS NOT NULL)",
        )
        == []
    )


async def test_affinity_is_the_decayed_sum_of_the_weights(postgres: Postgres) -> None:
    await load(postgres, SAMPLE)
    authors = {row["id"]: row["author_id"] for row in sample("posts")}
    weighted = [
        (row["viewer_id"], authors[row["post_id"]], row["at"], 3.0)
        for row in sample("engagements") if row["type"] == "comment"
    ]  # fmt: skip
    weighted += [
        (row["author_id"], authors[row["repost_of"]], row["created_at"], 3.0)
        for row in sample("posts") if row["repost_of"]
    ]  # fmt: skip
    last_like = {
        (row["viewer_id"], row["post_id"]): row["at"]
        for row in sorted(sample("engagements"), key=lambda row: row["at"])
        if row["type"] == "like"
    }
    # A second like changes no state, so the strength is of the last one's time.
    weighted += [(viewer, authors[post], at, 1.0) for (viewer, post), at in last_like.items()]
    by_pair: dict[tuple[int, int], list[tuple[datetime, float]]] = {}
    for viewer, author, when, weight in weighted:
        if viewer != author:
            pair = int(viewer), int(author)
            by_pair.setdefault(pair, []).append((datetime.fromisoformat(when), weight))
    half_life = timedelta(seconds=Settings().affinity_half_life_s)
    stored = await rows(postgres, "SELECT viewer_id, author_id, strength, at FROM affinity")
    assert {(viewer, author) for viewer, author, _, _ in stored} == by_pair.keys()
    for viewer, author, strength, at in stored:
        parts = by_pair[viewer, author]
        expected = sum(weight * 0.5 ** ((at - when) / half_life) for when, weight in parts)
        assert strength == pytest.approx(expected, abs=1e-4)
    assert max(each[2] for each in stored) > HALF_STRENGTH  # somebody is well liked


# ---------------------------------------------------------------------- again


async def test_the_same_import_twice_changes_nothing(postgres: Postgres) -> None:
    await load(postgres, SAMPLE)
    before = await truth(postgres)
    report = await load(postgres, SAMPLE, now=NOW + timedelta(hours=1))
    assert await truth(postgres) == before
    assert (report.written, report.refused) == (0, 0)
    assert report.counts["engagements"].unchanged == 2643


async def test_a_shifted_import_ends_now_and_is_shifted_the_same_again(postgres: Postgres) -> None:
    report = await load(postgres, SAMPLE, shift_to_now=True)
    before = await truth(postgres)
    assert await rows(postgres, "SELECT max(at) FROM engagements") == [(NOW,)]
    [(newest,)] = await rows(postgres, "SELECT max(created_at) FROM posts")
    assert timedelta(0) < NOW - newest < timedelta(minutes=20)
    assert await rows(
        postgres,
        "SELECT count(*) FROM posts WHERE effective_ms <> extract(epoch FROM created_at) * 1000",
    ) == [(0,)]
    for days in (1, 3):
        again = await load(postgres, SAMPLE, now=NOW + timedelta(days=days), shift_to_now=True)
        assert (again.shift_ms, again.written, again.refused) == (report.shift_ms, 0, 0)
        assert await truth(postgres) == before


STEPS = ("users", "posts", "follows", "engagements")


@pytest.mark.parametrize("step", [f"writing {kind}" for kind in STEPS])
async def test_an_import_stopped_after_a_step_ends_the_same_when_run_again(
    postgres: Postgres, tmp_path: Path, step: str
) -> None:
    """The transaction of the step was committed; nothing after it happened."""
    with pytest.raises(KeyboardInterrupt):
        await load(postgres, SAMPLE, Recorder(stop_after=step), shift_to_now=True)
    assert await rows(postgres, "SELECT count(*) FROM outbox_events") == [(0,)]
    await load(postgres, SAMPLE, now=NOW + timedelta(minutes=5), shift_to_now=True)
    stopped = await truth(postgres)
    assert stopped["outbox_events"] == [("import.finished", {})]
    async with postgres.connection() as connection:
        await connection.execute(
            "TRUNCATE users, posts, post_stats, follows, reactions, engagements, affinity,"
            " hidden_posts, outbox_events, deliveries, imports"
        )
    await load(postgres, SAMPLE, shift_to_now=True)
    assert await truth(postgres) == stopped


async def test_an_import_stopped_inside_a_file_keeps_whole_chunks_and_goes_on(
    postgres: Postgres, tmp_path: Path
) -> None:
    """Engagements are written 20,000 at a time."""
    n, chunk = 30_000, 20_000
    folder = files(
        tmp_path / "in",
        users=PEOPLE,
        posts=POSTS,
        engagements=table("viewer_id,post_id,type,at", *(
            f"3,10,impression,{(NOW - timedelta(seconds=n)).isoformat()}" for n in range(n)
        )),
    )  # fmt: skip
    impressions = "SELECT impressions FROM post_stats"
    with pytest.raises(KeyboardInterrupt):
        await load(postgres, folder, Recorder(stop_after="writing engagements"))
    assert await rows(postgres, impressions) == [(chunk,)]
    report = await load(postgres, folder)
    assert await rows(postgres, impressions) == [(n,)]
    counts = report.counts["engagements"]
    assert (counts.written, counts.unchanged) == (n - chunk, chunk)


async def test_a_run_with_nothing_new_still_tells_of_one_that_was_stopped(
    postgres: Postgres, tmp_path: Path
) -> None:
    folder = files(tmp_path / "in", users=PEOPLE)
    with pytest.raises(KeyboardInterrupt):
        await load(postgres, folder, Recorder(stop_after="writing users"))
    finished = "SELECT count(*) FROM outbox_events WHERE type = 'import.finished'"
    assert (await load(postgres, folder)).written == 0
    assert await rows(postgres, finished) == [(1,)]
    await load(postgres, folder)
    assert await rows(postgres, finished) == [(1,)]


async def test_a_second_import_at_the_same_time_is_refused(
    postgres: Postgres, tmp_path: Path
) -> None:
    folder = files(tmp_path / "in", users=PEOPLE)
    async with postgres.connection() as connection:
        await connection.execute("SELECT pg_advisory_lock(%s)", [0x696D706F7274])
        with pytest.raises(Conflict, match="Another import"):
            await load(postgres, folder)
        await connection.execute("SELECT pg_advisory_unlock_all()")
    await load(postgres, folder)


async def test_a_file_that_cannot_be_read_to_its_end_leaves_everything_as_it_was(
    postgres: Postgres, tmp_path: Path
) -> None:
    folder = files(tmp_path / "in", users=PEOPLE)
    (folder / "posts.csv.gz").write_bytes(b"\x1f\x8b\x08\x00 not really")
    with pytest.raises(Invalid, match=r"posts\.csv\.gz cannot be read"):
        await load(postgres, folder)
    assert await rows(postgres, "SELECT count(*) FROM users") == [(0,)]
    (folder / "posts.csv.gz").unlink()
    await load(postgres, folder)  # on the same lent connection, with no table left behind


# ---------------------------------------------------------------------- refused rows


async def test_every_refused_row_is_named_with_line_and_reason_and_costs_no_other(
    postgres: Postgres, tmp_path: Path
) -> None:
    folder = files(
        tmp_path / "in",
        users=table(
            "id,name,created_at", "1,Ada,", "2,Bob,", "3,Cyd,",
            "2,Bob,",                                     # unchanged
            "2,Rob,", "x,Yan,", "4,,", "5,Eve,2036-01-01T00:00:00Z",
        ),
        posts=table(
            "id,author_id,created_at,body,repost_of,reply_to",
            f"10,1,{T},hello,,",
            f"11,2,{T},,10,",
            f"12,3,{T},mine,11,",                         # becomes a repost of 10
            f"13,9,{T},a,,",                              # line 5: unknown author
            f"14,2,{T},a,,13",
            f"15,2,{T},a,,14",
            "16,2,2036-01-01T00:00:02Z,a,,",
            f"17,2,{T},,18,",
            f"18,2,{T},,17,",
            f"19,2,{T},,,",
            f"20,2,{T},{'x' * 10_001},,",
            f"10,1,{T},other,,",
            f"21,2,{T},self,,21",
            f"10,1,{T},hello,,",                          # unchanged
        ),
        follows=table("follower_id,followee_id", "1,2", "1,1", "1,7", "8,1", "1,2"),
        engagements=table(
            "viewer_id,post_id,type,at,event_id",
            f"1,10,like,{T},00000000-0000-0000-0000-000000000001",
            f"1,10,unlike,{T},00000000-0000-0000-0000-000000000001",
            f"9,10,like,{T},",
            f"1,13,like,{T},",
            f"1,10,adore,{T},",
            "1,10,like,2036-01-01T00:00:00Z,",
            f"1,10,like,{T},nope",
        ),
    )  # fmt: skip
    listener = Recorder()
    report = await load(postgres, folder, listener)
    assert listener.codes == {
        "users.csv": {6: "conflict", 7: "bad_id", 8: "missing", 9: "future_time"},
        "posts.csv": {
            5: "unknown_user", 6: "unknown_post", 7: "unknown_post", 8: "future_time",
            9: "bad_parent", 10: "bad_parent", 11: "empty_body", 12: "too_long", 13: "conflict",
            14: "bad_parent",
        },
        "follows.csv": {3: "self_follow", 4: "unknown_user", 5: "unknown_user"},
        "engagements.csv": {
            3: "conflict", 4: "unknown_user", 5: "unknown_post", 6: "bad_value",
            7: "future_time", 8: "bad_id",
        },
    }  # fmt: skip
    counts = {kind: (c.written, c.unchanged, c.refused) for kind, c in report.counts.items()}
    assert counts == {
        "users": (3, 1, 4), "posts": (3, 1, 10), "follows": (1, 1, 3), "engagements": (1, 0, 6),
    }  # fmt: skip
    assert await rows(postgres, "SELECT id, repost_of FROM posts ORDER BY id") == [
        (10, None), (11, 10), (12, 10),
    ]  # fmt: skip
    again = Recorder()
    await load(postgres, folder, again)
    assert again.codes == listener.codes


async def test_a_post_that_changed_in_the_file_is_refused_and_one_that_was_edited_is_not(
    postgres: Postgres, tmp_path: Path
) -> None:
    await load(postgres, files(tmp_path / "in", users=PEOPLE, posts=POSTS))
    async with postgres.transaction() as connection:
        await edit_post(connection, 1, 10, body="edited", now=NOW)
    files(tmp_path / "in", posts=POSTS.replace(",hi", ",changed"))
    listener = Recorder()
    await load(postgres, tmp_path / "in", listener)
    assert listener.codes == {"posts.csv": {3: "conflict"}}
    assert await rows(postgres, "SELECT body FROM posts ORDER BY id") == [("edited",), ("hi",)]


async def test_a_name_replaces_only_the_placeholder_of_a_first_write(
    postgres: Postgres, tmp_path: Path
) -> None:
    async with postgres.connection() as connection:
        await connection.execute("INSERT INTO users (id, name) VALUES (1, 'user 1'), (2, 'Robert')")
    listener = Recorder()
    report = await load(postgres, files(tmp_path / "in", users=PEOPLE), listener)
    assert await rows(postgres, "SELECT name FROM users WHERE id < 3 ORDER BY id") == [
        ("Ada",), ("Robert",),
    ]  # fmt: skip
    assert listener.codes == {"users.csv": {3: "conflict"}}
    assert report.counts["users"].written == 3


async def test_a_deleted_user_does_not_come_back(postgres: Postgres, tmp_path: Path) -> None:
    async with postgres.connection() as connection:
        await connection.execute(
            "INSERT INTO users (id, name, deleted_at) VALUES (1, 'Ada', now())"
        )
    listener = Recorder()
    folder = files(
        tmp_path / "in", users=PEOPLE, posts=POSTS, follows="follower_id,followee_id\n2,1\n"
    )
    await load(postgres, folder, listener)
    assert listener.codes == {
        "users.csv": {2: "deleted_user"},
        "posts.csv": {2: "unknown_user"},
        "follows.csv": {2: "unknown_user"},
    }


# ---------------------------------------------------------------------- what rows mean


async def _settle(postgres: Postgres) -> None:
    async with postgres.transaction() as connection:
        await fold(connection, Settings().affinity_half_life_s)


def event(
    n: int, viewer_id: int, post_id: int, type: str, minutes: int, dwell: int | None
) -> Event:
    at = NOW - timedelta(hours=2) + timedelta(minutes=minutes)
    return Event(
        viewer_id=viewer_id, event_id=UUID(int=n), type=type, post_id=post_id, at=at, dwell_ms=dwell
    )


EVENTS = [
    event(n, *each)
    for n, each in enumerate(
        [
            (1, 20, "like", 1, None), (1, 20, "like", 2, None), (2, 10, "like", 3, None),
            (2, 10, "unlike", 4, None), (3, 10, "unlike", 5, None), (3, 10, "like", 6, None),
            (3, 10, "unlike", 7, None), (3, 10, "like", 8, None), (4, 10, "unlike", 9, None),
            (1, 20, "comment", 3, None), (1, 20, "share", 4, None), (1, 20, "click", 5, None),
            (1, 20, "dwell", 6, 4999), (3, 20, "dwell", 7, 5000), (3, 20, "impression", 8, None),
            (4, 20, "not_interested", 9, None), (4, 10, "report", 10, None),
            (1, 10, "like", 11, None),
            (1, 10, "comment", 12, None),
        ],
        start=1,
    )
]  # fmt: skip


def as_file(events: Iterable[Event]) -> str:
    return table(
        "viewer_id,post_id,type,at,dwell_ms,event_id",
        *(
            f"{e.viewer_id},{e.post_id},{e.type},{e.at.isoformat()},{e.dwell_ms or ''},{e.event_id}"
            for e in events
        ),
    )


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("split", [0, 1, 4, 7, len(EVENTS)])
async def test_an_imported_event_counts_as_one_that_the_api_recorded(
    postgres: Postgres, tmp_path: Path, split: int, late: bool
) -> None:
    """Some events come through the api, then an import adds the later or the earlier ones."""
    parts = (EVENTS[split:], EVENTS[:split]) if late else (EVENTS[:split], EVENTS[split:])
    meaning = ("post_stats", "reactions", "hidden_posts")
    strengths = (
        "SELECT viewer_id, author_id, round(strength::numeric, 3) FROM affinity"
        " WHERE abs(strength) > 0.001 ORDER BY 1, 2"
    )
    folder = files(tmp_path / "in", users=PEOPLE, posts=POSTS)
    await load(postgres, folder)
    await _record(postgres, parts[0])
    await load(postgres, files(folder, engagements=as_file(parts[1])))
    imported = [
        await rows(postgres, strengths),
        *[await _without_times(postgres, t) for t in meaning],
    ]
    async with postgres.connection() as connection:
        await connection.execute(
            "TRUNCATE post_stats, reactions, hidden_posts, affinity, engagements"
        )
    await _record(postgres, EVENTS)
    recorded = [
        await rows(postgres, strengths),
        *[await _without_times(postgres, t) for t in meaning],
    ]
    assert imported == recorded


async def _record(postgres: Postgres, events: Sequence[Event]) -> None:
    for each in events:  # one by one, as clients send them
        async with postgres.transaction() as connection:
            await record(connection, [each], NOW)
    await _settle(postgres)


async def _without_times(postgres: Postgres, name: str) -> list[Any]:
    queries = {
        # Without heat: what was liked and unliked within hours leaves a little, either way.
        "post_stats": "SELECT post_id, likes, comments, reposts, impressions FROM post_stats"
        " WHERE (likes, comments, impressions) <> (0, 0, 0) ORDER BY post_id",
        "reactions": "SELECT viewer_id, post_id, active FROM reactions WHERE active ORDER BY 1, 2",
        "hidden_posts": "SELECT viewer_id, post_id, via FROM hidden_posts ORDER BY 1, 2",
    }
    return await rows(postgres, queries[name])


async def test_replies_and_reposts_count_for_their_parents_and_not_for_oneself(
    postgres: Postgres, tmp_path: Path
) -> None:
    folder = files(
        tmp_path / "in",
        users=PEOPLE,
        posts=table(
            "id,author_id,created_at,body,repost_of,reply_to",
            f"5,2,{T},early answer,,10",
            f"10,1,{T},hello,,",
            f"11,1,{T},to myself,,10",
            f"12,3,{T},,10,",
            f"13,4,{T},,12,",
        ),
    )
    await load(postgres, folder)
    assert await rows(postgres, "SELECT post_id, comments, reposts FROM post_stats") == [(10, 2, 2)]
    assert await rows(
        postgres, "SELECT viewer_id, author_id, strength FROM affinity ORDER BY 1"
    ) == [(2, 1, 3.0), (3, 1, 3.0), (4, 1, 3.0)]


async def test_an_author_who_gets_too_many_followers_to_push_to_is_announced_once(
    postgres: Postgres, tmp_path: Path
) -> None:
    folder = files(
        tmp_path / "in", users=PEOPLE, follows=table("follower_id,followee_id", "1,2", "3,2", "1,3")
    )
    small = Settings(pull_from_followers=2, push_below_followers=1)
    await load(postgres, folder, settings=small)
    await load(postgres, folder, settings=small)
    files(folder, follows=table("follower_id,followee_id", "1,2", "3,2", "1,3", "4,2", "2,3"))
    await load(postgres, folder, settings=small)
    crossed = "SELECT payload FROM outbox_events e JOIN deliveries d ON d.event_id = e.id"
    assert await rows(postgres, crossed + " WHERE type = 'author.crossed' ORDER BY d.id") == [
        ({"author_id": 2},), ({"author_id": 3},),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "expected"), [("hybrid", ["pull", "push"]), ("pull", ["pull", "pull"])]
)
async def test_posts_are_delivered_as_their_author_is(
    postgres: Postgres, tmp_path: Path, state: str, expected: list[str]
) -> None:
    async with postgres.connection() as connection:
        await connection.execute(
            "INSERT INTO author_delivery VALUES (1, true, true), (2, true, false)"
        )
        await connection.execute("UPDATE delivery_state SET state = %s", [state])
    await load(postgres, files(tmp_path / "in", users=PEOPLE, posts=POSTS))
    stored = await rows(postgres, "SELECT delivery FROM posts ORDER BY id")
    assert [how for (how,) in stored] == expected


async def test_a_time_a_little_in_the_future_counts_from_now(
    postgres: Postgres, tmp_path: Path
) -> None:
    later = (NOW + timedelta(seconds=200)).isoformat()
    posts = table("id,author_id,created_at,body", f"10,1,{later},soon")
    folder = files(tmp_path / "in", users=PEOPLE, posts=posts)
    await load(postgres, folder)
    assert await rows(postgres, "SELECT effective_ms FROM posts") == [(NOW.timestamp() * 1000,)]
    again = await load(postgres, folder, now=NOW + timedelta(hours=1))
    assert (again.counts["posts"].unchanged, again.refused) == (1, 0)


# ---------------------------------------------------------------------- the command


def command(database_url: str, folder: Path, report: Path, *options: str) -> Any:
    arguments = [str(folder), "--postgres", database_url, "--report", str(report), *options]
    return CliRunner().invoke(import_command, arguments)


def test_the_command_lists_what_it_refused_and_ends_well_unless_strict(
    database_url: str, tmp_path: Path
) -> None:
    follows = "follower_id,followee_id\n1,2\n" + "1,9\n" * 30
    folder = files(tmp_path / "in", users=PEOPLE, follows=follows)
    report = tmp_path / "refused.ndjson"
    done = command(database_url, folder, report)
    assert done.exit_code == 0
    assert "follows.csv:3: unknown_user: followee_id: there is no user 9" in done.stderr
    assert "and 10 more" in done.stderr
    assert f"30 rows were refused; {report} lists them all." in done.stdout
    listed = [json.loads(line) for line in report.read_text().splitlines()]
    assert [each["line"] for each in listed] == list(range(3, 33))
    assert command(database_url, folder, report, "--strict").exit_code == 1


async def test_an_import_killed_in_the_middle_goes_on_when_it_is_run_again(
    postgres: Postgres, database_url: str, tmp_path: Path
) -> None:
    folder = files(
        tmp_path / "in",
        users=table("id,name", *(f"{n},Person {n}" for n in range(1, 401))),
        follows=table(
            "follower_id,followee_id",
            *(f"{a},{b}" for a in range(1, 401) for b in range(1, 401) if a != b),
        ),
    )
    arguments = ["import", str(folder), "--postgres", database_url]
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli.main", *arguments, cwd=SAMPLE.parents[1], stderr=DEVNULL
    )
    while await rows(postgres, "SELECT count(*) FROM users") == [(0,)]:  # noqa: ASYNC110 -- of another process
        await asyncio.sleep(0.005)
    killed.kill()
    assert await killed.wait() == -signal.SIGKILL
    report = await load(postgres, folder)
    assert report.refused == 0
    assert await rows(postgres, "SELECT count(*) FROM follows") == [(400 * 399,)]
    assert await rows(postgres, "SELECT DISTINCT follower_count FROM users") == [(399,)]
    assert await rows(postgres, "SELECT type FROM outbox_events") == [("import.finished",)]


def test_the_command_sums_up_in_json_and_writes_no_report_without_need(
    database_url: str, tmp_path: Path
) -> None:
    report = tmp_path / "refused.ndjson"
    done = command(database_url, files(tmp_path / "in", users=PEOPLE), report, "--json", "--strict")
    summary = json.loads(done.stdout)
    assert summary["users"] == {"read": 4, "written": 4, "unchanged": 0, "refused": 0}
    assert (summary["refused"], summary["report"], report.exists()) == (0, None, False)


def test_the_command_says_what_is_wrong_with_a_folder(database_url: str, tmp_path: Path) -> None:
    done = command(database_url, tmp_path, tmp_path / "refused.ndjson")
    assert isinstance(done.exception, Invalid)
    assert "holds nothing to import" in str(done.exception)
