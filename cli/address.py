"""Where a service listens: whether we may, whether it is ready, what a user would see there."""

import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any

from feed.errors import Misconfigured

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


@dataclass(frozen=True)
class Address:
    """A host and a port; asked through `http.client`, which ignores proxies of the environment."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address to open, reachable from this machine."""
        host = _EVERYWHERE.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def get(self, path: str, headers: Mapping[str, str]) -> tuple[int, Any]:
        """Get JSON; status 0 when nothing answers."""
        host = _EVERYWHERE.get(self.host, self.host)
        connection = HTTPConnection(host, self.port, timeout=5)
        try:
            connection.request("GET", path, headers=dict(headers))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        except (OSError, HTTPException, ValueError):
            return 0, None
        finally:
            connection.close()


def is_ready(address: Address) -> bool:
    """Say whether the service takes requests, with everything it needs."""
    status, body = address.get("/readyz", {})
    return status == 200 and not (isinstance(body, dict) and body.get("degraded"))


def serves_feed(address: Address, headers: Mapping[str, str]) -> bool:
    """Say whether a ranked feed comes from its cached list, no longer from a rebuild."""
    status, body = address.get("/api/v1/feed?mode=ranked&limit=3", headers)
    return status == 200 and body.get("state") != "building"


def await_free(address: Address) -> None:
    """Make sure that we may listen there; a moment's patience for a predecessor that was killed.

    Raises:
        Misconfigured: The address is taken, reserved, or not one of this machine.
    """
    until = time.monotonic() + 2.0
    while (problem := _bind(address)) is not None:
        if time.monotonic() > until:
            raise Misconfigured(
                f"Cannot listen on {address.host}:{address.port} ({problem.strerror}): choose "
                "another with --port PORT (0 takes any free one) or --host HOST."
            )
        time.sleep(0.1)


def _bind(address: Address) -> OSError | None:
    try:
        family, kind, _, _, place = socket.getaddrinfo(
            address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        return error
    return None
