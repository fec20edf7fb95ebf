"""The dry run counts exactly whose mode changes, in a few statements for any number of users."""

from random import Random
from typing import Any

import pytest

from feed.mode import ModeRules, decide_mode
from feed.query import Mode
from storage.connections import Connection, Postgres
from storage.mode_changes import make_change
from storage.mode_counts import ModeCounts, count_modes
from storage.mode_plans import CohortChange, ModeChange, difference_of, plan_change
from storage.modes import INPUTS, load_mode_inputs
from tests.integration.test_plans import nodes

pytestmark = pytest.mark.anyio

MODES: tuple[Mode, Mode] = ("ranked", "chronological")
MAYBE: tuple[Mode | None, ...] = (None, *MODES)
N_USERS, COHORTS = 120, ("a", "b", "c")
PEOPLE = """
INSERT INTO users (id, name, feed_mode, deleted_at)
SELECT n, 'u' || n, CASE WHEN n %% 10 = 1 THEN 'ranked' WHEN n %% 10 = 2 THEN 'chronological' END,
       CASE WHEN n %% 25 = 0 THEN now() END
  FROM generate_series(1, %s) AS n
"""


def invented(rng: Random) -> ModeChange:
    """Invent a change of anything, deleted and unknown users included."""
    users = rng.sample(range(1, N_USERS + 20), 60)
    rules: dict[str, Any] = {
        "default_mode": rng.choice(MODES),
        "kill_switch": rng.choice((None, None, None, None, *MODES)),
        "rollout_percent": rng.choice((None, 0, 1, 30, 50, 99, 100)),
        "holdout_percent": rng.choice((0, 0, 10, 50, 100)),
        "allow_request": rng.random() < 0.5,
    }
    cohorts: dict[str, CohortChange | None] = {}
    for name in rng.sample(COHORTS, 2):
        some, others = [users.pop() for _ in range(15)], [users.pop() for _ in range(10)]
        cohorts[name] = rng.choice(
            (
                None,
                CohortChange(rng.choice(MODES), members=some),
                CohortChange(rng.choice(MODES), members=some, add=others),
                CohortChange(rng.choice(MODES), add=some, remove=others),
                CohortChange(rng.choice(MODES)),
            )
        )
    return ModeChange(
        rules={name: rules[name] for name in rng.sample(list(rules), rng.randrange(4))},
        cohorts=cohorts if rng.random() < 0.7 else {},
        overrides={user: rng.choice(MAYBE) for user in users},
    )


async def everyone(connection: Connection) -> dict[int, tuple[str, str]]:
    """Decide for each living user, one by one."""
    living = "SELECT id FROM users WHERE deleted_at IS NULL"
    decided = {}
    for (user_id,) in await (await connection.execute(living)).fetchall():
        rules, choices = await load_mode_inputs(connection, user_id)
        decided[user_id] = decide_mode(rules, choices, user_id=user_id, requested=None)
    return decided


async def dry_run(postgres: Postgres, change: ModeChange) -> ModeCounts:
    async with postgres.transaction() as connection:
        plan = await plan_change(connection, change, version=None, lock=False)
        return await count_modes(connection, plan)


async def make(postgres: Postgres, change: ModeChange) -> dict[str, Any]:
    async with postgres.transaction() as connection:
        plan = await plan_change(connection, change, version=None, lock=True)
        difference = await difference_of(connection, plan)
        if difference:
            await make_change(connection, plan, difference, actor="1", why=None)
    return difference


async def test_the_dry_run_of_any_change_counts_what_the_change_then_does(
    postgres: Postgres,
) -> None:
    """25 changes after one another, each user decided one by one before and after."""
    rng = Random(11)
    moved = 0
    async with postgres.connection() as connection:
        await connection.execute(PEOPLE, [N_USERS])
        before = await everyone(connection)
        for _ in range(25):
            change = invented(rng)
            counted = await dry_run(postgres, change)
            assert await everyone(connection) == before
            await make(postgres, change)
            after = await everyone(connection)
            changes: dict[tuple[str, str], int] = {}
            outcome: dict[tuple[str, str], int] = {}
            for user, (mode, reason) in after.items():
                outcome[mode, reason] = outcome.get((mode, reason), 0) + 1
                if before[user][0] != mode:
                    pair = before[user][0], mode
                    changes[pair] = changes.get(pair, 0) + 1
            assert counted == ModeCounts(len(after), changes, outcome)  # type: ignore[arg-type]
            moved += len(changes)
            before = after
    assert moved > 20


async def test_a_deleted_account_is_never_a_member_nor_overridden(postgres: Postgres) -> None:
    """Whatever is asked, nothing of an account comes back after its deletion."""
    async with postgres.connection() as connection:
        await connection.execute(PEOPLE, [50])
    everybody = list(range(1, 60))
    change = ModeChange(
        cohorts={"a": CohortChange("ranked", members=everybody)},
        overrides=dict.fromkeys(everybody, "chronological"),
    )
    difference = await make(postgres, change)
    assert (difference["n_members"], difference["n_overrides"]) == (48, 48)
    async with postgres.connection() as connection:
        rows = await connection.execute(
            "SELECT (SELECT count(*) FROM cohort_members WHERE user_id = 25 OR user_id >= 50),"
            " (SELECT count(*) FROM users WHERE deleted_at IS NOT NULL AND mode_override <> '')"
        )
        assert await rows.fetchone() == (0, 0)


MANY = 200_000
FILL = """
INSERT INTO cohorts VALUES ('even', 'ranked');
INSERT INTO users (id, name, feed_mode)
SELECT n, 'u', CASE WHEN n % 10 = 1 THEN 'chronological' END FROM generate_series(1, 200000) AS n;
INSERT INTO cohort_members SELECT n, 'even' FROM generate_series(2, 200000, 4) AS n;
ANALYZE users, cohort_members;
"""


async def test_200_000_users_are_counted_and_moved_in_a_few_statements(postgres: Postgres) -> None:
    """As many statements as for two users; the counts add up."""
    statements = []
    async with postgres.connection() as connection:
        await connection.execute(FILL)
    for n in (2, MANY):
        async with postgres.transaction() as connection:
            spied = Spy(connection)
            change = ModeChange(
                rules={"rollout_percent": 20, "holdout_percent": 5},
                cohorts={"even": None, "odd": CohortChange("chronological", add=range(1, n, 4))},
            )
            plan = await plan_change(spied, change, version=None, lock=False)  # type: ignore[arg-type]
            await difference_of(spied, plan)  # type: ignore[arg-type]
            counts = await count_modes(spied, plan)  # type: ignore[arg-type]
            statements.append(spied.n)
    assert statements[0] == statements[1] <= 10
    assert counts.n_users == MANY
    assert counts.outcome["chronological", "preference"] == MANY // 10
    # A user n in n % 4 = 1 is in the new cohort, unless n ends in 1 and has chosen.
    assert counts.outcome["chronological", "cohort"] == MANY // 4 - MANY // 20
    decided = counts.outcome["ranked", "rollout"] + counts.outcome["chronological", "rollout"]
    held_out = counts.outcome["chronological", "holdout"]
    assert decided + held_out == MANY - MANY // 10 - (MANY // 4 - MANY // 20)
    assert abs(held_out / (decided + held_out) - 0.05) < 0.005
    assert abs(counts.outcome["ranked", "rollout"] / decided - 0.2) < 0.01
    assert counts.changes.keys() == {("ranked", "chronological")}
    difference = await make(postgres, change)
    assert difference["n_members"] == MANY // 2
    assert len(difference["after"]["members"]) == 1_000
    async with postgres.connection() as connection:
        rules, choices = await load_mode_inputs(connection, 5)
    assert (rules.rollout_percent, choices.cohort) == (20, "chronological")


class Spy:
    """A connection that counts its statements."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.n = 0

    async def execute(self, *values: Any) -> Any:
        self.n += 1
        return await self._connection.execute(*values)


async def test_an_open_reads_its_rules_by_key(postgres: Postgres) -> None:
    """One query that touches one row of each table, however many users and members there are."""
    async with postgres.connection() as connection:
        await connection.execute(FILL)
        spied = Spy(connection)
        assert await load_mode_inputs(spied, 6) == (  # type: ignore[arg-type]
            ModeRules(),
            (await load_mode_inputs(connection, 6))[1],
        )
        assert spied.n == 1
        explained = await connection.execute("EXPLAIN (ANALYZE, FORMAT JSON)" + INPUTS, {"user": 6})
        row = await explained.fetchone()
        assert row is not None
        for node in nodes(row[0][0]["Plan"]):
            if node.get("Relation Name") in ("users", "cohort_members"):
                assert node["Node Type"].startswith("Index"), node
                assert node["Actual Rows"] <= 1
