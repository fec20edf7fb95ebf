"""The command line: help that needs nothing, errors in one sentence, doors that stay shut."""

import subprocess
import sys
from pathlib import Path

import jwt
import pytest
from click.testing import CliRunner

from cli.doctor import judge_postgres, judge_queue, judge_redis, place
from cli.entry import is_loopback, refuse_open_door
from cli.main import COMMANDS, foryou
from cli.supervisor import backoff_s
from feed.errors import Misconfigured
from feed.settings import Settings
from storage.servers import PostgresFacts, RedisFacts

ROOT = Path(__file__).parents[2]
GOOD = {"zset-max-listpack-entries": "501", "maxmemory-policy": "noeviction", "appendonly": "no"}


def redis(config: dict[str, str], *, major: int = 7) -> RedisFacts:
    return RedisFacts("redis", f"{major}.2.1", major, "run", config)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    told = CliRunner().invoke(foryou, [name, "--help"])
    assert told.exit_code == 0, told.output
    assert "Example" in told.output and f"foryou {name}" in told.output


def test_the_list_of_commands_loads_none_of_them() -> None:
    code = (
        "import sys, cli.main\n"
        "try: cli.main.main(['--help'])\n"
        "except SystemExit: pass\n"
        "loaded = [name for name in sys.modules if name.startswith('cli.')]\n"
        "assert loaded == ['cli.main'], loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)


def test_an_error_on_purpose_is_one_sentence_without_a_trace() -> None:
    command = [sys.executable, "-m", "cli.main", "migrate"]
    done = subprocess.run(command, cwd=ROOT, env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("foryou: FORYOU_POSTGRES_URL is not set: set it")
    assert len(done.stderr.splitlines()) == 1 and not done.stdout


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_dev_identity_may_listen_on_loopback(host: str) -> None:
    assert is_loopback(host)
    refuse_open_door(Settings(auth="dev"), host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.1", "example.org"])
def test_dev_identity_listens_nowhere_else(host: str) -> None:
    refuse_open_door(Settings(auth="header"), host)
    with pytest.raises(Misconfigured, match=r"--host 127\.0\.0\.1"):
        refuse_open_door(Settings(auth="dev"), host)


def test_a_part_that_keeps_dying_is_started_ever_more_slowly_up_to_ten_seconds() -> None:
    assert [backoff_s(n) for n in range(1, 9)] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


def test_a_token_says_who_for_what_and_until_when(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "a secret of thirty-two bytes or more"
    monkeypatch.setenv("FORYOU_JWT_KEY", key)
    made = CliRunner().invoke(foryou, ["token", "42", "--scope", "admin ingest"])
    claims = jwt.decode(made.output.strip(), key, algorithms=["HS256"])
    assert (claims["sub"], claims["scope"]) == ("42", "admin ingest")
    assert "exp" in claims


def test_the_doctor_finds_nothing_wrong_with_good_servers() -> None:
    findings = [
        *judge_postgres(PostgresFacts(major=14, read_only=False, max_connections=100)),
        *judge_redis(redis(GOOD), feed_cap=500),
        *judge_queue(redis(GOOD), shared=False),
    ]
    assert {finding.verdict for finding in findings} == {"ok"}


def test_the_doctor_says_what_to_change() -> None:
    config = {
        "zset-max-listpack-entries": "128",
        "maxmemory-policy": "allkeys-lru",
        "save": "60 1",
    }
    findings = [
        *judge_postgres(PostgresFacts(major=13, read_only=True, max_connections=20)),
        *judge_redis(redis(config, major=6), feed_cap=500),
        *judge_queue(redis(config, major=6), shared=True),
    ]
    assert [finding.verdict for finding in findings] == [
        *("bad", "bad", "warn"),
        *("bad", "warn", "warn"),
        *("bad", "bad", "warn"),
    ]
    assert all(finding.advice for finding in findings)


def test_a_server_is_named_without_its_password() -> None:
    assert place("postgresql://me:secret@db:5432/foryou?sslmode=require") == "db:5432"
