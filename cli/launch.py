"""Becomes another program that dies with its parent; run as a script by `cli.processes`.

Usage: launch.py PARENT_PID DEATH_SIGNAL USER|- PROGRAM [ARGUMENT...]

A process of its own instead of a `preexec_fn`, which is unsafe beside threads. It imports the
standard library only and ends in `exec`, so the process id is that of the program.
"""

import ctypes
import os
import pwd
import sys

PR_SET_PDEATHSIG = 1


def drop_to(user: str) -> None:
    """Become a system user for good, with its own groups and a home it may enter."""
    entry = pwd.getpwnam(user)
    os.initgroups(user, entry.pw_gid)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    os.environ.update(HOME="/", USER=user, LOGNAME=user)


def die_with(parent_pid: int, death_signal: int) -> None:
    """Ask the kernel for a signal when the parent ends; Linux only, elsewhere nothing happens."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != parent_pid:  # it ended before we asked
        sys.exit(1)


def main(parent_pid: str, death_signal: str, user: str, *command: str) -> None:
    """Drop rights first: a change of user forgets the death signal."""
    if user != "-":
        drop_to(user)
    die_with(int(parent_pid), int(death_signal))
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
