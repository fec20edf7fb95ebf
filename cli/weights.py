"""`foryou weights`: looks a file of ranking profiles over before it goes into force."""

import json
import sys
from pathlib import Path

import click

from feed.errors import Misconfigured
from feed.profile import lint, read_profiles


@click.group()
def weights() -> None:
    """Look over files of ranking profiles (mixer/profiles.toml is ours).

    \b
    Example:
      foryou weights lint weights.toml
    """


@weights.command("lint")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--profile", help="Only the profile of this name.")
@click.option("--json", "as_json", is_flag=True, help="The answer as one line of JSON.")
def lint_command(*, file: Path, profile: str | None, as_json: bool) -> None:
    """Name what FILE says wrongly, or hardly means; exits 1 when there is anything.

    \b
    Example:
      foryou weights lint weights.toml
      foryou weights lint weights.toml --profile calm --json
    """
    try:
        profiles = read_profiles(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{file} cannot be read: {error}.") from None
    if profile is not None and profile not in profiles:
        raise Misconfigured(f"{file} has no [{profile}], but {', '.join(profiles)}.")
    names = [profile] if profile is not None else list(profiles)
    found = {name: lint(profiles[name]) for name in names}
    if as_json:
        documents = {
            name: {"version": profiles[name].version, "findings": said}
            for name, said in found.items()
        }
        click.echo(json.dumps(documents))
    else:
        for name, said in found.items():
            click.echo(f"{profiles[name].version}: {'; '.join(said) or 'nothing to say'}")
    if any(found.values()):
        sys.exit(1)
