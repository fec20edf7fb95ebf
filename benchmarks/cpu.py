"""CPU time of processes: what a unit of work costs, however busy the machine is with others."""

import os
from pathlib import Path

from storage.connections import RedisClient


def cpu_s(pid: int) -> float:
    """Return the CPU seconds a process has used; NaN where there is no /proc to say so."""
    stat = Path("/proc", str(pid), "stat")
    if not stat.exists():
        return float("nan")
    # The name in parentheses may hold spaces; fields 14 and 15 of proc(5) are ticks.
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


async def server_cpu_s(redis: RedisClient) -> float:
    """Return the CPU seconds a Redis or Valkey server has used."""
    said = await redis.info("cpu")
    return float(said["used_cpu_user"] + said["used_cpu_sys"])
