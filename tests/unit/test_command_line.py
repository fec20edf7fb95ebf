"""The command line: help that needs nothing, errors in one sentence, doors that stay shut."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import jwt
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from api.auth import identify_with
from cli.data_folder import open_data_folder
from cli.doctor import judge_postgres, judge_queue, judge_redis, place
from cli.entry import is_loopback, refuse_open_door
from cli.fitness import refuse_unfit
from cli.main import COMMANDS, foryou
from cli.parts import environ_of
from cli.supervisor import backoff_s
from feed.errors import Misconfigured
from feed.settings import Settings
from storage.servers import PostgresFacts, RedisFacts

ROOT = Path(__file__).parents[2]
GOOD = {"zset-max-listpack-entries": "1033", "maxmemory-policy": "noeviction", "appendonly": "no"}


def redis(config: dict[str, str], *, major: int = 7) -> RedisFacts:
    return RedisFacts("redis", f"{major}.2.1", major, "run", config)


def failed(*arguments: str, **environ: str) -> str:
    """Run a command that must fail without a word on stdout; return what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and not done.stdout, done
    return done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    told = CliRunner().invoke(foryou, [name, "--help"])
    assert told.exit_code == 0, told.output
    assert "Example" in told.output and f"foryou {name}" in told.output


@pytest.mark.parametrize("name", ["list", "retry", "drop"])
def test_every_part_of_outbox_has_help_with_an_example(name: str) -> None:
    told = CliRunner().invoke(foryou, ["outbox", name, "--help"])
    assert told.exit_code == 0, told.output
    assert "Example" in told.output and f"foryou outbox {name}" in told.output


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
    said = failed("migrate")
    assert said.startswith("foryou: FORYOU_POSTGRES_URL is not set: set it")
    assert len(said.splitlines()) == 1


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


def test_a_token_is_refused_for_a_key_that_the_service_refuses() -> None:
    done = failed("token", "42", FORYOU_JWT_KEY="short")
    with pytest.raises(Misconfigured) as refused:
        identify_with(Settings(jwt_key="short"))
    assert done == f"foryou: {refused.value}\n"


@pytest.mark.parametrize(
    ("content", "told"), [(None, "cannot be read"), (b"\xff", "is not a private key for ES256")]
)
def test_a_private_key_that_cannot_sign_is_one_sentence(
    tmp_path: Path, content: bytes | None, told: str
) -> None:
    file = tmp_path / "key.pem"
    if content is not None:
        file.write_bytes(content)
    said = failed("token", "42", "--private-key", str(file), FORYOU_JWT_ALGORITHM="ES256")
    assert said.startswith(f"foryou: {file}") and told in said and len(said.splitlines()) == 1


def test_a_public_key_does_not_sign(tmp_path: Path) -> None:
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    file = tmp_path / "key.pem"
    file.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    said = failed("token", "42", "--private-key", str(file), FORYOU_JWT_ALGORITHM="ES256")
    assert "is not a private key" in said


def test_import_looks_at_the_folder_before_it_asks_for_a_database(tmp_path: Path) -> None:
    assert failed("import", str(tmp_path / "no")) == f"foryou: {tmp_path / 'no'} is not a folder\n"
    assert ". ./.foryou/environment" in failed("import", str(tmp_path))


def test_import_names_a_postgres_that_is_gone_and_says_nothing_else() -> None:
    url = "postgresql://me:secret@127.0.0.1:1/foryou"
    said = failed("import", str(ROOT / "samples" / "dartpost"), FORYOU_POSTGRES_URL=url)
    assert said.startswith("foryou: Postgres cannot be reached at 127.0.0.1:1: run the same")
    assert len(said.splitlines()) == 1


def test_weights_lint_names_what_is_hardly_meant(tmp_path: Path) -> None:
    file = tmp_path / "weights.toml"
    file.write_text("[good]\n[odd.author]\nfloor = 1\n")
    told = CliRunner().invoke(foryou, ["weights", "lint", str(file), "--json"])
    assert told.exit_code == 1
    documents = json.loads(told.output)
    assert documents["good"]["findings"] == []
    assert documents["odd"]["findings"] == ["author.floor is 1: author.decay moves nothing"]
    good = CliRunner().invoke(foryou, ["weights", "lint", str(file), "--profile", "good"])
    assert good.exit_code == 0 and "nothing to say" in good.output
    assert "has no [best]" in failed("weights", "lint", str(file), "--profile", "best")
    file.write_text("[default.author]\nrun = 0\n")
    assert "between 1 and 1000" in failed("weights", "lint", str(file))


def test_ours_have_nothing_to_be_said_of() -> None:
    ours = CliRunner().invoke(foryou, ["weights", "lint", str(ROOT / "mixer" / "profiles.toml")])
    assert ours.exit_code == 0, ours.output


def test_serve_refuses_a_taken_port_in_one_sentence() -> None:
    environ = {
        "FORYOU_POSTGRES_URL": "postgresql://db/foryou",
        "FORYOU_REDIS_URL": "redis://cache/0",
        "FORYOU_CURSOR_KEYS": "a secret of sixteen bytes or more",
        "FORYOU_AUTH": "dev",
    }
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = failed("serve", "--port", str(taken.getsockname()[1]), **environ)
    assert len(said.splitlines()) == 1 and "--port PORT" in said


def test_a_folder_with_other_things_does_not_become_a_data_folder(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(Misconfigured, match="holds something else"), open_data_folder(tmp_path):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_empty_folder_becomes_one_and_stays_one(tmp_path: Path) -> None:
    for _ in range(2):
        with open_data_folder(tmp_path) as folder:
            folder.write("samples", "unwanted")


@pytest.mark.parametrize(
    "settings", [Settings(), Settings(auth="dev", cursor_keys="k" * 16, profile="best")]
)
def test_up_refuses_settings_that_a_part_would_refuse(settings: Settings) -> None:
    refuse_unfit(Settings(auth="dev", cursor_keys="k" * 16))
    with pytest.raises(Misconfigured):
        refuse_unfit(settings)


def test_parts_inherit_no_server_from_the_environment_of_up() -> None:
    environ = environ_of(Settings(redis_url="redis://a:1/0"))
    assert environ["FORYOU_REDIS_URL"] == "redis://a:1/0" and environ["FORYOU_QUEUE_URL"] == ""


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
