"""Query hydration: what is known of the viewer who asks."""

from typing import Protocol

from feed.query import Viewer


class ViewerReader(Protocol):
    """Where viewers are loaded (`storage.facts.PostgresViewers`)."""

    async def load(self, viewer_id: int) -> Viewer:
        """Load what is known of a viewer; an unknown viewer follows nobody."""
        ...
