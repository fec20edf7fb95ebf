"""The registry: models come in whole, pass the gate or overrule it, and go back as they came."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.models import models
from feed.errors import Conflict, ForYouError, Invalid, NotFound
from feed.settings import Settings
from rankers.artifact import Model, write
from storage.audit import newest_audit
from storage.connections import Postgres
from storage.models import Serving, model_row, model_rows, serving
from tests.fitted import lifts, ranker
from tests.integration.api_client import Client
from training.registry import By, Change, Refused, promote, register, retire, roll_back, shadow

pytestmark = pytest.mark.anyio

ADMIN = 9
BY = By("9", "because")


@pytest.fixture(scope="module")
def good() -> Model:
    return ranker(rounds=3)


@pytest.fixture(scope="module")
def better() -> Model:
    return ranker(rounds=4)


@pytest.fixture(scope="module")
def worse() -> Model:
    return ranker(rounds=2, metrics={"lift": lifts(chronological=-0.2)})


async def put(postgres: Postgres, *models: Model) -> None:
    for model in models:
        async with postgres.transaction() as connection:
            await register(connection, model, BY)


async def crowned(postgres: Postgres, model: Model, *, force: bool = False) -> Change:
    async with postgres.transaction() as connection:
        return await promote(connection, model.manifest.version, BY, force=force, deadline_s=10)


async def in_force(postgres: Postgres) -> Serving:
    async with postgres.connection() as connection:
        return await serving(connection)


async def test_a_model_ranks_and_the_way_back_is_the_way_it_came(
    postgres: Postgres, good: Model, better: Model
) -> None:
    await put(postgres, good, better)
    assert await in_force(postgres) == (None, None)
    first, second = good.manifest.version, better.manifest.version
    await crowned(postgres, good)
    await crowned(postgres, better, force=True)  # it was not compared with the first
    assert await in_force(postgres) == (second, None)
    async with postgres.transaction() as connection:
        assert (await retire(connection, second, BY)).before == second
    assert await in_force(postgres) == (None, None)
    for now in (second, first, None):
        async with postgres.transaction() as connection:
            assert (await roll_back(connection, BY)).version == now
        assert await in_force(postgres) == (now, None)
    with pytest.raises(Conflict, match="nothing to roll back"):
        async with postgres.transaction() as connection:
            await roll_back(connection, BY)
    async with postgres.connection() as connection:
        rows = await newest_audit(connection, n=20)
    actions = [row.action.removeprefix("models.") for row in rows]
    assert actions == [*["rolled_back"] * 3, "retired", *["promoted"] * 2, *["registered"] * 2]
    overruled = rows[4].detail["overruled"]
    assert (rows[4].actor, rows[4].detail["why"]) == ("9", "because")
    assert len(overruled) == 1 and "not compared with the champion" in overruled[0]


async def test_the_gate_refuses_and_is_overruled_only_with_a_reason(
    postgres: Postgres, worse: Model
) -> None:
    await put(postgres, worse)
    with pytest.raises(Refused) as refused:
        await crowned(postgres, worse)
    (reason,) = refused.value.reasons
    assert "does not beat chronological" in reason
    for why in (None, ""):
        with pytest.raises(Conflict, match="says why"):
            async with postgres.transaction() as connection:
                version = worse.manifest.version
                await promote(connection, version, By("9", why), force=True, deadline_s=10)
    assert await in_force(postgres) == (None, None)
    assert (await crowned(postgres, worse, force=True)).overruled == [reason]


async def test_one_shadow_at_a_time_and_never_the_champion(
    postgres: Postgres, good: Model, better: Model, worse: Model
) -> None:
    await put(postgres, good, better, worse)
    await crowned(postgres, good)
    for model in (better, worse):
        async with postgres.transaction() as connection:
            await shadow(connection, model.manifest.version, BY)
    assert await in_force(postgres) == (good.manifest.version, worse.manifest.version)
    with pytest.raises(Conflict, match="its own shadow"):
        async with postgres.transaction() as connection:
            await shadow(connection, good.manifest.version, BY)
    await crowned(postgres, worse, force=True)
    assert await in_force(postgres) == (worse.manifest.version, None)


async def test_what_was_altered_in_the_registry_is_not_even_forced(
    postgres: Postgres, good: Model
) -> None:
    await put(postgres, good)
    async with postgres.connection() as connection:
        await connection.execute("UPDATE models SET artifact = substr(artifact, 1, 900)")
    with pytest.raises(Invalid, match="truncated or altered"):
        await crowned(postgres, good, force=True)
    with pytest.raises(NotFound):
        async with postgres.transaction() as connection:
            await shadow(connection, "abc", BY)


async def test_a_model_is_registered_once_and_judged_again(postgres: Postgres, good: Model) -> None:
    await put(postgres, good, good)
    async with postgres.connection() as connection:
        (row,) = await model_rows(connection)
        assert row == await model_row(connection, good.manifest.version)
    assert row.manifest["golden_scores"] == list(good.manifest.golden_scores)


async def test_admins_do_it_over_http_and_nobody_else(
    api: Client, postgres: Postgres, good: Model, worse: Model
) -> None:
    await put(postgres, good, worse)
    version, bad = good.manifest.version, worse.manifest.version
    assert (await api.call("GET", "/admin/models", ADMIN)).status_code == 403
    assert (await api.call("POST", f"/admin/models/{version}/promote", ADMIN)).status_code == 403

    async def post(path: str, body: Any = None) -> Any:
        answer = await api.call("POST", f"/admin/models/{path}", ADMIN, body, scope="admin")
        return answer.status_code, answer.json()

    status, said = await post(f"{bad}/promote")
    assert status == 409 and "does not beat chronological" in said["detail"]
    assert (await post(f"{bad}/promote", {"force": True}))[0] == 409
    status, said = await post(f"{bad}/promote", {"force": True, "why": "a try"})
    assert (status, said["version"], said["before"]) == (200, bad, None)
    assert (await post(f"{version}/shadow"))[0] == 200
    listed = await api.call("GET", "/admin/models", ADMIN, scope="admin")
    states = {each["version"]: each["state"] for each in listed.json()["items"]}
    assert states == {bad: "champion", version: "shadow"}
    assert (await post("rollback", {"why": "it was one"}))[1]["version"] is None
    assert (await post("rollback"))[0] == 409
    assert (await post(f"{version}/retire"))[1]["action"] == "models.retired"
    assert (await post("abc/retire"))[0] == 404
    assert (await post(f"{version}/retire", {"because": "x"}))[0] == 422
    audited = await api.call("GET", "/admin/audit?action=models.promoted", ADMIN, scope="admin")
    assert audited.json()["items"][0]["actor"] == str(ADMIN)


def foryou(settings: Settings, *arguments: str) -> tuple[int, str]:
    environment = {"FORYOU_POSTGRES_URL": settings.postgres_url}
    done = CliRunner().invoke(models, list(arguments), env=environment)
    said = str(done.exception) if isinstance(done.exception, ForYouError) else done.output
    return done.exit_code, said


def test_the_command_line_says_the_same(settings: Settings, tmp_path: Path, worse: Model) -> None:
    write(tmp_path / "model", worse.manifest, worse.heads)
    version = worse.manifest.version
    assert foryou(settings, "list") == (0, "No model: the light ranker serves alone.\n")
    assert foryou(settings, "register", str(tmp_path / "model"))[1] == f"registered {version}\n"
    status, said = foryou(settings, "promote", version)
    assert status == 1 and "It does not beat chronological" in said
    status, said = foryou(settings, "promote", version, "--json")
    assert status == 1 and len(json.loads(said)["reasons"]) == 1
    status, said = foryou(settings, "promote", version, "--force", "--why", "a try")
    assert status == 0 and said.startswith(f"{version} ranks now, before it the light ranker")
    assert "overruled: It does not beat chronological" in said
    assert "champion" in foryou(settings, "list")[1]
    assert "beats          popularity by +0.070" in foryou(settings, "show", version)[1]
    rolled = foryou(settings, "rollback")
    assert rolled == (0, f"rolled back {version}: the light ranker alone ranks now\n")
