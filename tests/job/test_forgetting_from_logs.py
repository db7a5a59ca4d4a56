"""Users whose id is in no record: their impressions are found in the logs, and what is left of them afterwards."""

from __future__ import annotations

import re
import shutil
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from ctr_samples.config import load_config
from ctr_samples.job.fit import fit
from ctr_samples.job.run import run
from ctr_samples.shards import Manifest
from tests.support.command_line import invoke
from tests.support.tiny_days import CONFIG, write_days
from tests.support.whole_runs import Made, write_config, write_rows

DAY = date(2019, 6, 5)
WITH_USERS = (
    CONFIG.replace("features:", "features:\n  who: {from: impression.user, dtype: int64, vocabulary: users}")
    .replace(
        "labels:",
        """views:
  seen:
    {source: log, entity: user, key: user, event_time: t, aggregates: {windows: [1d], step: 1h, counts: {n: "true"}}}
labels:""",
    )
    .replace("price: {from", "seen: {from: seen.n_1d, dtype: int64}\n  price: {from")
    .replace("days_after: 1", "days_after: 1\n    days_before: 2")
    .replace("output: {path: ROOT/out, ", "output: {path: ROOT/out, ids: raw, ")
    + """
vocabularies: {users: {capacity: 9}}
fitted: {path: '${PLACE}/fitted', days: 1}
partials: {path: '${PLACE}/partials'}
sampling: {negatives: 0.5}
"""
)
"""Samples that name their users only by hashes and ids of a vocabulary."""


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("of_users")
    write_days(root, date(2019, 6, 3), 4)
    config = write_config(root, "tiny_days", WITH_USERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLACE", str(root))
        fit(spark, load_config(config), date(2019, 6, 4))
        run(spark, load_config(config), DAY)
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A published day, which a test may change. All tests read the same logs."""
    root = shutil.copytree(made, tmp_path / "of_users")
    monkeypatch.setenv("PLACE", str(root))
    (root / "users.txt").write_text("u3\n")
    return root


def forget(root: Path, *more: object, key: str = "user") -> Result:
    given = ("--config", root / "tiny_days.yaml", "--key", key, "--values", root / "users.txt")
    return invoke("forget", root / "out", *given, *more)


def current(root: Path) -> Manifest:
    return Made.newest(root / "out", DAY).manifest


def said(result: Result) -> str:
    return re.sub(r"\s+", " ", result.stderr)


@pytest.mark.thorough
def test_samples_are_found_by_the_logs_and_down_sampled_impressions_are_no_error(root: Path) -> None:
    before = current(root)
    (root / "users.txt").write_text("u3\nnobody\n")
    done = forget(root)
    gone = before.records - current(root).records
    assert (done.exit_code, 0 < gone < 5) == (0, True)
    assert f"Forgot {gone} sample(s) of 1 day(s)." in said(done)
    assert f"The logs have 5 impression(s) of them; {5 - gone} of these are no samples: they were dropped" in said(done)
    assert "1 of 2 value(s) match no impression: line 2 of" in said(done)


def remove_old_run(root: Path) -> None:
    for old in root.glob("out/dt=2019-06-05/data/*"):
        if old.name != current(root).run_id:
            shutil.rmtree(old)


def left(done: Result) -> list[str]:
    """The last names of the places that have them still."""
    lines = [line.split(": ")[0] for line in done.stdout.splitlines() if not line.endswith(": nothing")]
    return sorted({re.sub(r"(steps|totals)-.*", r"\1", line.rpartition("/")[2]) for line in lines})


@pytest.mark.thorough
def test_a_check_names_each_place_that_has_them_and_changes_nothing(root: Path) -> None:
    files = sorted(root.rglob("*"))
    done = forget(root, "--check")
    shards = "2 shard(s) of generation 1 of 2019-06-05"
    assert (done.exit_code, left(done)) == (
        3,
        [shards, "metrics.json", "report.html", "steps", "totals", "users.parquet", "users.txt"],
    )
    assert sorted(root.rglob("*")) == files


@pytest.mark.thorough
def test_a_check_passes_once_everything_is_cleaned_up(root: Path) -> None:
    assert forget(root).exit_code == 0
    [file] = root.glob(f"out/dt=2019-06-05/data/{current(root).run_id}/vocabularies/users.txt")
    assert sorted(line for line in file.read_text().split() if line.startswith("u")) == ["u0", "u1", "u2", "u4"]
    done = forget(root, "--check")
    assert "2 shard(s) of generation 2 of 2019-06-05: nothing" in done.stdout
    assert "no rollback restores it, and `ctr-samples clean --keep 1` removes it in a day" in done.stdout
    remove_old_run(root)
    assert left(forget(root, "--check")) == ["steps", "totals", "users.parquet"]
    for place in ("fitted", "partials"):
        shutil.rmtree(root / place)
    done = forget(root, "--check")
    assert (done.exit_code, left(done)) == (0, [])
    assert "none has the users" in said(done)


@pytest.mark.thorough
def test_a_check_goes_on_after_files_that_it_cannot_read_and_finds_keys_beside_others_that_are_no_utf8(
    root: Path,
) -> None:
    for file in (*root.rglob("users.parquet"), *root.rglob("metrics.json")):
        file.write_bytes(b"damaged")
    kept = next(root.glob("partials/**/steps*.parquet"))
    keys = pa.array([b"caf\xe9", b"u3", None], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"key": keys}), kept.with_name("joint.parquet"))
    done = forget(root, "--check")
    damaged = [line for line in done.stdout.splitlines() if ": it cannot be searched: " in line]
    assert (done.exit_code, len(damaged), "users.txt" in done.stdout) == (3, 2, True)
    assert "joint.parquet: 1 id(s)" in done.stdout


@pytest.mark.thorough
def test_models_that_were_trained_on_them_are_named(root: Path) -> None:
    for version, run_id in ((1, current(root).run_id), (2, "20190606T020000-0a0a0a0a")):
        about = {"samples": "elsewhere", "runs": {"2019-06-05": run_id}}
        write_rows(root / f"models/ranker/{version}/assets.extra/training.json", [about])
    named = f"The model {root}/models/ranker/1 was trained on samples of them of 2019-06-05; train it again."
    done = forget(root, "--models", root / "models")
    assert (named in said(done), "ranker/2" in said(done)) == (True, False)
    remove_old_run(root)
    assert named in said(forget(root, "--check", "--models", root / "models"))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("key", "change", "sentence"),
    [
        (
            "who",
            ("", ""),
            "`--key` is 'who', but with `--config` it is a key of impressions that says whose they are: user.",
        ),
        ("user", ("user: user, article: item", "user: user, article: item, request: t"), "whose request differ; give"),
        ("user", ("name: tiny_days", "name: another"), "is of 'tiny_days', but"),
    ],
)
def test_what_would_miss_their_samples_is_refused(root: Path, key: str, change: tuple[str, str], sentence: str) -> None:
    config = root / "tiny_days.yaml"
    config.write_text(config.read_text().replace(*change))
    done = forget(root, key=key)
    assert (done.exit_code, sentence in said(done), current(root).generation) == (2, True, 1), done.stderr


@pytest.mark.thorough
def test_a_day_whose_log_is_gone_is_refused_before_anything_is_published(root: Path) -> None:
    config = root / "tiny_days.yaml"
    config.write_text(config.read_text().replace("/log/{date}.json", "/gone/{date}.json"))
    done = forget(root)
    assert (done.exit_code, current(root).generation) == (3, 1)
    assert "The users' impressions of 2019-06-05 cannot be found. sources.log: there is no" in said(done)
