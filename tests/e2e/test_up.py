"""`foryou up`: what it prints, what it survives, what it leaves behind, what it refuses."""

import os
import signal
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.product import Product, eventually, is_alive, run

pytestmark = pytest.mark.e2e

PROGRAMS = {
    "postgres": b"postgres",
    "valkey": b"valkey-server",
    "relay": b"relay",
    "worker-fast": b"fast",
    "worker-slow": b"slow",
    "api": b"serve",
}


def test_it_serves_a_ranked_feed_of_a_sample_user_page_after_page(product: Product) -> None:
    assert len(product.info["users"]) == 3
    for user in product.info["users"]:
        first = next(product.pages(user, "ranked"))
        assert first["mode"] == "ranked" and first["snapshot"]["size"] > 0
        ranked, chronological = (_feed(product, user, mode) for mode in ("ranked", "chronological"))
        assert len(ranked) == len({item["id"] for item in ranked})
        # Ranked shows an original once, however many reposted it; chronological what was posted.
        assert len(ranked) == len({_original(item) for item in ranked})
        followed = {_original(item) for item in ranked if item["in_network"]}
        assert followed == {_original(item) for item in chronological}


def _feed(product: Product, user: str, mode: str) -> list[dict[str, Any]]:
    return [item for page in product.pages(user, mode) for item in page["items"]]


def _original(item: dict[str, Any]) -> str:
    is_repost = item["repost_of"] and not item["body"]  # with words of its own it is a quote
    return str(item["repost_of"] if is_repost else item["id"])


def test_it_names_the_real_process_of_every_part(product: Product) -> None:
    for name, pid in product.pids().items():
        assert PROGRAMS[name] in Path("/proc", str(pid), "cmdline").read_bytes()
    assert set(product.pids()) == set(PROGRAMS)


def test_its_secrets_are_readable_by_nobody_else(product: Product) -> None:
    secrets = [*product.data.glob("*.secret"), product.data / "environment"]
    assert len(secrets) == 3
    assert all(file.stat().st_mode & 0o077 == 0 for file in secrets)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_part_that_is_killed_comes_back_and_feeds_are_served_again(
    product: Product, name: str
) -> None:
    killed = product.pids()[name]
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: product.pids()[name] != killed)
    eventually(lambda: _serves(product))


def _serves(product: Product) -> bool:
    try:
        answer = product.call("GET", "/feed", product.info["users"][0], params={"mode": "ranked"})
    except httpx.TransportError:
        return False
    return answer.status_code == 200 and bool(answer.json()["items"])


def test_a_second_one_on_the_same_folder_is_refused_in_one_sentence(product: Product) -> None:
    refused = run("up", "--data", str(product.data), "--port", "0")
    assert refused.returncode == 1
    assert len(refused.stderr.splitlines()) == 1
    assert product.info["address"] in refused.stderr and "--data DIR" in refused.stderr


def test_a_taken_port_is_refused_in_one_sentence(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run("up", "--data", str(folder / "data"), "--port", str(port))
    assert refused.returncode == 1
    assert len(refused.stderr.splitlines()) == 1 and "--port PORT" in refused.stderr


def test_dev_identity_is_refused_beyond_loopback(folder: Path) -> None:
    refused = run("up", "--data", str(folder / "data"), "--host", "0.0.0.0")
    assert refused.returncode == 1 and "loopback only" in refused.stderr


def test_without_sample_data_nobody_is_there_now_or_after_a_restart(folder: Path) -> None:
    for options in (["--no-sample"], []):
        with Product(folder / "data", *options) as product:
            assert product.info["users"] == []
    with Product(folder / "data") as product:
        assert product.call("PUT", "/users/1", 1, json={"name": "Ada"}).status_code == 201
        assert product.post(1, "the first") in product.walk(1, "ranked")


def test_postgres_that_is_no_postgres_is_refused_with_what_to_do(folder: Path) -> None:
    (folder / "data" / "postgres").mkdir(parents=True)
    (folder / "data" / "lock").touch()
    refused = run("up", "--data", str(folder / "data"), "--port", "0")
    assert refused.returncode == 1
    assert len(refused.stderr.splitlines()) == 1 and "move it away" in refused.stderr


def test_ctrl_c_leaves_no_process_and_the_next_start_goes_on_with_the_same_data(
    folder: Path,
) -> None:
    with Product(folder / "data") as first:
        author = first.info["users"][0]
        post = first.post(author, "kept")
        pids = first.pids()
        assert first.stop() < 10
    assert not any(is_alive(pid) for pid in pids.values())
    with Product(folder / "data") as second:
        assert second.info["users"] == first.info["users"]
        assert post in second.walk(author, "chronological")
        orphans = second.pids()
        second.process.kill()
        eventually(lambda: not any(is_alive(pid) for pid in orphans.values()))


def test_it_runs_on_servers_that_are_given_and_the_doctor_judges_them(
    folder: Path, database_url: str, redis_url: str
) -> None:
    with Product(folder / "data", "--postgres", database_url, "--redis", redis_url) as product:
        assert set(product.pids()) == {"relay", "worker-fast", "worker-slow", "api"}
        assert product.info["postgres_url"] == database_url
        assert product.walk(product.info["users"][0], "ranked")
    seen = run("doctor", FORYOU_POSTGRES_URL=database_url, FORYOU_REDIS_URL=redis_url)
    assert seen.returncode == 0, seen.stdout
    assert "queue on a server of its own" in seen.stdout and "FORYOU_QUEUE_URL" in seen.stdout


def test_a_server_that_is_not_there_is_named_without_its_password(folder: Path) -> None:
    url = "postgresql://me:secret@127.0.0.1:1/foryou"
    refused = run("up", "--data", str(folder / "data"), "--port", "0", "--postgres", url)
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1
    assert "127.0.0.1:1" in refused.stderr and "secret" not in refused.stderr


def test_a_redis_that_is_too_old_is_refused(folder: Path, database_url: str) -> None:
    with _old_redis() as url:
        options = ("--port", "0", "--postgres", database_url, "--redis", url)
        refused = run("up", "--data", str(folder / "data"), *options)
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1
    assert "redis 6.2.7; use Redis or Valkey 7 or newer" in refused.stderr


def test_settings_that_a_part_refuses_are_refused_before_anything_starts(folder: Path) -> None:
    refused = run("up", "--data", str(folder / "data"), "--port", "0", FORYOU_AUTH="jwt")
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1
    assert "FORYOU_JWT_KEY is empty" in refused.stderr
    assert not (folder / "data" / "postgres").exists()


@contextmanager
def _old_redis() -> Iterator[str]:
    """Answer every command as a Redis 6 answers INFO."""
    told = b"# Server\r\nredis_version:6.2.7\r\nrun_id:abc\r\n"

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while (head := self.rfile.readline()).startswith(b"*"):
                words = [self.rfile.readline() for _ in range(2 * int(head[1:]))]
                known = b"INFO" in words[1]
                self.wfile.write(b"$%d\r\n%s\r\n" % (len(told), told) if known else b"+OK\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"redis://127.0.0.1:{server.server_address[1]}/0"
        server.shutdown()
