"""`foryou token`: makes a JWT, to try a service that runs with FORYOU_AUTH=jwt."""

import time
import warnings
from dataclasses import replace
from pathlib import Path

import click
import jwt

from api.auth import identify_with
from cli.entry import settings_with
from feed.errors import Misconfigured
from feed.settings import Settings


def make_token(key: str, *, algorithm: str, user: int, scope: str, expires_at: int) -> str:
    """Sign who is asking and what they may do; `expires_at` in epoch seconds."""
    claims = {"sub": str(user), "exp": expires_at, **({"scope": scope} if scope else {})}
    with warnings.catch_warnings():
        # Of a weak RSA key, which the service takes; one too short for HS256 was refused.
        warnings.simplefilter("ignore", jwt.InsecureKeyLengthWarning)
        return jwt.encode(claims, key, algorithm=algorithm)


def _signing_key(settings: Settings, private_key: Path | None) -> str:
    if settings.jwt_algorithm == "HS256":
        identify_with(replace(settings, auth="jwt"))  # refuses the key that the service refuses
        return settings.jwt_key
    if private_key is None:
        raise Misconfigured(
            f"FORYOU_JWT_ALGORITHM is {settings.jwt_algorithm}, and the service holds only the "
            "public key: pass the private one with --private-key FILE."
        )
    return _read_private_key(private_key, settings.jwt_algorithm)


def _read_private_key(file: Path, algorithm: str) -> str:
    try:
        text = file.read_text()
        key = jwt.get_algorithm_by_name(algorithm).prepare_key(text)
    except OSError as error:
        raise Misconfigured(f"{file} cannot be read ({error.strerror}).") from error
    except (jwt.PyJWTError, ValueError, TypeError):
        key = None
    if not hasattr(key, "sign"):
        raise Misconfigured(
            f"{file} is not a private key for {algorithm}; give one in PEM, without a passphrase."
        )
    return text


@click.command()
@click.argument("user", type=click.IntRange(1, 2**63 - 1))
@click.option("--scope", default="", help="Space-separated: admin, ingest.")
@click.option("--hours", default=1.0, show_default=True, help="How long it is valid.")
@click.option(
    "--private-key",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="PEM file to sign with, for RS256 and ES256; HS256 signs with FORYOU_JWT_KEY.",
)
def token(user: int, scope: str, hours: float, private_key: Path | None) -> None:
    """Make a JWT for USER and print it.

    \b
    Example (put your own secret for …):
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
