"""`foryou train`: from a past to a judged model, without a server, and the same again."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.main import foryou
from feed.errors import Invalid, Misconfigured
from feed.settings import Settings
from rankers.features import schema_hash
from tests.slates import slates
from training.dataset import read, write
from training.evaluate import MAIN
from training.fit import Fitting
from training.history import read_history
from training.past_dataset import past_dataset
from training.trial import fit

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples"
DARTPOST, SE_QUANTUM = SAMPLES / "dartpost", SAMPLES / "se_quantum"
FEW_DATA: tuple[str, ...] = (
    "--rounds",
    "80",
    "--patience",
    "0",
    "--leaves",
    "7",
    "--learning-rate",
    "0.05",
)
FEW_DATA += ("--least-rows", "200", "--valid-share", "0.1", "--test-share", "0.4", "--threads", "1")
HEADS = ("--rounds", "9", "--kind", "heads", "--threads", "1")
MUST_BEAT = {"chronological", "popularity", "engagement_decay", "affinity_decay"}


def run(*arguments: str | Path) -> str:
    done = CliRunner().invoke(foryou, ["train", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train") / "data"
    told = json.loads(run("history", DARTPOST, "--out", folder, "--json"))
    assert told["rows"] == 208_905 and told["engagements_out_of_reach"] == 151
    return folder


@pytest.fixture(scope="module")
def fitted(data: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        run("fit", data, "--out", data.parent / "model", *FEW_DATA, "--json")
    )
    return found


def test_the_heavy_ranker_beats_what_costs_nothing(fitted: dict[str, Any]) -> None:
    assert set(fitted["beaten"]) >= MUST_BEAT
    assert all(fitted["lift"][name]["low"] > 0 for name in MUST_BEAT)
    assert fitted["rankers"]["model"]["ndcg@10"]["mean"] > 0.22


def test_so_it_does_where_questions_are_answered() -> None:
    past = read_history(SE_QUANTUM)
    rows = past_dataset(past, settings=Settings(candidates=60))  # 500 take a minute, and say so too
    trial = fit(rows, "lambdarank", Fitting(threads=1), shares=(0.1, 0.4), created_at="")
    assert set(trial.found.beaten) >= MUST_BEAT
    assert trial.found.rankers["model"][MAIN].mean > 0.55


def test_judging_again_says_the_same(data: Path, fitted: dict[str, Any]) -> None:
    again = json.loads(run("evaluate", data, "--model", data.parent / "model", "--json"))
    assert again == fitted
    assert "model is higher by" in run("evaluate", data, "--model", data.parent / "model")


def test_the_report_stands_for_itself(data: Path, fitted: dict[str, Any]) -> None:
    page = data.parent / "report.html"
    run("report", data, "--model", data.parent / "model", "--out", page)
    text = page.read_text(encoding="utf-8")
    assert fitted["version"] in text and text.count("data:image/svg+xml;base64,") == 7
    assert "http://" not in text and "https://" not in text and "<script" not in text
    for title in ("Lift", "Calibration", "What it looks at", "Position bias", "Slices", "Drift"):
        assert title.lower() in text.lower()
    assert "dead: always unknown" in text  # impressions were never counted in this past


def test_the_same_command_writes_the_same_model(tmp_path: Path) -> None:
    write(tmp_path / "data", known())
    for name in ("one", "two"):
        run("fit", tmp_path / "data", "--out", tmp_path / name, *HEADS)
    texts = [(tmp_path / name / "model.txt").read_bytes() for name in ("one", "two")]
    assert texts[0] == texts[1]
    with pytest.raises(Misconfigured, match="already holds"):
        run("fit", tmp_path / "data", "--out", tmp_path / "two", *HEADS)
    page = tmp_path / "report.html"
    run("report", tmp_path / "data", "--model", tmp_path / "one", "--out", page)
    assert "clicked" in page.read_text(encoding="utf-8")


def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path: Path) -> None:
    write(tmp_path / "data", known())
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "training_notebook.py", tmp_path / "data"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "small beats" in done.stdout and "and adds" in done.stdout


def known() -> Any:
    """Make slates whose features have the names of ours."""
    made = slates(500, features=("affinity", "likes", "comments", "age_h"))
    return replace(made, about=replace(made.about, schema_hash=schema_hash(made.about.features)))


def test_what_another_version_made_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "data", slates(100, features=("affinity", "likes", "comments", "age_h")))
    done = CliRunner().invoke(
        foryou, ["train", "fit", str(tmp_path / "data"), "--out", str(tmp_path / "model")]
    )
    assert isinstance(done.exception, Invalid) and "meant something else" in str(done.exception)


def test_a_model_is_judged_on_what_came_later_only(data: Path, fitted: dict[str, Any]) -> None:
    model = json.loads((data.parent / "model" / "manifest.json").read_text())
    later = read(data)
    before = later.take_queries(later.opened_ms < model["window"]["test_from_ms"])
    write(data.parent / "before", before)
    done = CliRunner().invoke(
        foryou,
        ["train", "evaluate", str(data.parent / "before"), "--model", str(data.parent / "model")],
    )
    assert isinstance(done.exception, Invalid) and "nothing later" in str(done.exception)


@pytest.mark.parametrize("missing", ["pyarrow", "lightgbm"])
def test_without_the_extra_a_sentence_says_what_to_install(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "data", known())
    for name in [each for each in sys.modules if each.partition(".")[0] == missing]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, missing, None)
    done = CliRunner().invoke(
        foryou, ["train", "fit", str(tmp_path / "data"), "--out", str(tmp_path / "model")]
    )
    assert isinstance(done.exception, Misconfigured)
    assert f"needs {missing}" in str(done.exception)
    assert "pip install 'foryou[train]'" in str(done.exception)
