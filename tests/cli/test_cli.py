"""The command line: what it prints, where, and the exit code and sentence for every kind of bad input."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from ctr_samples.cli.preview import _line_of
from ctr_samples.cli.terminal import stderr_console
from ctr_samples.config import LoadedConfig
from ctr_samples.config.masking import masking, remember
from ctr_samples.errors import InputError
from ctr_samples.job.progress import RunProgress
from ctr_samples.quality.checks import CHECKS
from tests.support.command_line import invoke
from tests.support.project import PROJECT

CONFIG = str(PROJECT / "conf/open_bandit.yaml")


def call(*arguments: str) -> Result:
    return invoke(*arguments)


def sentence(result: Result) -> str:
    """What stands on stderr, on one line."""
    assert "Traceback" not in result.stderr
    return re.sub(r"\s+", " ", result.stderr).strip()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paths in the shipped configuration are relative to the project."""
    monkeypatch.chdir(PROJECT)


@pytest.fixture(scope="module")
def output(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The samples of one day, made by the command itself."""
    path = tmp_path_factory.mktemp("samples")
    before = Path.cwd()
    os.chdir(PROJECT)
    try:
        result = generate(path)
    finally:
        os.chdir(before)
    assert result.exit_code == 0, result.stderr
    return path


def generate(output: Path, *more: str, date: str = "2019-11-26") -> Result:
    return call("generate", "--config", CONFIG, "--date", date, "--set", f"output.path={output}", *more)


@pytest.mark.thorough
def test_a_run_prints_the_manifest_on_stdout_and_the_summary_on_stderr(
    spark: SparkSession, here: None, tmp_path: Path
) -> None:
    result = generate(tmp_path)
    assert result.exit_code == 0
    assert result.stdout == f"{tmp_path}/dt=2019-11-26/manifests/00000001.json\n"
    said = sentence(result)
    assert "Published open_bandit 2019-11-26, generation 1" in said
    assert "impressions 1,300 = samples 1,300" in said
    assert "clicked 5 (0.47%) 1 (0.41%) 6 (0.46%)" in said
    again = generate(tmp_path)
    assert again.exit_code == 0
    assert "Already published open_bandit 2019-11-26, generation 1" in sentence(again)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["--date", "2019-13-01"], 2, "error: The date is '2019-13-01', which is not in the calendar."),
        (["--date", "yesterday"], 2, "error: The date is 'yesterday'; expected a day such as 2019-11-26."),
        (["--date", "../2019"], 2, "error: The date is '../2019'; expected a day such as 2019-11-26."),
        (["--set", "output.pth=x"], 2, "output.pth: unknown key; did you mean 'path'?"),
        (
            ["--set", "labels.clicked.expr=reflect('a','b')"],
            2,
            "labels.clicked.expr: the function reflect is not allowed",
        ),
        (["--set", "sources.log.path=nowhere"], 3, "error: sources.log: there is no nowhere; check the path"),
        (["--set", "impressions.article=item"], 3, "no column 'item'; did you mean 'item_id'?"),
        (
            ["--set", "features.position.from=item.item_feature_0"],
            3,
            "features.position: found double, expected an integer",
        ),
        (["--date", "2018-01-01"], 3, "error: sources.log has no impressions on 2018-01-01; check the date"),
        (["--set", "output.path=ftp://x/y"], 2, "ftp://x/y: cannot store to ftp; expected a directory, hdfs://"),
        (["--set", "output.path=/dev/null/x"], 1, "/dev/null is a file where a directory should be"),
    ],
)
def test_bad_input_gives_one_sentence_and_its_exit_code_and_publishes_nothing(
    spark: SparkSession, here: None, tmp_path: Path, arguments: list[str], code: int, expected: str
) -> None:
    result = generate(tmp_path, *arguments)
    assert expected in sentence(result)
    assert result.exit_code == code
    assert result.stdout == ""
    assert not list(tmp_path.rglob("manifests"))


def test_an_empty_directory_is_told_from_a_missing_one(spark: SparkSession, here: None, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = generate(tmp_path / "out", "--set", f"sources.log.path={tmp_path}/empty")
    assert result.exit_code == 3
    assert "exists but contains no data file" in sentence(result)


def test_a_missing_configuration_file_is_named() -> None:
    result = call("generate", "--config", "nowhere.yaml", "--date", "2019-11-26")
    assert result.exit_code == 2
    assert "There is no configuration file nowhere.yaml." in sentence(result)


def test_debug_shows_the_stack_trace_and_keeps_the_exit_code(here: None) -> None:
    result = call("config", "--config", CONFIG, "--set", "nam=x", "--debug")
    assert result.exit_code == 2
    assert result.stderr.startswith("Traceback (most recent call last):")
    assert "ctr_samples.errors.ConfigError: " in result.stderr


@pytest.mark.parametrize("debug", [(), ("--debug",)])
@pytest.mark.parametrize("kind", [InputError, ValueError])
def test_an_error_tells_no_value_of_the_environment(
    here: None, monkeypatch: pytest.MonkeyPatch, debug: tuple[str, ...], kind: type[Exception]
) -> None:
    def refused(text: str) -> None:
        try:
            raise RuntimeError("login with hush-hush")
        except RuntimeError as error:
            raise kind("hush-hush is refused\nhush-hush") from error

    monkeypatch.setenv("WORD", "hush-hush")
    monkeypatch.setattr(LoadedConfig, "refuse_secrets", refused)
    result = call("config", "--config", CONFIG, "--set", "impressions.where=token = '${WORD}'", *debug)
    assert result.exit_code == (3 if kind is InputError else 1)
    assert "${WORD} is refused" in result.stderr
    assert "hush" not in result.output


def test_a_warning_and_a_stage_tell_no_value_of_the_environment(capsys: pytest.CaptureFixture[str]) -> None:
    with masking(), RunProgress(stderr_console()) as progress:
        remember({"WORD": "hush-[hush]"})
        progress.stage("reading hush-[hush]")
        progress.warn("there is no hush-[hush]; it is read as empty")
    said = capsys.readouterr().err
    assert "there is no ${WORD}; it is read as empty" in said
    assert "hush" not in said


def test_the_plan_shows_what_the_file_says_and_not_what_the_environment_filled_in(
    here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORD", "hush-hush")
    plan = call("config", "--config", CONFIG, "--explain", "--set", "impressions.where=token = '${WORD}'").stdout
    assert "token = '${WORD}'" in plan
    assert "hush" not in plan


def test_config_checks_and_explains(here: None) -> None:
    said = f"{CONFIG} is valid by itself; `--check` also looks at its expressions and inputs.\n"
    assert call("config", "--config", CONFIG).stdout == said
    plan = call("config", "--config", "conf/simulated.yaml", "--explain", "--date", "2019-06-05").stdout
    assert "actions: json at build/simulated/user_action/dt={date}, 2019-06-04 to 2019-06-06" in plan
    assert "vector: the last row of vectors for the same article that became true before the impression" in plan
    assert (
        "topic_affinity: float32 from the sum of the values at article.topics under article.channel_id in user.article_partial"
        in plan
    )
    assert "  1. vector, article, article_clicks by a shuffle on the article: one shuffle for all of them\n" in plan


def test_verify_finds_the_shards_intact_and_then_one_flipped_bit(output: Path) -> None:
    assert "Intact: open_bandit 2019-11-26, generation 1: 4 shard(s), 1,300 records" in sentence(
        call("verify", str(output))
    )
    shard = next(output.rglob("train/*.tfrecord"))
    data = shard.read_bytes()
    try:
        shard.write_bytes(data[:1000] + bytes([data[1000] ^ 1]) + data[1001:])
        result = call("verify", str(output))
    finally:
        shard.write_bytes(data)
    assert result.exit_code == 3
    assert re.search(rf"{shard.name} has CRC32C \w+, the manifest says \w+", sentence(result))


def test_show_prints_the_first_examples_with_every_feature(output: Path) -> None:
    shown = call("show", str(output), "-n", "2", "--split", "eval").stdout
    assert re.search(r"│ position +│ [123] +│ [123] +│", shown)
    assert re.search(r"│ affinity +│ \[0, 0, 0, 0, … 80", shown)
    assert "impression_id" in shown


def test_a_sample_as_json_has_null_in_place_of_numbers_that_json_lacks() -> None:
    sample = {"age": float("nan"), "vector": [1.0, float("inf")], "origin": {"score": -float("inf")}, "name": "nan"}
    expected = {"age": None, "vector": [1.0, None], "origin": {"score": None}, "name": "nan"}
    assert json.loads(_line_of(sample, "UTC"), parse_constant=pytest.fail) == expected


def test_paths_lists_the_files_of_a_split(output: Path) -> None:
    train = call("paths", str(output), "--split", "train").stdout.splitlines()
    assert len(train) == 2
    assert all(Path(path).is_file() and "/train/part-0000" in path for path in train)
    assert len(call("paths", str(output), "--date", "2019-11-26").stdout.splitlines()) == 4


@pytest.mark.parametrize("command", ["verify", "show", "paths"])
def test_a_directory_without_samples_is_refused(tmp_path: Path, command: str) -> None:
    result = call(command, str(tmp_path))
    assert result.exit_code == 3
    assert "holds no published samples; expected an output directory" in sentence(result)


def test_the_history_has_a_line_for_each_generation(output: Path) -> None:
    said = call("history", str(output))
    assert said.exit_code == 0
    assert re.search(r"^ ?1 .* 1,300 .* what readers see", said.stdout, re.MULTILINE)


def test_cleaning_says_what_would_go_and_then_removes_it(tmp_path: Path) -> None:
    run = tmp_path / "dt=2019-11-26/data/20190606T020000-aaaaaaaa"
    (run / "train").mkdir(parents=True)
    shard = run / "train/part-00000-0-00000001.tfrecord"
    shard.write_bytes(b"x" * 1024)
    young = call("clean", str(tmp_path), "--dry-run")
    assert (young.exit_code, young.stdout) == (0, "")
    os.utime(shard, (0, 0))
    asked = call("clean", str(tmp_path), "--dry-run")
    assert (asked.exit_code, asked.stdout) == (0, f"{run}\n")
    assert "Would remove 1 run(s) and file(s), 1 KiB." in sentence(asked)
    assert run.exists()
    done = call("clean", str(tmp_path), "--keep", "1", "--longest-run", "2h")
    assert "Removed 1 run(s) and file(s), 1 KiB." in sentence(done)
    assert not run.exists()


def test_cleaning_refuses_what_is_no_duration_and_no_output(tmp_path: Path) -> None:
    wrong = call("clean", str(tmp_path), "--longest-run", "soon")
    assert wrong.exit_code == 2
    assert "--longest-run is 'soon'; expected a duration such as 30s, 30m, 2h or 7d." in sentence(wrong)
    empty = call("clean", str(tmp_path))
    assert empty.exit_code == 3
    assert "holds neither samples nor a table; expected an output directory." in sentence(empty)


def test_a_day_or_split_that_is_not_there_says_what_is(output: Path) -> None:
    day = call("show", str(output), "--date", "2019-11-27")
    assert day.exit_code == 3
    assert "has no samples of 2019-11-27; it has 2019-11-26 to 2019-11-26 (1 day(s))" in sentence(day)
    split = call("paths", str(output), "--split", "test")
    assert split.exit_code == 3
    assert "open_bandit 2019-11-26, generation 1 has no split 'test'; it has train, eval." in sentence(split)


def test_help_names_every_command() -> None:
    listed = call("--help").stdout
    for command in ("generate", "config", "verify", "show", "paths"):
        assert command in listed


@pytest.mark.thorough
def test_the_job_is_the_command(tmp_path: Path) -> None:
    job = [
        sys.executable,
        str(PROJECT / "jobs/generate_samples.py"),
        "--config",
        "nowhere.yaml",
        "--date",
        "2019-11-26",
    ]
    done = subprocess.run(job, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: There is no configuration file nowhere.yaml.\n"


def test_a_check_that_does_not_exist_is_refused_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, here: None
) -> None:
    monkeypatch.setattr(sys.modules["ctr_samples.cli.generate"], "spark_for", None)
    result = call("generate", "--config", CONFIG, "--date", "2019-11-26", "--accept", "distributions")
    assert result.exit_code == 2
    assert sentence(result) == "error: There is no check 'distributions' to accept; did you mean 'distribution'?"


def test_the_help_of_generate_names_all_checks_that_can_be_accepted() -> None:
    said = re.sub(r"[\s│]+", " ", call("generate", "--help").stdout)
    assert f"fails: {', '.join(CHECKS)}." in said


@pytest.mark.parametrize("command", ["init", "generate", "explain"])
def test_the_help_of_a_command_with_many_options_has_an_example(command: str) -> None:
    assert f"Example: ctr-samples {command} " in re.sub(r"\s+", " ", call(command, "--help").stdout)
