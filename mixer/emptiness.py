"""Says why a feed has nothing to show, as the truth has it: nobody is left with "no posts"."""

from feed.candidates import Gaps
from feed.order import OLDEST
from mixer.page import EmptyBecause
from mixer.viewers import ViewerReader
from storage.timelines import PostgresTimelines


class Emptiness:
    """Finds the reason after the fact, so that it costs nothing where there is something."""

    def __init__(self, viewers: ViewerReader, timelines: PostgresTimelines) -> None:
        """Read from the truth."""
        self._viewers = viewers
        self._timelines = timelines

    async def reason(self, viewer_id: int) -> EmptyBecause:
        """Return why nothing of what the viewer follows, or wrote, can be shown.

        Raises:
            Unavailable: The truth cannot be reached.
        """
        viewer = await self._viewers.load(viewer_id)
        everybody = Gaps.everywhere(viewer.authors)
        ids, _ = await self._timelines.newest_posts(everybody, OLDEST, 1)
        if len(ids):
            return "all_filtered"
        return "no_posts" if len(viewer.followees) else "no_follows"
