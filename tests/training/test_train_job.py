"""The command line of training: from arguments to tables, and to one sentence and an exit code when something is wrong."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from ctr_samples.training.fit_options import BY_IS_GONE
from tests.support.small_days import CONTRACT, RUN, published, rows
from tests.training.training_runs import DAY, JOB

NEXT = "2019-06-06"


@pytest.fixture(scope="module")
def two_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("two_days")
    for day in (DAY, NEXT):
        published(root, CONTRACT, lambda split, first: rows(first, 50), day=day)
    return root


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Runs the job in this process: ``(exit code, what it printed)``."""
    spec = importlib.util.spec_from_file_location("train_ctr", JOB)
    assert spec is not None
    assert spec.loader is not None
    job = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(job)
    app = typer.Typer()
    app.command()(job.train)
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        return result.exit_code, result.output

    return invoke


@pytest.mark.thorough
def test_days_are_trained_on_scored_kept_and_exported(run: Any, two_days: Path, tmp_path: Path) -> None:
    code, output = run(
        *("--samples", two_days, "--from", DAY, "--to", NEXT, "--model", "fm", "--epochs", "1"),
        *("--checkpoints", tmp_path / "kept", "--export", tmp_path / "export"),
    )
    assert code == 0, output
    assert "Trained a factorization machine on 2019-06-05 to 2019-06-06: 64 weights, 4 steps" in output
    assert f"The model is exported to {tmp_path / 'export/1'}" in output.replace("\n", "")
    assert (tmp_path / "kept/checkpoint").exists()
    assert (tmp_path / "export/1/saved_model.pb").exists()


@pytest.mark.thorough
def test_a_set_of_a_whole_log_is_trained_on_and_scored_by_its_own_splits(run: Any, tmp_path: Path) -> None:
    published(tmp_path, CONTRACT, lambda split, first: rows(first, 50), day="all")
    code, output = run("--samples", tmp_path, "--date", "all", "--epochs", "1")
    assert code == 0, output
    assert "Trained a logistic regression on the whole log:" in output
    assert [line.split()[:2] for line in output.splitlines() if line.strip().startswith(("train", "eval"))] == [
        ["train", "400"],
        ["eval", "100"],
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "Give `--date DAY`, or `--from DAY` and `--to DAY`."),
        (["--date", DAY, "--from", DAY, "--to", NEXT], 2, "Give `--date DAY`, or `--from DAY` and `--to DAY`."),
        (["--from", DAY], 2, "Give `--date DAY`, or `--from DAY` and `--to DAY`."),
        (["--date", "today"], 2, "The date is 'today'; expected a day such as 2019-11-26."),
        (["--date", "2019-06-09"], 3, "has no samples of 2019-06-09; it has 2019-06-05 to 2019-06-06"),
        (["--from", DAY, "--to", "2019-06-07"], 3, "has no samples of 2019-06-07"),
        (["--date", DAY, "--eval-date", "2019-06-09"], 3, "has no samples of 2019-06-09"),
        (["--date", DAY, "--label", "shared"], 3, "There is no 0/1 label 'shared'; the samples have clicked."),
        (["--date", DAY, "--by", "city"], 2, BY_IS_GONE),
        (["--date", DAY, "--learning-rate", "0"], 2, "`learning_rate` is 0.0; expected a number above 0."),
    ],
)
def test_what_is_wrong_is_one_sentence_and_an_exit_code(
    run: Any, two_days: Path, arguments: list[str], code: int, message: str
) -> None:
    exit_code, output = run("--samples", two_days, *arguments)
    assert exit_code == code
    assert "error: " in output
    assert message in output
    assert "Traceback" not in output


def test_a_shard_that_is_missing_is_named(run: Any, tmp_path: Path) -> None:
    published(tmp_path, CONTRACT, lambda split, first: rows(first, 50))
    shard = next((tmp_path / f"dt={DAY}/data/{RUN}/train").iterdir())
    shard.unlink()
    code, output = run("--samples", tmp_path, "--date", DAY)
    assert code == 3
    assert f"{shard} is missing, though a task wrote it" in output.replace("\n", "")


def test_a_place_without_samples_is_named(run: Any, tmp_path: Path) -> None:
    code, output = run("--samples", tmp_path, "--date", DAY)
    assert code == 3
    assert "nothing is published there" in output


def test_settings_of_workers_that_are_no_json_are_refused(
    run: Any, two_days: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CONFIG", "worker 1")
    code, output = run("--samples", two_days, "--date", DAY)
    assert (code, "The environment variable TF_CONFIG is 'worker 1'; expected JSON" in output) == (2, True)
