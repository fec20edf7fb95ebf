"""Every error of the service, in one tree; the api turns them into problem documents.

ForYouError
├── Unauthenticated       401  nobody is named, or the proof is bad
├── NotAllowed            403  known, but may not
├── NotFound              404  no such thing, or not for this viewer
├── Conflict              409  contradicts what is stored
├── Invalid               422  the request itself is wrong
├── CursorInvalid         400  forged, truncated, foreign or from another version
│   └── CursorModeMismatch     not the mode that was requested at the open
├── Unavailable           503  the truth, or a safety check, could not be reached
└── Misconfigured              an entry point refuses to start; the message says what to do
"""


class ForYouError(Exception):
    """Any error this service raises on purpose; its text is fit for a user to read."""

    code = "internal"
    status = 500


class Unauthenticated(ForYouError):
    """The request does not say, or does not prove, who is asking."""

    code = "unauthenticated"
    status = 401


class NotAllowed(ForYouError):
    """Who is asking is known, and may not do this."""

    code = "forbidden"
    status = 403


class NotFound(ForYouError):
    """There is no such thing, or this viewer may not know that there is."""

    code = "not_found"
    status = 404


class Conflict(ForYouError):
    """The request contradicts what is stored."""

    code = "conflict"
    status = 409


class Invalid(ForYouError):
    """The request is well-formed and wrong; the text says what would be right."""

    code = "invalid"
    status = 422


class CursorInvalid(ForYouError):
    """The cursor is not one that this service gave to this viewer."""

    code = "cursor_invalid"
    status = 400


class CursorModeMismatch(CursorInvalid):
    """The mode asked for is not the one that was requested when this feed was opened."""

    code = "cursor_mode_mismatch"


class Unavailable(ForYouError):
    """Something this answer depends on cannot be reached; trying again may help."""

    code = "unavailable"
    status = 503


class Misconfigured(ForYouError):
    """An entry point refuses to start with these settings; the text says what to do."""
