"""The harness of the benchmarks: what a result says, what is recorded, what the client counts."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.bench_import import FOLLOWS_PER_USER, held_at_most_mb, write_files
from benchmarks.cpu import cpu_s
from benchmarks.load import Answer, Target, get_each, load
from benchmarks.machine import cpu
from benchmarks.result import Result, line, spread, table
from benchmarks.trips import Commands, Recorder, Recording, beside
from cli.bench import NAMES, bench
from cli.main import foryou
from feed.errors import ForYouError

ASKED = {
    "name",
    "value",
    "unit",
    "ceiling",
    "ratio",
    "p50",
    "p99",
    "n",
    "commit",
    "cpu",
    "versions",
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def result() -> Result:
    return Result(
        name="open",
        value=123.456789,
        unit="requests/s",
        ceiling=200,
        ceiling_is="a bare handler",
        ratio=0.617,
        spread=spread([1.0, 2.0, 3.0], "ms"),
        peers={"another way": 99.0},
        machine={"commit": "abc", "cpu": cpu(), "versions": {"python": "3.11"}},
    )


# ---------------------------------------------------------------------- results


def test_a_result_is_one_line_of_json_with_everything_that_was_asked_for() -> None:
    text = line(result())
    assert "\n" not in text
    said = json.loads(text)
    assert said.keys() >= ASKED
    assert (said["value"], said["p50"], said["n"]) == (123.46, 2.0, 3)


def test_a_table_begins_with_the_question_and_names_the_peer() -> None:
    text = table(result(), question="How many?")
    assert text.startswith("How many?\n\n")
    assert "61.7%" in text and "another way" in text and "a bare handler" in text


def test_quantiles_are_those_of_all_samples() -> None:
    found = spread([float(n) for n in range(1, 102)], "ms")
    assert (found.p50, found.p90, found.p99, found.n) == (51.0, 91.0, 100.0, 101)


# ---------------------------------------------------------------------- the command


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_asks_one_question_at_its_top(name: str) -> None:
    text = Path("benchmarks", f"bench_{name}.py").read_text()
    assert text.splitlines()[0].endswith("?")
    assert "Ceiling" in text.split('"""')[1]


def test_the_first_benchmarks_are_there() -> None:
    assert {*NAMES} >= {"open", "page", "chronological", "fanout", "memory", "import"}


def test_an_unknown_benchmark_is_refused_with_the_names_that_exist() -> None:
    told = CliRunner().invoke(foryou, ["bench", "nothing"])
    assert told.exit_code == 2 and "chronological" in told.output


def test_a_round_has_a_least_and_a_greatest_length() -> None:
    assert CliRunner().invoke(bench, ["open", "--seconds", "0"]).exit_code == 2
    assert CliRunner().invoke(bench, ["open", "--seconds", "61"]).exit_code == 2


# ---------------------------------------------------------------------- recording


async def test_trips_under_way_together_are_one_group_and_later_ones_the_next() -> None:
    recording = Recording("t")

    async def trip(name: str) -> None:
        with recording.noting(Commands([(name,)])):
            await asyncio.sleep(0)

    await trip("first")
    await asyncio.gather(trip("left"), trip("right"))
    await trip("last")
    names = [[each.commands[0][0] for each in group] for group in groups(recording)]
    assert names == [["first"], ["left", "right"], ["last"]]


async def test_a_side_effect_is_noted_apart_also_through_tasks_of_its_own() -> None:
    recording = Recording("t")

    async def trip(name: str) -> None:
        with recording.noting(Commands([(name,)])):
            await asyncio.sleep(0)

    effect = asyncio.create_task(asyncio.wait_for(beside(trip("effect")), 1))
    await trip("request")
    await effect
    assert [[each.commands[0][0] for each in group] for group in groups(recording)] == [["request"]]
    assert [trip.commands for trip in recording.beside if isinstance(trip, Commands)] == [
        [("effect",)]
    ]


def test_a_trip_that_fails_is_none() -> None:
    recording = Recording("t")
    with pytest.raises(ValueError), recording.noting(Commands([("EVALSHA",)])):
        raise ValueError
    assert recording.groups == [[]] and not recording.under_way


def test_tokens_of_a_recording_are_distinct_and_carry_its_mark() -> None:
    recorder = Recorder()
    first = recorder.begin()
    tokens = [recorder.token(), recorder.token()]
    second = recorder.begin()
    assert len(set(tokens)) == 2 and all(first.token in token for token in tokens)
    assert second.token != first.token and second.token in recorder.token()


def groups(recording: Recording) -> list[list[Commands]]:
    return [[trip for trip in group if isinstance(trip, Commands)] for group in recording.groups]


# ---------------------------------------------------------------------- the client


@asynccontextmanager
async def served(answer: bytes) -> AsyncIterator[int]:
    """Answer every request with these bytes; lend the port."""
    writers = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        for writer in writers:
            writer.close()
            await writer.wait_closed()


async def test_the_client_reads_whole_answers_on_connections_that_are_kept() -> None:
    async with served(b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n"degraded":[] {') as port:
        answers = await get_each(port, [Target("/x", 1)] * 3, connections=2)
        measured = await load(port, [Target("/x", 1)], connections=2, seconds=0.05)
    assert answers == [Answer(200, b'"degraded":[] {')] * 3
    assert measured.ms and measured.n_degraded == 0 and measured.per_s > 0


async def test_an_answer_that_is_degraded_counts_as_such() -> None:
    async with served(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}") as port:
        measured = await load(port, [Target("/x", 1)], connections=1, seconds=0.02)
    assert measured.n_degraded == len(measured.ms) > 0


async def test_a_refusal_ends_the_measurement() -> None:
    async with served(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nlate") as port:
        with pytest.raises(ForYouError, match="503: late"):
            await load(port, [Target("/x", 1)], connections=1, seconds=0.02)


# ---------------------------------------------------------------------- the rest


def test_generated_follows_are_distinct_and_never_of_oneself(tmp_path: Path) -> None:
    users = FOLLOWS_PER_USER + 5
    rows = write_files(tmp_path / "import", users, seed=1)
    lines = (tmp_path / "import" / "follows.csv").read_text().splitlines()[1:]
    edges = {tuple(map(int, each.split(",")[:2])) for each in lines}
    assert len(edges) == len(lines) == users * FOLLOWS_PER_USER == rows - users
    assert all(1 <= a <= users and 1 <= b <= users and a != b for a, b in edges)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
def test_cpu_time_of_a_process_grows_with_what_it_does() -> None:
    before = cpu_s(os.getpid())
    while sum(range(10_000)) and cpu_s(os.getpid()) < before + 0.02:
        pass
    assert before < cpu_s(os.getpid()) < before + 5


def test_the_most_memory_of_a_process_stays_when_it_is_given_back() -> None:
    before_mb = held_at_most_mb(os.getpid())
    held = bytearray(int((before_mb + 64) * 2**20))  # more than was ever held at once
    held[::4096] = b"x" * len(held[::4096])
    del held
    assert held_at_most_mb(os.getpid()) >= before_mb + 60
    assert held_at_most_mb(2**22 + 1) == 0.0, "there is no such process"
