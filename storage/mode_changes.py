"""Makes a planned change of what decides modes, all or nothing, and notes it in the audit."""

from dataclasses import asdict
from typing import Any

from storage.audit import append_audit
from storage.connections import Connection
from storage.mode_plans import ModePlan

ACTION = "modes.changed"

_BUMP = """
UPDATE rollouts SET default_mode = %(default_mode)s, kill_switch = %(kill_switch)s,
       allow_request = %(allow_request)s, ranked_percent = %(rollout_percent)s,
       holdout_percent = %(holdout_percent)s, version = version + 1, updated_at = now()
"""
_PUT_COHORTS = """
INSERT INTO cohorts AS c (name, feed_mode) SELECT * FROM unnest(%s::text[], %s::text[])
    ON CONFLICT (name) DO UPDATE SET feed_mode = excluded.feed_mode
"""
_LEAVE = """
DELETE FROM cohort_members m USING cohort_moves v WHERE m.user_id = v.user_id AND v.after IS NULL
"""
# The lock waits for a deletion of the account under way, which then leaves nothing to join.
_JOIN = """
WITH alive AS (
    SELECT u.id, v.after FROM cohort_moves v
      JOIN users u ON u.id = v.user_id AND u.deleted_at IS NULL
     WHERE v.after IS NOT NULL ORDER BY u.id FOR SHARE OF u
)
INSERT INTO cohort_members (user_id, cohort) SELECT id, after FROM alive
    ON CONFLICT (user_id) DO UPDATE SET cohort = excluded.cohort
"""
_DROP_COHORTS = "DELETE FROM cohorts WHERE NOT name = ANY(%s)"
_OVERRIDE = """
UPDATE users u SET mode_override = v.after FROM override_moves v
 WHERE u.id = v.user_id AND u.deleted_at IS NULL
"""


async def make_change(
    connection: Connection,
    plan: ModePlan,
    difference: dict[str, Any],
    *,
    actor: str,
    why: str | None,
) -> int:
    """Make the change that was planned under a lock in this transaction; return its audit row."""
    rules, cohorts = plan.rules[1], plan.cohorts[1]
    await connection.execute(_BUMP, asdict(rules))
    await connection.execute(_PUT_COHORTS, [list(cohorts), list(cohorts.values())])
    await connection.execute(_LEAVE)
    await connection.execute(_JOIN)
    await connection.execute(_DROP_COHORTS, [list(cohorts)])
    await connection.execute(_OVERRIDE)
    detail = {**difference, "why": why, "version": plan.version + 1}
    return await append_audit(connection, actor=actor, action=ACTION, detail=detail)
