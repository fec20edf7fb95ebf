"""What a result was measured on: commit, CPU and versions."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.servers import Servers
from storage.servers import postgres_facts, redis_facts

PACKAGES = ("numpy", "psycopg", "redis", "hiredis", "uvicorn", "starlette", "fastapi", "orjson")
OFFLINE = ("numpy", "lightgbm")


async def machine(servers: Servers | None = None) -> dict[str, Any]:
    """Say where a result comes from, so that two of them can be compared, or not.

    Without servers it was measured in this process alone.
    """
    return {
        "commit": commit(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "load_1_min": round(os.getloadavg()[0], 1),  # much above what we use: a noisy machine
        "versions": {
            "python": platform.python_version(),
            **(await _servers(servers) if servers else {}),
            **{package: version(package) for package in (PACKAGES if servers else OFFLINE)},
        },
    }


async def _servers(servers: Servers) -> dict[str, Any]:
    postgres = await postgres_facts(servers.postgres_url)
    redis = await redis_facts(servers.redis_url)
    return {"postgres": postgres.major, redis.name: redis.version}


def commit() -> str:
    """Name the commit that is measured, "+" when files differ from it; "" outside a clone."""
    root = Path(__file__).parents[1]
    head = _git(root, "rev-parse", "--short=12", "HEAD")
    # Kept results and the page about them change what is said, not what is measured.
    measured = ("--", ".", ":!benchmarks/results", ":!docs")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", *measured)
    return f"{head}+" if head and changed else head


def cpu() -> str:
    """Name the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
