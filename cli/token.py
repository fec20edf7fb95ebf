"""`foryou token`: makes a JWT, to try a service that runs with FORYOU_AUTH=jwt."""

import time
from pathlib import Path

import click
import jwt

from cli.entry import settings_with
from feed.errors import Misconfigured
from feed.settings import Settings


def make_token(key: str, *, algorithm: str, user: int, scope: str, expires_at: int) -> str:
    """Sign who is asking and what they may do; `expires_at` in epoch seconds."""
    claims = {"sub": str(user), "exp": expires_at, **({"scope": scope} if scope else {})}
    return jwt.encode(claims, key, algorithm=algorithm)


def _signing_key(settings: Settings, private_key: Path | None) -> str:
    if settings.jwt_algorithm != "HS256":
        if private_key is None:
            raise Misconfigured(
                f"FORYOU_JWT_ALGORITHM is {settings.jwt_algorithm}, and the service holds only the "
                "public key: pass the private one with --private-key FILE."
            )
        return private_key.read_text()
    if not settings.jwt_key:
        raise Misconfigured("FORYOU_JWT_KEY is not set: set it to the secret of the service.")
    return settings.jwt_key


@click.command()
@click.argument("user", type=click.IntRange(1, 2**63 - 1))
@click.option("--scope", default="", help="Space-separated: admin, ingest.")
@click.option("--hours", default=1.0, show_default=True, help="How long it is valid.")
@click.option("--private-key", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def token(user: int, scope: str, hours: float, private_key: Path | None) -> None:
    """Make a JWT for USER and print it.

    \b
    Example:
      export FORYOU_JWT_KEY=…
      curl -H "Authorization: Bearer $(foryou token 42 --scope ingest)" \\
           http://127.0.0.1:8000/api/v1/feed
    """
    settings = settings_with()
    key = _signing_key(settings, private_key)
    expires_at = int(time.time() + hours * 3600)
    signed = make_token(
        key, algorithm=settings.jwt_algorithm, user=user, scope=scope, expires_at=expires_at
    )
    click.echo(signed)
