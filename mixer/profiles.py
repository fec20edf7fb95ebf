"""The ranking profile in force, read again when its file changes."""

import logging
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from feed.errors import Misconfigured
from feed.profile import Profile, lint, read_profiles

log = logging.getLogger("foryou.profiles")

LOOK_EVERY_S = 1.0


class Profiles:
    """Holds one named profile of a file; a request takes it once and keeps it."""

    def __init__(self, path: str, name: str, *, clock: Callable[[], float]) -> None:
        """Read the profile `name` of the file at `path`, "" for ours; `clock` gives seconds.

        Raises:
            Misconfigured: There is no such file or profile, or it says nonsense.
        """
        self._path = Path(path) if path else Path(str(resources.files("mixer") / "profiles.toml"))
        self._name = name
        self._clock = clock
        self._looked_at = clock()
        self._written_ns = self._written()
        self._profile = self._read()

    def current(self) -> Profile:
        """Return the profile in force; the file is looked at once a second at most."""
        now_s = self._clock()
        if now_s - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now_s
            self._look()
        return self._profile

    def _look(self) -> None:
        """Read the file again if it was written; what cannot be read changes nothing."""
        try:
            written_ns = self._written()
            if written_ns == self._written_ns:
                return
            self._written_ns = written_ns
            self._profile = self._read()
        except Misconfigured as error:
            log.error("profile kept", extra={"version": self._profile.version, "error": str(error)})
            return
        log.info("profile in force", extra={"version": self._profile.version})

    def _written(self) -> int:
        try:
            return self._path.stat().st_mtime_ns
        except OSError as error:
            raise Misconfigured(f"FORYOU_PROFILES: {self._path}: {error.strerror}.") from error

    def _read(self) -> Profile:
        try:
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Misconfigured(f"FORYOU_PROFILES: {self._path} cannot be read: {error}.") from None
        profiles = read_profiles(text)
        if self._name not in profiles:
            raise Misconfigured(
                f"FORYOU_PROFILE: {self._path} has no [{self._name}], but {', '.join(profiles)}."
            )
        for sentence in lint(profiles[self._name]):
            log.warning("profile: %s", sentence)
        return profiles[self._name]
