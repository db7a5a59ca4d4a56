"""Many days by one command: what it prints, its exit code, and the status afterwards."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from ctr_samples.shards import open_storage, publish
from tests.support.command_line import invoke
from tests.support.manifests import manifest
from tests.support.tiny_days import write_day, write_days


def call(*arguments: str) -> Result:
    return invoke(*arguments)


def lines(text: str) -> list[str]:
    """The lines of a table, without blank space between and behind the cells."""
    return [re.sub(r" +", " ", line).strip() for line in text.splitlines() if line.strip(" ─")]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Three days of logs, of which the second has no impression."""
    path = write_days(tmp_path, date(2019, 6, 3), 3)
    (tmp_path / "log/2019-06-04.json").write_text('{"t": "2019-06-04 10:00:00", "kind": "other"}\n')
    return path


@pytest.mark.slow
def test_several_days_are_made_and_their_status_is_told(spark: SparkSession, config: Path) -> None:
    days = ["--from", "2019-06-03", "--to", "2019-06-05"]
    stopped = call("generate", "--config", str(config), *days)
    assert stopped.exit_code == 3
    output = config.parent / "out"
    assert stopped.stdout == f"{output}/dt=2019-06-03/manifests/00000001.json\n"
    said = lines(re.sub(r"\b\d+\.\d\b", "N", stopped.stderr))
    assert said[-4:] == [
        "day generation samples clicked verdict seconds",
        "2019-06-03 1 24 16.67% warned N published",
        "2019-06-04 N refused",
        "2019-06-05 not tried",
    ]
    assert "error: 2019-06-04: sources.log has no impressions on 2019-06-04" in " ".join(stopped.stderr.split())

    went_on = call("generate", "--config", str(config), *days, "--keep-going", "--parallel", "2")
    assert went_on.exit_code == 3
    said_of_days = r"2019-06-03 .* unchanged.* 2019-06-04 .* refused 2019-06-05 .* published, .*not final"
    assert re.search(said_of_days, " ".join(went_on.stderr.split()))
    assert went_on.stdout.splitlines() == [
        f"{output}/dt={day}/manifests/00000001.json" for day in ("2019-06-03", "2019-06-05")
    ]

    assert lines(call("status", str(output)).stdout) == [
        "day generation samples clicked verdict",
        "2019-06-03 1 24 16.67% warned published",
        "2019-06-04 missing",
        "2019-06-05 1 24 16.67% warned published, labels not final, due",
    ]
    changed = ["--config", str(config), "--set", "labels.clicked.window=2h", "--to", "2019-06-03"]
    assert lines(call("status", str(output), *changed).stdout)[1:] == [
        "2019-06-03 1 24 16.67% warned published, stale: the configuration changed: labels.clicked"
    ]


@pytest.mark.slow
def test_one_line_of_cron_makes_the_newest_day_and_the_labels_of_earlier_ones_final(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = write_days(tmp_path, date(2019, 6, 3), 1)
    assert call("generate", "--config", str(config), "--date", "2019-06-03").exit_code == 0
    write_day(tmp_path, date(2019, 6, 4))
    assert "published, labels not final, due" in call("status", str(tmp_path / "out")).stdout
    night = call("generate", "--config", str(config), "--due", "--set", "quality.rate.fail=9")
    assert night.exit_code == 3  # the newest day, which is yesterday, has no log; the day of 2019 is made all the same
    assert night.stdout == f"{tmp_path}/out/dt=2019-06-03/manifests/00000002.json\n"
    assert lines(call("status", str(tmp_path / "out")).stdout)[1].endswith("published")


@pytest.mark.parametrize("other", [["--date", "2019-06-03"], ["--from", "2019-06-03"], ["--as-of-generation", "1"]])
def test_the_days_that_are_due_are_chosen_by_the_clock_alone(tmp_path: Path, other: list[str]) -> None:
    config = write_days(tmp_path, date(2019, 6, 3), 1)
    refused = call("generate", "--config", str(config), "--due", *other)
    assert refused.exit_code == 2
    assert "`--due` chooses the days by the clock" in refused.stderr


@pytest.mark.parametrize(
    "days", [[], ["--from", "2019-06-03"], ["--date", "2019-06-03", "--from", "2019-06-03", "--to", "2019-06-03"]]
)
def test_one_way_to_name_the_days_is_required(config: Path, days: list[str]) -> None:
    refused = call("generate", "--config", str(config), *days)
    assert refused.exit_code == 2
    assert refused.stderr.strip() == "error: Give `--date DAY`, or `--from DAY` and `--to DAY`, or `--due`."


def test_what_changes_a_configuration_needs_one(tmp_path: Path) -> None:
    refused = call("status", str(tmp_path), "--set", "name=x")
    assert refused.exit_code == 2
    assert refused.stderr.strip() == "error: --set changes a configuration; give it with --config."


def test_what_is_kept_of_finished_days_is_listed(tmp_path: Path) -> None:
    for day, files in {"2019-06-01": 1, "2019-06-02": 2, "2019-06-05": 1}.items():
        place = tmp_path / f"item/0123456789abcdef/dt={day}"
        (place / "20190606T020000-11111111").mkdir(parents=True)
        (place / "0123456789abcdef.json").write_text("{}")
        for n in range(files):
            (place / f"20190606T020000-11111111/steps-{n:05}-0123abcd.parquet").write_bytes(bytes(1024))
    (tmp_path / "item/0123456789abcdef/dt=2019-06-06/20190606T020000-22222222").mkdir(parents=True)
    (
        tmp_path / "item/0123456789abcdef/dt=2019-06-06/20190606T020000-22222222/steps-00000-0123abcd.parquet"
    ).write_bytes(bytes(1018))
    assert lines(call("partials", str(tmp_path)).stdout) == [
        "view definition first day last day days files size a day without",
        "item 0123456789abcdef 2019-06-01 2019-06-05 3 8 5 KiB 1.7 KiB 2019-06-03 to 2019-06-04",
    ]


def test_a_directory_without_partial_results_is_told(tmp_path: Path) -> None:
    told = call("partials", str(tmp_path))
    assert told.exit_code == 3
    assert "holds no partial results; expected the `partials.path` of a configuration." in " ".join(told.stderr.split())


DAYS = ("2019-06-03", "2019-06-04")


@pytest.fixture
def output(tmp_path: Path) -> str:
    for day in DAYS:
        for generation in (1, 2):
            publish(open_storage(tmp_path), manifest(run_date=day, generation=generation))
    return str(tmp_path)


@pytest.mark.parametrize("command", ["verify", "show", "paths", "history", "clean", "report"])
@pytest.mark.parametrize("day", DAYS)
def test_a_day_is_an_argument_or_an_option_of_every_command(output: str, command: str, day: str) -> None:
    by_argument, by_option = call(command, output, day), call(command, output, "--date", day)
    assert (by_argument.exit_code, by_argument.output) == (by_option.exit_code, by_option.output)
    assert call(command, output, "2019-06-33").exit_code == 2
    two = call(command, output, DAYS[0], "--date", DAYS[1])
    assert two.exit_code == 2
    assert "Two days are given, 2019-06-03 and `--date 2019-06-04`" in " ".join(two.stderr.split())


@pytest.mark.parametrize("day", [["2019-06-03"], ["--date", "2019-06-03"]])
def test_a_rollback_takes_its_day_either_way(output: str, day: list[str]) -> None:
    assert call("rollback", output, *day, "--to", "1").stdout.endswith("dt=2019-06-03/manifests/00000003.json\n")
    assert call("rollback", output, "--to", "1").exit_code == 2


@pytest.mark.parametrize("days", [DAYS, ("--date", DAYS[0], "--date", DAYS[1]), (DAYS[0], "--date", DAYS[1])])
def test_a_comparison_takes_its_days_either_way(output: str, days: tuple[str, ...]) -> None:
    told = call("compare", output, *days)
    assert "Generation 2 of 2019-06-03 has no metrics.json" in " ".join(told.stderr.split())
    assert call("compare", output, DAYS[0]).exit_code == 2


def spoil_manifest(day: Path) -> None:
    (day / "manifests/00000002.json").write_text("{")


def lose_manifest(day: Path) -> None:
    (day / "manifests/00000002.json").unlink()
    (day / "manifests/00000003.json").write_text("{}")


def lose_all_manifests(day: Path) -> None:
    shutil.rmtree(day / "manifests")
    (day / "_SUCCESS").touch()


def be_a_directory(day: Path) -> None:
    (day / "manifests/00000002.json").unlink()
    (day / "manifests/00000002.json").mkdir()


@pytest.mark.parametrize("spoil", [spoil_manifest, lose_manifest, lose_all_manifests, be_a_directory])
@pytest.mark.parametrize("spoilt", DAYS)
def test_a_clean_up_tells_a_damaged_day_and_goes_on_with_the_others(
    output: str, spoilt: str, spoil: Callable[[Path], None]
) -> None:
    leftovers = [left_by_a_killed_run(Path(output) / f"dt={day}") for day in DAYS]
    spoil(Path(output) / f"dt={spoilt}")
    result = call("clean", output)
    assert result.exit_code == 3, result.stderr
    assert [left.exists() for left in leftovers] == [day == spoilt for day in DAYS]
    assert result.stdout.splitlines() == [str(left) for left in leftovers if not left.exists()]
    said = " ".join(result.stderr.split())
    assert f"{spoilt} is left as it is: " in said
    assert "Removed 1 run(s) and file(s)" in said
    assert f"error: 1 day(s) of {output} were left as they are" in said
    assert call("clean", output, spoilt).exit_code == 3


@pytest.mark.parametrize("name", ["dt=2019-06-01", "dt=2019-06-09", "dt=2019-06-31", "notes.txt", "dt=", "old"])
@pytest.mark.parametrize("kind", [Path.touch, Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_a_clean_up_passes_over_what_is_no_day(output: str, name: str, kind: Callable[[Path], None]) -> None:
    leftovers = [left_by_a_killed_run(Path(output) / f"dt={day}") for day in DAYS]
    kind(Path(output) / name)
    result = call("clean", output)
    assert result.exit_code == 0, result.stderr
    assert not any(left.exists() for left in leftovers)
    assert os.path.lexists(Path(output) / name)


def left_by_a_killed_run(day: Path) -> Path:
    """The directory of a run that never published, of 2019."""
    directory = day / "data/20190601T020000-bbbbbbbb"
    (directory / "train").mkdir(parents=True)
    file = directory / "train/part-00000-7-00000001.tfrecord"
    file.touch()
    os.utime(file, (1559354400, 1559354400))
    return directory
