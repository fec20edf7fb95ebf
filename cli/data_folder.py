"""The folder in which `foryou up` keeps everything: servers' data, logs, secrets, one lock."""

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from feed.errors import Misconfigured

_LOG_BYTES = 20_000_000
"""A log larger than this is moved aside; one old copy is kept."""


@dataclass(frozen=True)
class DataFolder:
    """An open data folder, held by this process alone.

    ```
    lock            held while `foryou up` runs; says who and where
    running.json    addresses and process ids, as --json prints them
    environment     FORYOU_* lines for other commands; secret
    cursor.secret   signs cursors; postgres.secret is the server's password
    samples         "loading" or "loaded"
    postgres/ valkey/ logs/
    ```
    """

    path: Path

    @property
    def logs(self) -> Path:
        """Where each part's log lies."""
        return self.path / "logs"

    def secret(self, name: str) -> str:
        """Read a secret, made at random the first time, readable by nobody else."""
        file = self.path / f"{name}.secret"
        if not file.exists():
            self.write(file.name, secrets.token_urlsafe(48))
        return file.read_text().strip()

    def write(self, name: str, text: str) -> None:
        """Replace a file whole, readable by nobody else."""
        new = self.path / f"{name}.new"
        new.unlink(missing_ok=True)
        new.touch(mode=0o600)
        new.write_text(f"{text}\n")
        new.rename(self.path / name)

    def read(self, name: str) -> str:
        """Read a small file; empty when there is none."""
        file = self.path / name
        return file.read_text().strip() if file.exists() else ""

    def shorten_logs(self) -> None:
        """Move large logs aside; their writers append, so one can be emptied in place."""
        for log in self.logs.glob("*.log"):
            if log.stat().st_size > _LOG_BYTES:
                shutil.copyfile(log, log.with_suffix(".log.1"))
                os.truncate(log, 0)


@contextmanager
def open_data_folder(path: Path) -> Iterator[DataFolder]:
    """Make the folder if absent and hold it.

    Raises:
        Misconfigured: It may not be written, holds something else, or another `foryou up` has it.
    """
    folder = DataFolder(path.resolve())
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        _refuse_foreign(folder.path)
        lock = (folder.path / "lock").open("a+")
        folder.logs.mkdir(exist_ok=True)
    except OSError as error:
        raise Misconfigured(
            f"The data folder {folder.path} cannot be written ({error.strerror}): choose another "
            "with --data DIR, or change its owner."
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Misconfigured(_already_running(folder)) from None
        try:
            yield folder
        finally:
            (folder.path / "running.json").unlink(missing_ok=True)


def _refuse_foreign(path: Path) -> None:
    """Refuse a folder with things in it that were never ours: the lock is always made first."""
    if not (path / "lock").exists() and any(path.iterdir()):
        raise Misconfigured(
            f"{path} holds something else and was never a data folder of foryou: choose a new or "
            "an empty one with --data DIR."
        )


def _already_running(folder: DataFolder) -> str:
    try:
        address = f" at {json.loads(folder.read('running.json'))['address']}"
    except (ValueError, KeyError):
        address = ""
    return (
        f"Another foryou up uses {folder.path}{address}: use that one, stop it with Ctrl-C, or "
        "start a second one with --data DIR --port PORT."
    )
