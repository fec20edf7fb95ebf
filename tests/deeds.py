"""What takes posts from a reader's feed, as calls over HTTP, and how each is given back."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple
from uuid import uuid4

Takes = Literal["post", "author", "own"]
"""One post and its reposts; or an author's posts and all reposts of them; or only the former."""


class Scene(NamedTuple):
    """Who is to be kept from what: ids."""

    reader: int
    author: int
    post: int


class Call(NamedTuple):
    """One request: its body is None when it has none."""

    method: str
    path: str
    user: int
    body: Any = None


@dataclass(frozen=True)
class Deed:
    """One way to take something from a reader, and to give it back.

    `event` is the type of the event that the deed reports, when it is one.
    """

    name: str
    by: Literal["reader", "author"]
    takes: Takes
    does: tuple[str, str]
    undoes: tuple[str, str]
    event: str = ""

    def done(self, scene: Scene) -> Call:
        """Return the call that does it."""
        return self._call(self.does, scene, self.event and _event(self.event, scene.post))

    def undone(self, scene: Scene) -> Call:
        """Return the call that undoes it."""
        return self._call(self.undoes, scene, None)

    def _call(self, request: tuple[str, str], scene: Scene, body: Any) -> Call:
        method, path = request
        user = scene.reader if self.by == "reader" else scene.author
        return Call(method, path.format(**scene._asdict()), user, body or None)


def _event(kind: str, post: int) -> dict[str, Any]:
    at = datetime.now(UTC).isoformat()
    return {"events": [{"event_id": str(uuid4()), "type": kind, "post_id": str(post), "at": at}]}


_EVENTS = ("POST", "/events")
_DELETE, _RESTORE = ("DELETE", "/posts/{post}"), ("POST", "/posts/{post}/restore")
_HIDE, _UNHIDE = ("PUT", "/hidden/{post}"), ("DELETE", "/hidden/{post}")
_MUTE, _UNMUTE = ("PUT", "/mutes/{author}"), ("DELETE", "/mutes/{author}")
_BLOCK, _UNBLOCK = ("PUT", "/blocks/{author}"), ("DELETE", "/blocks/{author}")
_BE_BLOCKED, _BE_UNBLOCKED = ("PUT", "/blocks/{reader}"), ("DELETE", "/blocks/{reader}")
_UNFOLLOW, _FOLLOW = ("DELETE", "/follows/{author}"), ("PUT", "/follows/{author}")

DEEDS = (
    Deed("delete", "author", "post", _DELETE, _RESTORE),
    Deed("hide", "reader", "post", _HIDE, _UNHIDE),
    Deed("not_interested", "reader", "post", _EVENTS, _UNHIDE, event="not_interested"),
    Deed("report", "reader", "post", _EVENTS, _UNHIDE, event="report"),
    Deed("mute", "reader", "author", _MUTE, _UNMUTE),
    Deed("block", "reader", "author", _BLOCK, _UNBLOCK),
    Deed("be_blocked", "author", "author", _BE_BLOCKED, _BE_UNBLOCKED),
    Deed("unfollow", "reader", "own", _UNFOLLOW, _FOLLOW),
)
