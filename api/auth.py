"""Says who is asking: a signed token (jwt), or a header set by a trusted gateway (header, dev)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jwt

from feed.errors import Misconfigured, NotAllowed, Unauthenticated
from feed.order import MAX_ID
from feed.settings import Settings

HS256_KEY_BYTES = 32  # RFC 7518, section 3.2: no shorter than the hash
DECIMAL_ID = re.compile(r"[1-9][0-9]{0,18}")


@dataclass(frozen=True)
class Caller:
    """Who is asking, and what more than their own things they may touch."""

    user_id: int
    scopes: frozenset[str] = field(default_factory=frozenset)

    def needs(self, scope: str) -> None:
        """Refuse a caller without `scope`.

        Raises:
            NotAllowed: The caller does not have it.
        """
        if scope not in self.scopes:
            raise NotAllowed(f"This needs the scope {scope!r}.")

    def must_be(self, user_id: int, *, or_have: str) -> None:
        """Refuse a caller who is neither this user nor has the scope.

        Raises:
            NotAllowed: Neither holds.
        """
        if self.user_id != user_id:
            self.needs(or_have)


Identify = Callable[[Mapping[str, str]], Caller]
"""From the headers of a request to its caller; raises `Unauthenticated`."""


def identify_with(settings: Settings) -> Identify:
    """Choose the way of identification once, at start.

    Raises:
        Misconfigured: A key is missing, too short or not readable.
    """
    if settings.auth in ("dev", "header"):
        return from_header
    return _TokenReader(settings.jwt_algorithm, settings.jwt_key)


def from_header(headers: Mapping[str, str]) -> Caller:
    """Trust `X-User-Id` and `X-Scope`: a gateway has set them, or this is a loopback toy."""
    text = headers.get("x-user-id")
    if text is None:
        raise Unauthenticated("Say who is asking: X-User-Id is missing.")
    return Caller(_user_id(text), frozenset(headers.get("x-scope", "").split()))


class _TokenReader:
    """Checks tokens with one algorithm and one key, and nothing a token says about either."""

    def __init__(self, algorithm: str, key: str) -> None:
        self._algorithm = algorithm
        self._key = _checked_key(algorithm, key)

    def __call__(self, headers: Mapping[str, str]) -> Caller:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthenticated("Say who is asking: Authorization: Bearer <token>.")
        try:
            claims: dict[str, Any] = jwt.decode(
                token.strip(),
                self._key,
                algorithms=[self._algorithm],
                options={"require": ["exp", "sub"]},
            )
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise Unauthenticated("The token is not valid, or no longer.") from None
        scope = claims.get("scope", "")
        scopes = frozenset(scope.split()) if isinstance(scope, str) else frozenset[str]()
        return Caller(_user_id(str(claims["sub"])), scopes)


def _user_id(text: str) -> int:
    if not DECIMAL_ID.fullmatch(text) or int(text) > MAX_ID:
        raise Unauthenticated("The id of who is asking must be a positive 64-bit integer.")
    return int(text)


def _checked_key(algorithm: str, key: str) -> Any:
    if not key:
        raise Misconfigured("FORYOU_JWT_KEY is empty: set the HS256 secret or the public key.")
    if algorithm == "HS256" and len(key.encode()) < HS256_KEY_BYTES:
        raise Misconfigured(f"FORYOU_JWT_KEY must have {HS256_KEY_BYTES} bytes or more for HS256.")
    text = key if algorithm == "HS256" else key.replace("\\n", "\n")
    try:
        return jwt.get_algorithm_by_name(algorithm).prepare_key(text)
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise Misconfigured(
            f"FORYOU_JWT_KEY is not a key for {algorithm}; give the public key in PEM."
        ) from error
