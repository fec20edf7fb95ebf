"""The supervisor: parts come back, end when told, and never outlive it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.data_folder import _LOG_BYTES, open_data_folder
from cli.processes import Program
from cli.supervisor import Supervisor

ROOT = Path(__file__).parents[2]
SLEEP = ("/bin/sleep", "600")


def program(folder: Path, *command: str, name: str = "part") -> Program:
    return Program(name=name, command=command or SLEEP, folder=folder)


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path("/proc", str(pid), "status").read_text()


def test_a_part_that_is_killed_is_started_again_and_this_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    with Supervisor(tmp_path, say=said.append) as supervisor:
        part = supervisor.add(program(tmp_path))
        before = part.process.pid
        part.process.kill()

        def is_back() -> bool:
            supervisor.tick()
            return supervisor.pids()["part"] != before

        eventually(is_back)
    assert said == ["part was killed by signal 9, starting it again in 0.2 s"]


def test_what_a_dying_part_said_last_is_passed_on(tmp_path: Path) -> None:
    said: list[str] = []
    with Supervisor(tmp_path, say=said.append) as supervisor:
        supervisor.add(program(tmp_path, "/bin/sh", "-c", "echo no more; exit 3"))

        def is_told() -> bool:
            supervisor.tick()
            return bool(said)

        eventually(is_told)
    assert said == ["part ended with code 3, starting it again in 0.2 s; it last said: no more"]


def test_a_part_that_does_not_end_when_told_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cli.supervisor._STOP_S", 0.3)
    with Supervisor(tmp_path, say=lambda text: None) as supervisor:
        deaf = "trap '' TERM; echo deaf; while :; do sleep 0.1; done"
        part = supervisor.add(program(tmp_path, "/bin/sh", "-c", deaf))
        eventually(lambda: "deaf" in part.log.read_text())
    assert part.process.returncode == -signal.SIGKILL


def test_parts_do_not_outlive_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from tests.integration.test_supervisor import Supervisor, program\n"
        "folder = Path(sys.argv[1])\n"
        "part = Supervisor(folder, say=print).add(program(folder))\n"
        "print(part.process.pid, flush=True); time.sleep(600)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout
        pid = int(supervisor.stdout.readline())
        eventually(lambda: b"sleep" in Path("/proc", str(pid), "cmdline").read_bytes())
        supervisor.kill()
        eventually(lambda: not is_alive(pid))


def test_a_long_log_is_moved_aside_while_its_writer_goes_on(tmp_path: Path) -> None:
    with open_data_folder(tmp_path) as folder:
        log = folder.logs / "part.log"
        with log.open("ab") as writer:
            writer.truncate(_LOG_BYTES + 1)
            folder.shorten_logs()
            writer.write(b"on we go")
        assert log.read_bytes() == b"on we go"
        assert (folder.logs / "part.log.1").stat().st_size == _LOG_BYTES + 1
