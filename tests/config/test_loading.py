"""The configuration file: what is valid, and the sentence for everything that is not."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from ctr_samples.config import load_config
from ctr_samples.errors import ConfigError

MINIMAL = """\
name: tiny
timezone: UTC
sources:
  log: {format: parquet, path: log.parquet}
impressions:
  source: log
  time: at
  user: user_id
  article: article_id
labels:
  clicked: {source: log, where: click = 1, window: 30m}
features:
  position: {from: impression.position, dtype: int64}
output: {path: out}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    return path


def problem(tmp_path: Path, text: str, *overrides: str, environ: dict[str, str] | None = None) -> str:
    """The message, with the file's path shortened to c.yaml."""
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides, environ or {})
    return str(caught.value).replace(str(path), "c.yaml")


def test_a_minimal_file_is_valid_and_has_defaults(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, MINIMAL)).config
    assert config.labels["clicked"].window == timedelta(minutes=30)
    assert config.output.shard_size == 128 * 2**20
    assert config.split.eval == 0.1


def test_an_unknown_key_names_file_line_key_and_the_nearest_valid_one(tmp_path: Path) -> None:
    text = MINIMAL.replace("window: 30m", "windo: 30m")
    assert problem(tmp_path, text).splitlines() == [
        "c.yaml:11: labels.clicked: the key `window` is missing.",
        "c.yaml:11: labels.clicked.windo: unknown key; did you mean 'window'?",
    ]


def test_an_unknown_key_near_to_none_lists_the_valid_ones(tmp_path: Path) -> None:
    text = MINIMAL.replace("{path: out}", "{path: out, colour: red}")
    assert problem(tmp_path, text) == (
        "c.yaml:14: output.colour: unknown key; expected one of compression, partitions, path, record, shard_size."
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("30m", "30", "c.yaml:11: labels.clicked.window: found 30, expected a duration such as 30s, 30m, 2h or 7d."),
        (
            "30m",
            "soon",
            "c.yaml:11: labels.clicked.window: found 'soon', expected a duration such as 30s, 30m, 2h or 7d.",
        ),
        (
            "timezone: UTC",
            "timezone: Shanghai",
            "c.yaml:2: timezone: found 'Shanghai', expected a zone of the IANA database, such as UTC or Asia/Shanghai.",
        ),
        (
            "format: parquet",
            "format: parket",
            "c.yaml:4: sources.log.format: found 'parket', expected 'json', 'csv', 'parquet', 'orc' or 'table'.",
        ),
        (
            "dtype: int64",
            "dtype: int32",
            "c.yaml:13: features.position.dtype: found 'int32', expected 'int64', 'float32' or 'string'.",
        ),
        (
            "path: log.parquet",
            "path: 'log/{day}'",
            "c.yaml:4: sources.log.path: found 'log/{day}', the only template in a path is {date}, not {day}.",
        ),
        ("name: tiny\n", "", "c.yaml: the key `name` is missing."),
        (
            "source: log\n",
            "source: lag\n",
            "c.yaml:6: impressions.source: there is no source 'lag'; did you mean 'log'?",
        ),
        (
            "impression.position",
            "impression.postion",
            "c.yaml:13: features.position.from: impressions have no column 'postion'; did you mean 'position'?",
        ),
        (
            "impression.position",
            "item.price",
            "c.yaml:13: features.position.from: there is no view 'item'; expected one of impression.",
        ),
        (
            "output:",
            "split: {by: request}\noutput:",
            "c.yaml:14: split.by: samples cannot be split by request, since `impressions.request` is not set.",
        ),
        (
            "  position: {from: impression.position",
            "  clicked: {from: impression.position",
            "c.yaml:13: features.clicked: is the name of a label or of a column that the job adds; rename it.",
        ),
    ],
)
def test_a_wrong_value_says_what_was_found_and_expected(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert problem(tmp_path, MINIMAL.replace(old, new, 1)) == message


def test_a_label_may_not_be_named_like_a_column_of_impressions(tmp_path: Path) -> None:
    text = MINIMAL.replace("  clicked: {", "  position: {").replace("  position: {from", "  place: {from")
    assert problem(tmp_path, text) == (
        "c.yaml:11: labels.position: 'position' is also a view or a column of impressions; rename one."
    )


def test_a_view_without_ttl_or_with_static_and_times_is_refused(tmp_path: Path) -> None:
    view = "views:\n  v: {source: log, entity: user, key: k, event_time: t}\noutput:"
    assert problem(tmp_path, MINIMAL.replace("output:", view)) == (
        "c.yaml:15: views.v: `ttl` is missing; say how old a row may be, or `ttl: unbounded`."
    )
    static = view.replace("event_time: t", "event_time: t, static: true")
    assert "`static: true` takes no times" in problem(tmp_path, MINIMAL.replace("output:", static))


def test_a_duplicate_key_is_refused_with_its_line(tmp_path: Path) -> None:
    assert problem(tmp_path, MINIMAL + "name: again\n") == "c.yaml:15: the key 'name' stands here twice; keep one."


def test_text_that_is_not_yaml_is_refused_with_its_line(tmp_path: Path) -> None:
    assert problem(tmp_path, MINIMAL + "x: [1, 2\n").startswith("c.yaml:16: this is not YAML")


def test_an_empty_file_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    assert problem(tmp_path, "") == "c.yaml: found an empty file, expected keys such as `name:` and `sources:`."
    with pytest.raises(ConfigError, match=r"There is no configuration file .*nowhere\.yaml"):
        load_config(tmp_path / "nowhere.yaml")


def test_an_override_wins_over_the_file_and_is_checked_like_it(tmp_path: Path) -> None:
    loaded = load_config(written(tmp_path, MINIMAL), ["output.path=elsewhere", "output.partitions=3"])
    assert loaded.config.output.path == "elsewhere"
    assert loaded.document["output"] == {"path": "elsewhere", "partitions": 3}
    assert "output.partition: unknown key; did you mean 'partitions'?" in problem(
        tmp_path, MINIMAL, "output.partition=3"
    )
    assert problem(tmp_path, MINIMAL, "output") == (
        "--set output: expected the form a.b=value, such as output.path=build/samples."
    )


def test_the_environment_fills_templates_but_never_the_document(tmp_path: Path) -> None:
    path = written(tmp_path, MINIMAL.replace("path: out", "path: 's3://${BUCKET}/x'"))
    loaded = load_config(path, environ={"BUCKET": "secret"})
    assert loaded.config.output.path == "s3://secret/x"
    assert loaded.document["output"]["path"] == "s3://${BUCKET}/x"


def test_a_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    text = MINIMAL.replace("path: out", "path: '${OUT}'")
    assert problem(tmp_path, text) == (
        "c.yaml:14: output.path: the environment variable OUT is not set; set it before the run."
    )


@pytest.mark.parametrize("name", ["open_bandit", "simulated", "toutiao", "production"])
def test_every_shipped_file_is_valid(name: str) -> None:
    loaded = load_config(
        Path(__file__).parents[2] / "conf" / f"{name}.yaml", environ={"TOUTIAO_LOGS": "logs", "BUCKET": "b"}
    )
    assert loaded.config.name.startswith(name)
