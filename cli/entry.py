"""What every entry point does first: read the settings, and refuse those it cannot run with."""

import ipaddress
import os
from typing import Any

from feed.errors import Misconfigured
from feed.settings import Settings, read_settings
from snapshots.cursor import MIN_KEY_BYTES

AS_UP = "( set -a; . ./.foryou/environment; foryou COMMAND )"
"""How a shell runs a command on what `foryou up` runs, without keeping its settings."""

_NEEDED_FOR = {
    "postgres_url": "e.g. postgresql://foryou@db.internal:5432/foryou, or run the command as "
    f"{AS_UP} to reach what `foryou up` runs",
    "redis_url": "e.g. redis://cache.internal:6379/0",
    "cursor_keys": f"a secret of {MIN_KEY_BYTES} bytes or more, the same on every node "
    "(python3 -c 'import secrets; print(secrets.token_urlsafe(48))')",
}


def settings_with(*needed: str, **overrides: Any) -> Settings:
    """Read the settings from the environment; options of the command line win.

    Raises:
        Misconfigured: One cannot be read, or one of `needed` is not set.
    """
    settings = read_settings(os.environ, **overrides)
    for name in needed:
        if not getattr(settings, name):
            raise Misconfigured(f"FORYOU_{name.upper()} is not set: set it, {_NEEDED_FOR[name]}")
    return settings


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach a server that listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name, or empty for every interface


def refuse_open_door(settings: Settings, host: str) -> None:
    """Refuse to let the network in where callers are believed without proof.

    Raises:
        Misconfigured: FORYOU_AUTH is `dev` and `host` is not loopback.
    """
    if settings.auth == "dev" and not is_loopback(host):
        raise Misconfigured(
            f"FORYOU_AUTH=dev believes whatever a caller says, so it listens on loopback only, not "
            f"on {host!r}: use --host 127.0.0.1, or set FORYOU_AUTH to jwt, or to header behind a "
            "gateway that you trust."
        )
