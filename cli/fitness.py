"""Asks every part whether it would start with these settings, before any of them is started."""

from api.auth import identify_with
from feed.settings import Settings
from mixer.profiles import Profiles
from snapshots.cursor import cursor_keys


def refuse_unfit(settings: Settings) -> None:
    """Make the checks that the parts of `foryou up` make when they start.

    Raises:
        Misconfigured: One of them would refuse, in its words.
    """
    identify_with(settings)
    cursor_keys(settings)
    Profiles(settings.profiles, settings.profile, clock=lambda: 0.0)
