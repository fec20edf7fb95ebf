"""Embedded servers: whole or absent, remembered, loopback only, many at once."""

import socket
from pathlib import Path

import psycopg
import pytest

from cli.data_folder import open_data_folder
from cli.embedded import embedded_postgres_server, embedded_valkey, is_free, postgres_program
from feed.errors import Misconfigured


def _port(url: str) -> int:
    return int(url.rsplit(":", 1)[1].split("/")[0])


def test_an_interrupted_first_start_is_made_good_and_the_data_and_port_are_kept(
    servers_folder: Path,
) -> None:
    folder = servers_folder / "interrupted"
    (folder / "postgres.new" / "base").mkdir(parents=True)
    with embedded_postgres_server(folder) as first, psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE kept ()")
    with embedded_postgres_server(folder) as again, psycopg.connect(again) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    assert again == first
    assert not (folder / "postgres.new").exists()
    assert is_free(_port(first))


def test_postgres_wants_its_password(postgres_server: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(postgres_server.replace("foryou:", "foryou:x"))


def test_a_folder_of_another_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    with pytest.raises(Misconfigured, match="move it away"):
        postgres_program(tmp_path)
    (tmp_path / "postgres" / "PG_VERSION").write_text("17\n")
    with pytest.raises(Misconfigured, match=r"written by Postgres 17.*--postgres URL"):
        postgres_program(tmp_path)


def test_a_port_that_was_taken_meanwhile_is_given_up(tmp_path: Path) -> None:
    with embedded_valkey(tmp_path) as first:
        pass
    with socket.create_server(("127.0.0.1", _port(first))), embedded_valkey(tmp_path) as second:
        assert second != first


def test_two_copies_run_side_by_side(tmp_path: Path) -> None:
    with embedded_valkey(tmp_path / "one") as one, embedded_valkey(tmp_path / "two") as two:
        assert one != two


def test_a_data_folder_has_one_holder_and_keeps_its_secrets(tmp_path: Path) -> None:
    with open_data_folder(tmp_path) as folder:
        secret = folder.secret("cursor")
        assert len(secret) >= 32
        assert (tmp_path / "cursor.secret").stat().st_mode & 0o077 == 0
        with pytest.raises(Misconfigured, match="Another foryou up"), open_data_folder(tmp_path):
            pass
    with open_data_folder(tmp_path) as folder:
        assert folder.secret("cursor") == secret


def test_a_data_folder_that_cannot_be_made_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(Misconfigured, match=r"cannot be written .*--data DIR"),
        open_data_folder(tmp_path / "file" / "data"),
    ):
        pass
