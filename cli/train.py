"""`foryou train`: makes data sets, fits a heavy ranker, judges it, and writes a report."""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import click

from cli.train_export import export_command, validate_command
from feed.errors import Misconfigured
from rankers.artifact import Kind, read, write
from training import dataset as datasets
from training.dataset import learnable
from training.evaluate import MAIN, Evaluation, document
from training.fit import Fitting
from training.history import read_history
from training.metrics import Interval
from training.past_dataset import past_dataset
from training.past_slates import Gathered
from training.report import report as written_report
from training.trial import Trial, judge_again, subject
from training.trial import fit as fitted

DEFAULT = Fitting()
Folder = click.Path(path_type=Path, exists=True, file_okay=False)
data_argument = click.argument("data", type=Folder)
json_option = click.option("--json", "as_json", is_flag=True, help="One line of JSON.")
seed_option = click.option(
    "--seed", default=DEFAULT.seed, show_default=True, type=int, help="Of every draw."
)


@click.group()
def train() -> None:
    """Fit and judge a heavy ranker (pip install 'foryou[train]').

    \b
    Example:
      foryou train history samples/dartpost --out data
      foryou train fit data --out model
      foryou train report data --model model --out report.html
    """


train.add_command(export_command)
train.add_command(validate_command)


@train.command("history")
@click.argument("folder", type=Folder)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder to write.")
@click.option(
    "--slates",
    type=click.Choice(get_args(Gathered)),
    default="public",
    show_default=True,
    help="Of everybody's newest posts, or of what our recipe gathers.",
)
@json_option
def history_command(*, folder: Path, out: Path, slates: Gathered, as_json: bool) -> None:
    """Make a data set of a past: the files that `foryou import` takes, in FOLDER.

    For a product that has a past and no log yet of what was served (docs/training.md says what a
    slate then is).

    \b
    Example:
      foryou train history samples/dartpost --out data
    """
    _refuse_used(out, datasets.ABOUT)
    made = past_dataset(read_history(folder), slates, _counting("slates"))
    datasets.write(out, made)
    counts = dict(made.about.counts)
    click.echo(json.dumps(counts) if as_json else "\n".join(_counted(counts)))


@train.command("fit")
@data_argument
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder to write.")
@click.option("--kind", type=click.Choice(get_args(Kind)), default="lambdarank", show_default=True)
@click.option("--rounds", default=DEFAULT.rounds, show_default=True, type=click.IntRange(1))
@click.option(
    "--patience",
    default=DEFAULT.patience,
    show_default=True,
    type=click.IntRange(0),
    help="Rounds without progress on the valid part until it ends; 0: all rounds.",
)
@click.option(
    "--learning-rate",
    default=DEFAULT.learning_rate,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
)
@click.option("--leaves", default=DEFAULT.leaves, show_default=True, type=click.IntRange(2, 4096))
@click.option(
    "--least-rows",
    default=DEFAULT.least_rows_in_leaf,
    show_default=True,
    type=click.IntRange(1),
    help="Rows in a leaf; more of them where data are few.",
)
@click.option("--debias", is_flag=True, help="Learn the bias of positions and take it out.")
@click.option("--valid-share", default=0.15, show_default=True, type=click.FloatRange(0.01, 0.5))
@click.option("--test-share", default=0.25, show_default=True, type=click.FloatRange(0.01, 0.8))
@click.option("--threads", default=0, show_default=True, type=click.IntRange(0), help="0: all.")
@seed_option
@json_option
def fit_command(
    *,
    data: Path,
    out: Path,
    kind: Kind,
    valid_share: float,
    test_share: float,
    least_rows: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Fit a ranker on DATA and write model.txt and manifest.json, judged on the latest part.

    The parts are split by time, with a gap of one label window. The same rows and options give the
    same model, byte for byte.

    \b
    Example:
      foryou train fit data --out model
      foryou train fit data --out model --kind heads
    """
    _refuse_used(out, "manifest.json")
    trial = fitted(
        learnable(datasets.read(data)),
        kind,
        Fitting(least_rows_in_leaf=least_rows, **options),
        shares=(valid_share, test_share),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        progress=_rounds(options["rounds"]),
    )
    write(out, trial.manifest, trial.model.heads)
    _say(trial, as_json=as_json)


@train.command("evaluate")
@data_argument
@click.option("--model", "folder", required=True, type=Folder, help="What fit has written.")
@seed_option
@json_option
def evaluate_command(*, data: Path, folder: Path, seed: int, as_json: bool) -> None:
    """Judge a model on what DATA has later than what it was fitted on.

    \b
    Example:
      foryou train evaluate data --model model
    """
    trial = judge_again(read(folder), learnable(datasets.read(data)), seed=seed)
    _say(trial, as_json=as_json)


@train.command("report")
@data_argument
@click.option("--model", "folder", required=True, type=Folder, help="What fit has written.")
@click.option(
    "--out",
    default="report.html",
    show_default=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write.",
)
@seed_option
def report_command(*, data: Path, folder: Path, out: Path, seed: int) -> None:
    """Write one HTML file that shows how good a model is, what it looks at, and where it is weak.

    \b
    Example:
      foryou train report data --model model --out report.html
    """
    rows = learnable(datasets.read(data))
    trial = judge_again(read(folder), rows, seed=seed)
    text = written_report(subject(trial, rows), rows, trial.parts, trial.found, seed)
    out.write_text(text, encoding="utf-8")
    click.echo(f"{out}: {len(text) / 1e6:.1f} MB, for any browser")


def _say(trial: Trial, *, as_json: bool) -> None:
    if as_json:
        manifest = trial.manifest
        head = {"version": manifest.version, "kind": manifest.kind, "counts": manifest.counts}
        click.echo(json.dumps({**head, **document(trial.found)}))
    else:
        click.echo("\n".join(_lines(trial)))


def _lines(trial: Trial) -> Iterator[str]:
    found, parts = trial.found, trial.parts
    sizes = ", ".join(
        f"{name} {len(part.queries):,} slates"
        for name, part in (("train", parts.train), ("valid", parts.valid), ("test", parts.test))
    )
    yield f"model {trial.manifest.version} ({trial.manifest.kind}): {sizes}"
    yield f"{parts.n_purged:,} slates in the gaps between them are left out"
    yield f"  {'':<20} {MAIN:<22} {'map':<6} {'mrr':<6} {'auc':<6} model is higher by"
    order = sorted(found.rankers, key=lambda name: -found.rankers[name][MAIN].mean)
    for name in order:
        yield _line(found, name)
    lost = [name for name in found.lift if name not in found.beaten]
    yield (
        f"the intervals touch those of {', '.join(lost)}"
        if lost
        else "no baseline's interval touches the model's"
    )


def _line(found: Evaluation, name: str) -> str:
    values = found.rankers[name]
    rest = " ".join(f"{values[metric].mean:<6.3f}" for metric in ("map", "mrr", "auc"))
    lift = _told(found.lift[name], "+") if name in found.lift else ""
    return f"  {name:<20} {_told(values[MAIN]):<22} {rest} {lift}".rstrip()


def _told(value: Interval, sign: str = "") -> str:
    return f"{value.mean:{sign}.3f} [{value.low:{sign}.3f}, {value.high:{sign}.3f}]"


def _counted(counts: dict[str, int]) -> Iterator[str]:
    width = max(map(len, counts))
    return (f"  {name.replace('_', ' '):<{width}} {n:>12,}" for name, n in counts.items())


def _refuse_used(out: Path, name: str) -> None:
    """Refuse a folder that already holds what would be written.

    Raises:
        Misconfigured: It does.
    """
    if (out / name).exists():
        raise Misconfigured(f"{out} already holds {name}: choose another folder, or remove it.")


def _rounds(rounds: int) -> Callable[[str, int, float], None] | None:
    if not sys.stderr.isatty():
        return None

    def tell(name: str, done: int, value: float) -> None:
        click.echo(f"\r  {name}: round {done} of {rounds}, {value:.4f}   ", nl=False, err=True)

    return tell


def _counting(what: str) -> Callable[[int, int], None] | None:
    if not sys.stderr.isatty():
        return None

    def tell(done: int, total: int) -> None:
        end = done == total
        click.echo(f"\r  {done:,} of {total:,} {what}", nl=end, err=True)

    return tell
