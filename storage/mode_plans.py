"""Plans a change of what decides modes: what it makes different, and for whom.

Whom it moves is staged in temporary tables, from which the dry run counts (`storage.mode_counts`)
and the change is made (`storage.mode_changes`), in the same transaction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from feed.errors import Conflict, Invalid
from feed.mode import ModeRules
from feed.query import Mode
from storage.connections import Connection

NAMED_USERS = 1_000  # named one by one in an answer and in an audit row; beyond, counted
MAX_COHORTS = 200


@dataclass(frozen=True)
class CohortChange:
    """What becomes of one cohort; None is as it was."""

    mode: Mode | None = None
    members: Sequence[int] | None = None  # exactly these
    add: Sequence[int] = ()
    remove: Sequence[int] = ()

    @property
    def joining(self) -> Sequence[int]:
        """Who shall be in it."""
        return [*(self.members or ()), *self.add]


@dataclass(frozen=True)
class ModeChange:
    """What shall be different; whatever is not named stays. None removes a cohort, an override."""

    rules: Mapping[str, Any] = field(default_factory=dict)  # fields of `ModeRules`
    cohorts: Mapping[str, CohortChange | None] = field(default_factory=dict)
    overrides: Mapping[int, Mode | None] = field(default_factory=dict)


Places = dict[int, tuple[str, bool]]
"""The cohort that each named user joins (True) or leaves (False)."""


class Unknown(NamedTuple):
    """Users named by a change who do not exist, or no longer: they are left out."""

    n: int
    first: list[int]


@dataclass(frozen=True)
class ModePlan:
    """What a change would do: rules and cohorts before and after; users are staged."""

    version: int
    rules: tuple[ModeRules, ModeRules]
    cohorts: tuple[dict[str, Mode], dict[str, Mode]]
    unknown: Unknown


_RULES = """
SELECT version, default_mode, kill_switch, allow_request, ranked_percent, holdout_percent
  FROM rollouts
"""
_COHORTS = "SELECT name, feed_mode FROM cohorts ORDER BY name"


async def plan_change(
    connection: Connection, change: ModeChange, *, version: int | None, lock: bool
) -> ModePlan:
    """Stage a change in this transaction; `version` None: whatever the version is now.

    Raises:
        Conflict: It was planned for another version.
        Invalid: It contradicts itself, or a new cohort has no mode.
    """
    query = _RULES + " FOR UPDATE" if lock else _RULES
    row = await (await connection.execute(query)).fetchone()
    assert row is not None  # the migration made the only row
    if version not in (None, row[0]):
        raise Conflict(f"The modes have version {row[0]} by now, not {version}: read them again.")
    rules = ModeRules(*row[1:])
    cohorts: dict[str, Mode] = dict(await (await connection.execute(_COHORTS)).fetchall())
    after = _cohorts_after(cohorts, change)
    places = _places(change)
    await _stage(connection, change, places)
    return ModePlan(
        version=row[0],
        rules=(rules, replace(rules, **change.rules)),
        cohorts=(cohorts, after),
        unknown=await _unknown(connection, change, places),
    )


def _cohorts_after(before: dict[str, Mode], change: ModeChange) -> dict[str, Mode]:
    after = dict(before)
    for name, cohort in change.cohorts.items():
        if cohort is None:
            after.pop(name, None)
        elif mode := cohort.mode or before.get(name):
            after[name] = mode
        else:
            raise Invalid(f"The cohort {name!r} is new: give its mode.")
    if len(after) > MAX_COHORTS:
        raise Invalid(f"There can be at most {MAX_COHORTS} cohorts.")
    return after


# Temporary tables take no parameters, and are gone with the transaction.
_TABLES = """
CREATE TEMP TABLE cohort_moves (user_id bigint, before text, after text) ON COMMIT DROP;
CREATE TEMP TABLE override_moves (user_id bigint, before text, after text) ON COMMIT DROP;
"""
_STAGE_COHORTS = """
WITH given AS (
    SELECT * FROM unnest(%(users)s::bigint[], %(cohorts)s::text[], %(joins)s::boolean[])
        AS g (user_id, cohort, joins)
), held AS (
    SELECT user_id, cohort FROM cohort_members WHERE cohort = ANY(%(emptied)s::text[])
    UNION
    SELECT user_id, cohort FROM cohort_members WHERE user_id = ANY(%(users)s::bigint[])
), moved AS (
    SELECT user_id, held.cohort AS before,
           CASE WHEN given.joins THEN given.cohort
                WHEN held.cohort = given.cohort OR held.cohort = ANY(%(emptied)s::text[]) THEN NULL
                ELSE held.cohort END AS after
      FROM held FULL JOIN given USING (user_id)
)
INSERT INTO cohort_moves
SELECT user_id, before, after FROM moved
 WHERE before IS DISTINCT FROM after
   AND (after IS NULL OR EXISTS (
           SELECT FROM users u WHERE u.id = moved.user_id AND u.deleted_at IS NULL))
"""
_STAGE_OVERRIDES = """
INSERT INTO override_moves
SELECT u.id, u.mode_override, given.mode
  FROM unnest(%s::bigint[], %s::text[]) AS given (user_id, mode)
  JOIN users u ON u.id = given.user_id AND u.deleted_at IS NULL
 WHERE u.mode_override IS DISTINCT FROM given.mode
"""


async def _stage(connection: Connection, change: ModeChange, places: Places) -> None:
    emptied = [
        name
        for name, cohort in change.cohorts.items()
        if cohort is None or cohort.members is not None
    ]
    values = {
        "users": list(places),
        "cohorts": [cohort for cohort, _ in places.values()],
        "joins": [joins for _, joins in places.values()],
        "emptied": emptied,
    }
    await connection.execute(_TABLES)
    await connection.execute(_STAGE_COHORTS, values)
    overrides = change.overrides
    await connection.execute(_STAGE_OVERRIDES, [list(overrides), list(overrides.values())])


def _places(change: ModeChange) -> Places:
    places: Places = {}
    for name, cohort in change.cohorts.items():
        for joins, users in ((True, cohort.joining), (False, cohort.remove)) if cohort else ():
            for user_id in users:
                if places.setdefault(user_id, (name, joins)) != (name, joins):
                    raise Invalid(f"User {user_id} is named twice: in a cohort, or to leave one.")
    return places


_UNKNOWN = """
SELECT count(*), coalesce((array_agg(given.id ORDER BY given.id))[1:10], '{}')
  FROM unnest(%s::bigint[]) AS given (id)
  LEFT JOIN users u ON u.id = given.id AND u.deleted_at IS NULL
 WHERE u.id IS NULL
"""


async def _unknown(connection: Connection, change: ModeChange, places: Places) -> Unknown:
    joining = {user_id for user_id, (_, joins) in places.items() if joins}
    named = joining | {user_id for user_id, mode in change.overrides.items() if mode}
    row = await (await connection.execute(_UNKNOWN, [list(named)])).fetchone()
    return Unknown(*row) if row else Unknown(0, [])


_MOVES = {
    "members": "SELECT user_id, before, after FROM cohort_moves ORDER BY user_id LIMIT %s",
    "overrides": "SELECT user_id, before, after FROM override_moves ORDER BY user_id LIMIT %s",
}
_N_MOVES = "SELECT (SELECT count(*) FROM cohort_moves), (SELECT count(*) FROM override_moves)"


async def difference_of(connection: Connection, plan: ModePlan) -> dict[str, Any]:
    """Return what the planned change makes different, before and after; empty: nothing.

    `members` (user to cohort) and `overrides` (user to mode) name the first users by id; how many
    there are is in `n_members` and `n_overrides`.
    """
    before, after = _differing(asdict(plan.rules[0]), asdict(plan.rules[1]))
    cohorts = _differing(plan.cohorts[0], plan.cohorts[1])
    if cohorts[0]:
        before["cohorts"], after["cohorts"] = cohorts
    for kind, query in _MOVES.items():
        rows = await (await connection.execute(query, [NAMED_USERS])).fetchall()
        if rows:
            before[kind] = {str(user_id): was for user_id, was, _ in rows}
            after[kind] = {str(user_id): becomes for user_id, _, becomes in rows}
    counted = await (await connection.execute(_N_MOVES)).fetchone()
    n_members, n_overrides = counted or (0, 0)
    if not before:
        return {}
    return {
        "before": before, "after": after, "n_members": n_members, "n_overrides": n_overrides,
    }  # fmt: skip


def _differing(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return {name: before.get(name) for name in names}, {name: after.get(name) for name in names}
