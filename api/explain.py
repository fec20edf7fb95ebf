"""Says why a post stands where it does in a feed, or why it is not there."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from api.deadline import within
from api.deps import Asking, Wired, query_is
from api.parameters import Id, PathId, Text, time_of, time_text
from mixer.explain import Explanation
from snapshots.snapshot import Head

router = APIRouter(tags=["feed"])

SnapshotId = Annotated[
    Text, Query(alias="snapshot", max_length=100, description="`snapshot.id` of the feed")
]
OfUser = Annotated[Id, Query(description="Another viewer's feed, in full: needs `admin`")]


@router.get("/feed/explain/{post_id}", dependencies=[query_is("snapshot", "user_id")])
async def explain(
    post_id: PathId,
    caller: Asking,
    services: Wired,
    snapshot: SnapshotId,
    user_id: OfUser | None = None,
) -> dict[str, Any]:
    """Explain one post and one ranked feed of the caller's, as long as the feed can be scrolled.

    `not_available` is said of posts that do not exist and of those that the caller may not see,
    alike. With the scope `admin` and `user_id`, the whole truth is told of anybody's feed.
    """
    if user_id is None:
        reading = services.explain.to_viewer(caller.user_id, snapshot, post_id)
    else:
        caller.needs("admin")
        reading = services.explain.in_full(user_id, snapshot, post_id)
    told = await within(services.settings.budget_ms / 1000, reading)
    return explanation_document(told)


def explanation_document(told: Explanation) -> dict[str, Any]:
    """Write an explanation as the api and `foryou explain --json` give it; places are from 0."""
    return {
        "post_id": str(told.post_id),
        "snapshot": snapshot_document(told.head, told.size),
        "status": told.status,
        "because": told.because,
        "source": told.source,
        "position": told.position,
        "features": [each._asdict() for each in told.features],
        "score": {"light": told.light, "heavy": told.heavy, "final": told.final},
        "multipliers": [each._asdict() for each in told.multipliers],
        "moves": [
            {"rule": each.rule, "from": each.before, "to": each.after} for each in told.moves
        ],
    }


def snapshot_document(head: Head, size: int) -> dict[str, Any]:
    """Write what a snapshot says of itself, as every answer that names one shows it."""
    return {
        "id": head.id,
        "created_at": time_text(time_of(head.created_ms)),
        "ranker": head.ranker,
        "model_version": head.model,
        "weights_version": head.weights,
        "size": size,
    }
