"""What requests to change modes look like, and what is answered to them."""

from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field, StrictBool, StrictInt, StringConstraints

from api.parameters import Id, Text, time_text
from api.schemas import Request
from feed.query import Mode
from storage.mode_counts import ModeCounts
from storage.mode_plans import CohortChange, ModeChange, ModePlan
from storage.modes import Modes

USERS_MAX = 100_000  # in one list of one request; more by several
RULES = ("default_mode", "kill_switch", "allow_request", "rollout_percent", "holdout_percent")

CohortName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Percent = Annotated[StrictInt, Field(ge=0, le=100)]
Users = Annotated[list[Id], Field(max_length=USERS_MAX)]
Why = Annotated[Text, Field(max_length=500)]
Version = Annotated[int, Field(ge=1)]


class Reasoned(Request):
    """What every change may carry: why it is made, and for which version it was thought out."""

    why: Why | None = None
    version: Version | None = None


class CohortFields(Request):
    """A cohort; what is left out stays. `members` are exactly these, `add` and `remove` some."""

    mode: Mode | None = None
    members: Users | None = None
    add: Users = Field(default_factory=list)
    remove: Users = Field(default_factory=list)
    n_members: int | None = None  # as it was read; not written

    @property
    def change(self) -> CohortChange:
        """What becomes of the cohort."""
        return CohortChange(self.mode, self.members, self.add, self.remove)


class CohortPut(CohortFields, Reasoned):
    """One cohort, with the reason."""


class OverridePut(Reasoned):
    """The mode that an admin chooses for one user."""

    mode: Mode


class ModesPut(Reasoned):
    """Everything; what is left out stays. null ends a switch, a rollout, a cohort, an override."""

    default_mode: Mode = "ranked"
    kill_switch: Mode | None = None
    allow_request: StrictBool = True
    rollout_percent: Percent | None = None
    holdout_percent: Percent = 0
    cohorts: dict[CohortName, CohortFields | None] = Field(default_factory=dict)
    overrides: Annotated[dict[Id, Mode | None], Field(max_length=USERS_MAX)] | None = None
    n_overrides: int | None = None  # as it was read; not written
    updated_at: str | None = None  # as it was read; not written

    @property
    def change(self) -> ModeChange:
        """What shall be different."""
        return ModeChange(
            rules={name: getattr(self, name) for name in RULES if name in self.model_fields_set},
            cohorts={
                name: cohort.change if cohort else None for name, cohort in self.cohorts.items()
            },
            overrides=self.overrides or {},
        )


def modes_document(modes: Modes) -> dict[str, Any]:
    """Write all that decides modes, so that it can be edited and put back."""
    overrides = modes.overrides
    return {
        "version": modes.version,
        "updated_at": time_text(modes.updated_at),
        **asdict(modes.rules),
        "cohorts": {
            name: {
                "mode": cohort.mode,
                "n_members": cohort.n_members,
                "members": None if cohort.members is None else [str(id) for id in cohort.members],
            }
            for name, cohort in modes.cohorts.items()
        },
        "n_overrides": modes.n_overrides,
        "overrides": None
        if overrides is None
        else {str(id): mode for id, mode in overrides.items()},
    }


def change_document(plan: ModePlan, difference: dict[str, Any]) -> dict[str, Any]:
    """Write what a change makes different, and which users it could not find."""
    nothing = {"before": {}, "after": {}, "n_members": 0, "n_overrides": 0}
    unknown = {"n": plan.unknown.n, "first": [str(id) for id in plan.unknown.first]}
    return {**(difference or nothing), "unknown_users": unknown}


def counts_document(counts: ModeCounts) -> dict[str, Any]:
    """Write how many users a change moves, most first, and what everybody has afterwards."""
    return {
        "n_users": counts.n_users,
        "n_changed": sum(counts.changes.values()),
        "changes": [
            {"from": before, "to": after, "n": n}
            for (before, after), n in sorted(counts.changes.items())
        ],
        "outcome": [
            {"mode": mode, "reason": reason, "n": n}
            for (mode, reason), n in sorted(counts.outcome.items())
        ],
    }
