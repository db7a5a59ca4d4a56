"""Ways in which a night goes wrong; tests/broken_days shows that the gate finds each."""

from __future__ import annotations

import json
import re
import shutil
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ctr_samples.errors import UsageError
from ctr_samples.simulator import SimulationSpec, simulate
from ctr_samples.simulator.nights import WAYS, spoil
from tests.simulator.simulated_files import JOB, digests, job

DAY = date(2019, 6, 5)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    simulate(SimulationSpec(days=2, impressions=1500, seed=5), root)
    return root


@pytest.fixture(scope="module")
def before(sound: Path) -> dict[str, str]:
    return contents(sound)


@pytest.fixture
def logs(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "logs"))


def contents(root: Path) -> dict[str, str]:
    """What each file of logs and tables says, however it is written."""
    contents = {}
    for file in root.rglob("*/*.*"):
        if file.suffix == ".parquet":
            contents[str(file.relative_to(root))] = repr(pq.ParquetFile(file).read().to_pylist())
        elif file.suffix == ".json":
            contents[str(file.relative_to(root))] = file.read_text().replace(" ", "")
    return contents


def kinds(root: Path, day: date) -> list[str]:
    """What each sound line of a day's log is."""
    actions = []
    for file in sorted((root / f"user_action/dt={day}").iterdir()):
        for text in file.read_text().splitlines():
            try:
                actions.append(json.loads(text)["param"]["action"])
            except (ValueError, KeyError, TypeError):
                continue
    return actions


@pytest.mark.some(3)
@pytest.mark.parametrize("way", WAYS)
def test_each_way_changes_the_day_and_neither_the_log_before_nor_the_truth(
    before: dict[str, str], logs: Path, way: str
) -> None:
    spoil(logs, DAY, way)
    after = contents(logs)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert changed
    assert [path for path in changed if path.startswith(("truth", "user_action/dt=2019-06-04"))] == []


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[] if way == "no_clicks_at_all" else pytest.mark.slow) for way in WAYS]
)
def test_one_way_always_leaves_the_same_files(logs: Path, tmp_path: Path, way: str) -> None:
    again = Path(shutil.copytree(logs, tmp_path / "again"))
    for root in (logs, again):
        spoil(root, DAY, way)
    assert digests(logs) == digests(again)


def test_of_two_clicks_one_is_missing_and_nothing_else(sound: Path, logs: Path) -> None:
    spoil(logs, DAY, "half_of_the_clicks_missing")
    whole, left = kinds(sound, DAY), kinds(logs, DAY)
    assert 0.35 < left.count("click") / whole.count("click") < 0.65
    assert [kind for kind in left if kind != "click"] == [kind for kind in whole if kind != "click"]


def test_vectors_of_zeros_are_those_of_the_same_articles(sound: Path, logs: Path) -> None:
    spoil(logs, DAY, "vectors_of_zeros")
    whole, left = (pq.read_table(root / f"article_vector/dt={DAY}") for root in (sound, logs))
    assert left.drop_columns("articlevector").equals(whole.drop_columns("articlevector"))
    assert {number for row in left["articlevector"].to_pylist() for number in row} == {0.0}


def test_a_way_that_there_is_not_is_refused_with_those_that_there_are(logs: Path) -> None:
    with pytest.raises(
        UsageError, match="Unknown way to break a night: 'fog'; expected one of half_of_the_clicks_missing, "
    ):
        spoil(logs, DAY, "fog")


def test_a_day_that_was_not_simulated_is_refused(logs: Path) -> None:
    with pytest.raises(UsageError, match=r"2019-07-01 does not exist; expected a simulation of 2019-07-01 and"):
        spoil(logs, date(2019, 7, 1), "times_in_utc")


@pytest.mark.thorough
def test_the_job_spoils_the_last_day(sound: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--days", "2", "--impressions", "1500", "--seed", "5", "--broken", "no_clicks_at_all"]
    assert job("--out", str(out), *options).returncode == 0
    assert kinds(out, DAY).count("click") == 0
    assert kinds(out, date(2019, 6, 4)) == kinds(sound, date(2019, 6, 4))


@pytest.mark.thorough
def test_the_job_refuses_another_way_before_it_writes(tmp_path: Path) -> None:
    run = job("--out", str(tmp_path / "out"), "--broken", "fog")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("error: Unknown way to break a night: 'fog'")
    assert not (tmp_path / "out").exists()


def test_the_documentation_has_each_way_and_no_other() -> None:
    page = (JOB.parents[1] / "docs/quality.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.M) == list(WAYS)
