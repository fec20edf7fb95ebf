"""Asks every part whether it would start with these settings, before any of them is started."""

from api.auth import identify_with
from feed.settings import Settings
from rankers.light import light_ranker
from snapshots.cursor import cursor_keys


def refuse_unfit(settings: Settings) -> None:
    """Make the checks that the parts of `foryou up` make when they start.

    Raises:
        Misconfigured: One of them would refuse, in its words.
    """
    identify_with(settings)
    cursor_keys(settings)
    light_ranker(settings.light_ranker)
