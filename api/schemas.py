"""What requests and answers look like; unknown fields of a request are refused."""

import re
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    model_validator,
)

from api.parameters import Id, Text, Time, time_text
from storage.authored import Post
from storage.page import PostRow

BODY_MAX = 10_000
MEDIA_MAX = 10
URL = re.compile(r"https?://[^\s<>\"\\]+", re.IGNORECASE)
INT4_MAX = 2**31 - 1

Format = Literal["text", "image", "video", "link"]
EventType = Literal[
    "impression", "click", "dwell", "like", "unlike", "comment", "share", "not_interested",
    "report",
]  # fmt: skip


class Request(BaseModel):
    """A part of a request."""

    model_config = ConfigDict(extra="forbid")


def _trimmed_body(text: str) -> str:
    text = text.strip()
    if len(text) > BODY_MAX:
        raise ValueError(f"a body has at most {BODY_MAX} characters, this one has {len(text)}")
    return text


def _trimmed_name(text: str) -> str:
    text = text.strip()
    if not 0 < len(text) <= 100:
        raise ValueError("a name has 1 to 100 characters")
    return text


def _web_address(text: str) -> str:
    if len(text) > 2_000 or not URL.fullmatch(text):
        raise ValueError("a url begins with http:// or https:// and has at most 2,000 characters")
    return text


Body = Annotated[Text, AfterValidator(_trimmed_body)]
Name = Annotated[Text, AfterValidator(_trimmed_name)]
Url = Annotated[Text, AfterValidator(_web_address)]
Lang = Annotated[str, Field(pattern=r"^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}$")]


class Media(Request):
    """One thing to look at beside the text."""

    url: Url
    alt: Annotated[Text, Field(max_length=1_000)] | None = None


class PostFields(Request):
    """What a post is made of."""

    body: Body = ""
    format: Format | None = None
    media: Annotated[list[Media], Field(max_length=MEDIA_MAX)] = []
    lang: Lang | None = None
    repost_of: Id | None = None
    reply_to: Id | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "PostFields":
        if not self.body and not self.media and self.repost_of is None:
            raise ValueError("a post without a body needs media or repost_of")
        return self

    @property
    def kind_of_format(self) -> Format:
        """The format given, or what the media suggest."""
        return self.format or ("image" if self.media else "text")

    @property
    def is_plain_repost(self) -> bool:
        """Whether it shows another post and adds nothing of its own."""
        return self.repost_of is not None and not self.body and not self.media

    @property
    def media_rows(self) -> list[dict[str, Any]]:
        """The media as they are stored."""
        return [each.model_dump(exclude_none=True) for each in self.media]


class PostEdit(Request):
    """A new body."""

    body: Body


class Mute(Request):
    """How long a mute lasts; without `until`, until it is undone."""

    until: Time | None = None


class Preferences(Request):
    """The viewer's own choice of mode."""

    feed_mode: Literal["ranked", "chronological", "default"]


class Discovery(Request):
    """Whether those who do not follow an author may be shown the author's posts."""

    discoverable: StrictBool


class UserFields(Request):
    """What a user is called."""

    name: Name


class EventFields(Request):
    """One thing that a viewer did."""

    event_id: UUID
    type: EventType
    post_id: Id
    at: Time
    snapshot_id: Annotated[Text, Field(max_length=100)] | None = None
    position: Annotated[StrictInt, Field(ge=0, le=INT4_MAX)] | None = None
    dwell_ms: Annotated[StrictInt, Field(ge=0, le=INT4_MAX)] | None = None


class EventBatch(Request):
    """Up to 500 events, each judged on its own: a bad one never costs the others."""

    events: Annotated[list[Any], Field(max_length=500)]


class UserLine(Request):
    """An ingested user."""

    kind: Literal["user"]
    id: Id
    name: Name


class PostLine(PostFields):
    """An ingested post; the product may bring its id and its time."""

    kind: Literal["post"]
    author_id: Id
    id: Id | None = None
    created_at: Time | None = None


class EdgeLine(Request):
    """An ingested follow or unfollow."""

    kind: Literal["follow", "unfollow"]
    follower_id: Id
    followee_id: Id

    @model_validator(mode="after")
    def _two_people(self) -> "EdgeLine":
        if self.follower_id == self.followee_id:
            raise ValueError("nobody follows themselves")
        return self


class DeleteLine(Request):
    """An ingested delete."""

    kind: Literal["delete"]
    post_id: Id


class EventLine(EventFields):
    """An ingested event."""

    kind: Literal["event"]
    viewer_id: Id


Line = Annotated[
    UserLine | PostLine | EdgeLine | DeleteLine | EventLine, Field(discriminator="kind")
]


def post_document(post: Post | PostRow) -> dict[str, Any]:
    """Write a post as every answer shows it; a feed item adds how it came to be shown."""
    return {
        "id": str(post.id),
        "author": {"id": str(post.author_id), "name": post.author_name},
        "body": post.body,
        "format": post.format,
        "media": post.media,
        "lang": post.lang,
        "created_at": time_text(post.created_at),
        "edited_at": time_text(post.edited_at) if post.edited_at else None,
        "repost_of": str(post.repost_of) if post.repost_of else None,
        "reply_to": str(post.reply_to) if post.reply_to else None,
        "counts": {
            # A count is folded in the background; an undo that is ahead must not show as -1.
            "likes": max(0, post.likes),
            "comments": max(0, post.comments),
            "reposts": max(0, post.reposts),
        },
        "viewer": {"liked": post.liked, "seen": post.seen},
    }
