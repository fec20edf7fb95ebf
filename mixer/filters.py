"""Relevance filters: they spare the ranker rows that the page query would refuse anyway."""

import numpy as np

from feed.candidates import Candidates
from feed.chain import Chain
from feed.order import Mask, among
from feed.query import Query


class Deleted:
    """Drops posts that are gone (the hydrator found no author)."""

    name = "deleted"

    def keep(self, query: Query, candidates: Candidates) -> Mask:
        """Return a mask (n,) of the posts that exist."""
        return np.asarray(candidates["author"] != 0)


class HiddenAuthors:
    """Drops authors that the viewer blocked or muted, or who blocked the viewer."""

    name = "hidden_authors"

    def keep(self, query: Query, candidates: Candidates) -> Mask:
        """Return a mask (n,) of the posts by other authors."""
        return ~among(candidates["author"], query.viewer.hidden_authors)


class Unfollowed:
    """Drops posts of authors who are not followed any more; discoveries are of others anyway."""

    name = "unfollowed"

    def keep(self, query: Query, candidates: Candidates) -> Mask:
        """Return a mask (n,) of the posts by followees and by the viewer, and of discoveries."""
        followed = among(candidates["author"], query.viewer.authors)
        return np.asarray(followed | candidates["out_of_network"])


class Doubles:
    """Drops discoveries whose original somebody in the network posted or reposted."""

    name = "doubles"

    def keep(self, query: Query, candidates: Candidates) -> Mask:
        """Return a mask (n,) of what is in-network, or to be found there nowhere."""
        outside, originals = candidates["out_of_network"], candidates["original"]
        if not outside.any():
            return ~outside
        return np.asarray(~outside | ~np.isin(originals, originals[~outside]))


class NotServed:
    """Drops what a chain of cursors was served: the rows, and other posts of what they showed."""

    name = "not_served"

    def __init__(self, chain: Chain) -> None:
        """Drop what is in `chain`."""
        self._chain = chain

    def keep(self, query: Query, candidates: Candidates) -> Mask:
        """Return a mask (n,) of what is new to this chain; works without hydrated columns too."""
        if not len(self._chain):
            return np.ones(len(candidates), dtype=np.bool_)
        shows = candidates.columns.get("original", candidates.ids)
        served = np.isin(candidates.ids, self._chain.ids)
        return np.asarray(~(served | np.isin(shows, self._chain.originals)))
