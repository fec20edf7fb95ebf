"""Says in plain words why an item is in a feed."""

from mixer.page import Item

ELSEWHERE = {
    "popular": "Popular right now",
    "network_likes": "Liked by people you follow",
}
NAMED = 2
"""Reposters who are named when there are more of them."""


def reason(item: Item, viewer_id: int) -> str:
    """Return one short phrase, without a full stop."""
    post = item.post
    if post.is_repost:
        return f"{_reposters(item, viewer_id)} reposted this"
    if post.author_id == viewer_id:
        return "Your own post"
    if not post.in_network and item.source in ELSEWHERE:
        return ELSEWHERE[item.source]
    return f"You follow {post.author_name}"


def _reposters(item: Item, viewer_id: int) -> str:
    """Name who reposted: the viewer first, the others newest first, each once."""
    reposts = item.reposted_by or (item.post,)
    by = {post.author_id: post.author_name for post in reposts}
    names = ["You"] if viewer_id in by else []
    names += [name for author_id, name in by.items() if author_id != viewer_id]
    if len(names) == 1:
        return names[0]
    if len(names) == NAMED:
        return f"{names[0]} and {names[1]}"
    n_others = len(names) - NAMED
    return f"{', '.join(names[:NAMED])} and {n_others} other{'s' if n_others > 1 else ''}"
