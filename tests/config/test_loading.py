"""The configuration file: what is valid, and the sentence for everything that is not."""

from __future__ import annotations

import json
import re
import traceback
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from ctr_samples.config import explain, load_config
from ctr_samples.config.masking import mask, masked, masking, remember
from ctr_samples.config.problems import end_sentence
from ctr_samples.config.references import check_secrets
from ctr_samples.errors import ConfigError, InputError
from tests.support.project import PROJECT

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


def test_a_former_key_is_refused_with_its_present_name(tmp_path: Path) -> None:
    text = f"{MINIMAL}state: {{path: kept}}\n"
    line = len(text.splitlines())
    assert problem(tmp_path, text) == f"c.yaml:{line}: state: the key `state` is called `partials` now."


def test_an_unknown_key_near_to_none_lists_the_valid_ones(tmp_path: Path) -> None:
    text = MINIMAL.replace("{path: out}", "{path: out, colour: red}")
    assert problem(tmp_path, text) == (
        "c.yaml:14: output.colour: unknown key; "
        "expected one of compression, engine, ids, ids_salt, layout, "
        "order, partitions, path, retention, shard_size."
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
            "c.yaml:4: sources.log.format: found 'parket', expected 'json', 'csv', 'parquet', 'orc', 'table' or 'jdbc'.",
        ),
        (
            "dtype: int64",
            "dtype: int32",
            "c.yaml:13: features.position.dtype: found 'int32', expected 'int64', 'float32', 'string' or 'bytes'.",
        ),
        (
            "path: log.parquet",
            "path: 'log/{day}'",
            "c.yaml:4: sources.log.path: found 'log/{day}', the only templates in a path are {date} and {hour}, as they are "
            "or as {date:%Y%m%d}, not {day}.",
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
        "c.yaml:15: views.v: the key `ttl` is missing; say how old a row may be, or `ttl: unbounded`."
    )
    static = view.replace("event_time: t", "event_time: t, static: true")
    assert problem(tmp_path, MINIMAL.replace("output:", static)) == (
        "c.yaml:15: views.v.event_time: `event_time` is for events, daily counts and windows, and `static` is for tables "
        "without times; a view is one of them. Remove one."
    )


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ("snapshot: ds", "`ttl` is missing"),
        (
            "snapshot: ds, ttl: 3d, event_time: t",
            "`event_time` is for events, daily counts and windows, and `snapshot` is for",
        ),
        (
            "snapshot: ds, ttl: 3d, inclusive: true",
            "`inclusive` is for events and daily counts, and `snapshot` is for snapshots",
        ),
        ("snapshot: ds, ttl: 3d, available_after: 2h", "say with `publish_delay` when a snapshot is there instead."),
        (
            "event_time: t, ttl: 3d, publish_delay: 2h",
            "`publish_delay` is for snapshots and `event_time` is for events; a view is one of them. Remove one.",
        ),
        (
            "event_time: t, ttl: 3d, method: snapshots",
            "views.v.method: found 'snapshots', expected 'union' or 'intervals': `snapshots` is for views with `snapshot`.",
        ),
        (
            "static: true, tombstone: gone",
            "views.v.tombstone: `tombstone` is for events and snapshots, and `static` is for tables without times; a view is "
            "one of them. Remove one.",
        ),
        (
            "static: true, snapshot: ds",
            "`snapshot` is for snapshots and `static` is for tables without times; a view is",
        ),
        ("static: 'no'", "views.v.static: found 'no', expected true, or the key that says when a row became true"),
        (
            "snapshot: ds, event_time: t, aggregates: {windows: [1h], counts: {n: true}}",
            "views.v.snapshot: `snapshot` is for snapshots and `aggregates` is for windows; a view is one of them. Remove one.",
        ),
        (
            "event_time: t, ttl: 1d, aggregates: {windows: [1h], counts: {n: true}}",
            "and `aggregates` is for windows; the windows say how far back to look. Remove one.",
        ),
        (
            "event_time: t, ttl: 3d, sequence: v, daily_counts: {days: 1, counts: {n: true}}",
            "`sequence` is for events and snapshots, and `daily_counts` is for daily counts; its rows are counted.",
        ),
        (
            "snapshot: ds, ttl: 1d, publish_delay: 2h",
            "found `ttl: 1d` with `publish_delay: 2h`: the newest row is 26h old when the next day's becomes known, so some "
            "hours of each day would have no features; set `ttl: 2d` or longer.",
        ),
        (
            "event_time: t, available_time: k, available_after: 1h, ttl: 1d",
            "give `available_time` or `available_after`",
        ),
        (
            "event_time: t, closed_available: k, ttl: 1d",
            "`closed_available` needs `valid_to`, which says when a row ceased to be true",
        ),
        (
            "snapshot: ds, ttl: 3d, valid_to: e",
            "`valid_to` is for events and `snapshot` is for snapshots; a view is one of them. Remove one.",
        ),
        (
            "event_time: t, ttl: 3d, valid_to: e, daily_counts: {days: 1, counts: {n: true}}",
            "`valid_to` is for events and `daily_counts` is for daily counts; its rows are counted. Remove one.",
        ),
        ("snapshot: ds, ttl: 12h", "found `ttl: 12h` with `publish_delay: 0s`: the newest row is 1d old"),
        (
            "snapshot: ds, ttl: 2d, publish_delay: 24001m",
            "the newest row is 25441m old when the next day's becomes known",
        ),
        (
            "event_time: t, ttl: 1d, available_after: 1s, daily_counts: {days: 1, counts: {n: true}}",
            "found `ttl: 1d` with `available_after: 1s`: the newest row is 86401s old",
        ),
        (
            "event_time: t, ttl: 1h, available_after: 61m",
            "found `ttl: 1h` with `available_after: 61m`: a row would be too old before it is known; expected a longer `ttl`.",
        ),
    ],
)
def test_a_view_whose_clocks_contradict_each_other_is_refused(tmp_path: Path, view: str, message: str) -> None:
    views = f"views:\n  v: {{source: log, entity: user, key: k, {view}}}\noutput:"
    assert message in problem(tmp_path, MINIMAL.replace("output:", views))


@pytest.mark.parametrize(
    ("view", "messages"),
    [
        (
            "event_time: t, agregates: {windows: [1h], counts: {n: true}}",
            [
                "c.yaml:15: views.v: the key `aggregates` is missing.",
                "c.yaml:15: views.v.agregates: unknown key; did you mean 'aggregates'?",
            ],
        ),
        (
            "snapshots: ds, ttl: 1d",
            [
                "c.yaml:15: views.v: the key `snapshot` is missing.",
                "c.yaml:15: views.v.snapshots: unknown key; did you mean 'snapshot'?",
            ],
        ),
        (
            "snapshot: ds, ttl: 1d, publish_dely: 2h",
            ["c.yaml:15: views.v.publish_dely: unknown key; did you mean 'publish_delay'?"],
        ),
        (
            "publish_delay: 2h, ttl: 2d",
            ["c.yaml:15: views.v: the key `snapshot` is missing."],
        ),
        (
            "static: true, colour: red",
            [
                "c.yaml:15: views.v.colour: unknown key; expected one of article_key, entity, key, on, source, static, where.",
            ],
        ),
        (
            "ttl: 1d",
            [
                "c.yaml:15: views.v: the key `event_time` is missing; a table that never changes says `static: true` instead."
            ],
        ),
        (
            "event_time: t, ttl: soon",
            [
                "c.yaml:15: views.v.ttl: found 'soon', expected a duration such as 30s, 30m, 2h or 7d, or `unbounded`.",
            ],
        ),
        (
            "event_time: t, aggregates: {windows: [1h], count: {n: true}}",
            ["c.yaml:15: views.v.aggregates.count: unknown key; did you mean 'counts'?"],
        ),
    ],
)
def test_an_unknown_key_of_a_view_names_the_nearest_of_the_kind_that_is_meant(
    tmp_path: Path, view: str, messages: list[str]
) -> None:
    views = f"views:\n  v: {{source: log, entity: user, key: k, {view}}}\noutput:"
    assert problem(tmp_path, MINIMAL.replace("output:", views)).splitlines() == messages


@pytest.mark.parametrize(
    ("source", "messages"),
    [
        ("5", ["c.yaml:4: sources.log: found 5, expected keys such as `format:`."]),
        ("{path: x}", ["c.yaml:4: sources.log: the key `format` is missing."]),
        (
            "{format: [csv], path: x}",
            [
                "c.yaml:4: sources.log.format: found a list, expected 'json', 'csv', 'parquet', 'orc', 'table' or 'jdbc'.",
            ],
        ),
        (
            "{format: json, path: x}",
            [
                "c.yaml:4: sources.log: the key `schema` is missing; without it, types would depend on one day's data.",
            ],
        ),
        ("{format: table}", ["c.yaml:4: sources.log: the key `table` is missing."]),
        (
            "{format: csv, path: x, schema: a INT, delimeter: ;}",
            ["c.yaml:4: sources.log.delimeter: unknown key; did you mean 'delimiter'?"],
        ),
        (
            "{format: parquet, path: x, delimeter: ;}",
            ["c.yaml:4: sources.log.delimeter: unknown key; did you mean 'delimiter'?"],
        ),
        (
            "{format: orc, path: x, user: sa}",
            [
                "c.yaml:4: sources.log.user: `user` is for `format: jdbc` and this is `format: parquet` or `orc`; a source is "
                "one of them. Remove one.",
            ],
        ),
        (
            "{format: jdbc, url: 'jdbc:x', table: t, partition: {column: a, lower: 1, upper: 2}}",
            ["c.yaml:4: sources.log.partition: the key `count` is missing."],
        ),
    ],
)
def test_a_key_of_a_source_fits_its_format(tmp_path: Path, source: str, messages: list[str]) -> None:
    text = MINIMAL.replace("{format: parquet, path: log.parquet}", source)
    assert problem(tmp_path, text).splitlines() == messages


def test_what_is_null_or_false_says_nothing_of_another_kind(tmp_path: Path) -> None:
    off = "static: false, snapshot: null, daily_counts: null, aggregates: null, publish_delay: null"
    views = f"views:\n  v: {{source: log, entity: user, key: k, event_time: t, ttl: 1d, {off}}}\noutput:"
    text = MINIMAL.replace("output:", views).replace("features:", "features:\n  n: {from: v.n, dtype: int64}")
    text = text.replace("log.parquet}", "log.parquet, header: false, date_column: null}")
    loaded = load_config(written(tmp_path, text))
    plain = text.replace(f", {off}", "").replace(", header: false, date_column: null", "")
    assert loaded.config == load_config(written(tmp_path, plain)).config


def test_equal_views_are_written_alike_whatever_the_order_of_their_keys(tmp_path: Path) -> None:
    keys = ["source: log", "entity: user", "key: k", "snapshot: ds", "ttl: 1d", "method: null"]
    dumps = [
        json.dumps(load_config(written(tmp_path, text)).config.model_dump(mode="json", by_alias=True))
        for order in (keys, keys[::-1], keys[:-1])
        for text in [with_lines(views=f"{{v: {{{', '.join(order)}}}}}", features=FEATURE)]
    ]
    assert dumps[0] == dumps[1] == dumps[2]


@pytest.mark.parametrize(
    "view",
    [
        "snapshot: ds, ttl: 26h, publish_delay: 2h",
        "snapshot: ds, ttl: 1d",
        "snapshot: ds, ttl: unbounded, publish_delay: 9d",
        "event_time: t, ttl: 1d, daily_counts: {days: 1, counts: {n: true}}",
        "event_time: t, ttl: 1h, available_after: 1h",
    ],
)
def test_a_row_may_live_just_until_the_next_one_is_known(tmp_path: Path, view: str) -> None:
    views = f"views:\n  v: {{source: log, entity: user, key: k, {view}}}\noutput:"
    text = MINIMAL.replace("output:", views).replace("features:", "features:\n  n: {from: v.n, dtype: int64}")
    load_config(written(tmp_path, text))


def test_no_hint_leads_to_a_ttl_that_is_refused(tmp_path: Path) -> None:
    text = MINIMAL.replace("path: log.parquet", "path: 'log/dt={date}', days_before: 1, days_after: 1")
    views = "views:\n  v: {source: log, entity: user, key: k, snapshot: ds, publish_delay: 2h, ttl: 2d}\noutput:"
    message = problem(tmp_path, text.replace("output:", views))
    assert "set `sources.log.days_before: 3`." in message


def test_a_history_whose_actions_are_too_old_before_they_are_known_is_refused(tmp_path: Path) -> None:
    histories = "histories:\n  h: {source: log, last: 3, within: 1h, available_after: 61m}\noutput:"
    message = (
        "histories.h: found `within: 1h` with `available_after: 61m`: an action would be too old before it is known"
    )
    assert message in problem(tmp_path, MINIMAL.replace("output:", histories))


def test_a_duplicate_key_is_refused_with_its_line(tmp_path: Path) -> None:
    assert problem(tmp_path, MINIMAL + "name: again\n") == "c.yaml:15: the key 'name' appears twice; keep one."


def test_text_that_is_not_yaml_is_refused_with_its_line(tmp_path: Path) -> None:
    assert problem(tmp_path, MINIMAL + "x: [1, 2\n").startswith("c.yaml:16: this is not YAML")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "x: {{a: b}}",
            "c.yaml:15: x: found a key that is a map or a list, expected a name; put a value with braces or brackets",
        ),
        ("x: {y: [{[1]: 2}]}", "c.yaml:15: x.y.0: found a key that is a map or a list"),
        ("? [a]\n: 1", "c.yaml: found a key that is a map or a list"),
    ],
)
def test_a_map_or_a_list_as_a_key_is_refused(tmp_path: Path, text: str, message: str) -> None:
    assert problem(tmp_path, MINIMAL + text + "\n").startswith(message)


def test_a_map_as_a_key_of_an_override_is_refused(tmp_path: Path) -> None:
    said = problem(tmp_path, MINIMAL, "sources={{a: b}: 1}")
    assert said == "--set sources={{a: b}: 1}: the value is not YAML; quote it."


def test_a_template_without_quotes_inside_braces_is_told(tmp_path: Path) -> None:
    said = problem(tmp_path, MINIMAL.replace("{path: out}", "{path: ${HOME}/out}"))
    assert said.endswith("inside braces a value with `${NAME}` needs quotes.")


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


def with_lines(**replaced: str) -> str:
    """The minimal file with whole sections in place of its own, or added at its end."""
    sections = dict(section.split(":", 1) for section in re.split(r"\n(?=\w)", MINIMAL.rstrip()))
    return "\n".join(f"{key}: {text.strip(' ')}" for key, text in (sections | replaced).items()) + "\n"


DATED = "{log: {format: parquet, path: 'log/{date}', days_before: 3, days_after: 1}}"
FEATURE = "{last: {from: v.b, dtype: int64}}"
REDUCED = "{read: {source: log, window: 0s, value: ms, reduce: sum}}"


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (
            "daily_counts: {days: 4, counts: {b: true}}, ttl: 2d",
            "views.v.daily_counts.days: found 4, which needs 4 day(s) before the run date, but 3 are read; "
            "set `sources.log.days_before: 4`, or fewer `days`.",
        ),
        (
            "daily_counts: {days: 3, counts: {b: true}}, available_after: 1h, ttl: 2d",
            "views.v.daily_counts.days: found 3 with `available_after: 1h`, which needs 4 day(s) before the run date, "
            "but 3 are read; set `sources.log.days_before: 4`, or fewer `days`.",
        ),
        (
            "ttl: 73h",
            "views.v.ttl: found 73h, which needs 4 day(s) before the run date, but 3 are read; "
            "set `sources.log.days_before: 4`, or a shorter `ttl`.",
        ),
        (
            "snapshot: ds, ttl: 3d",  # a snapshot of three days before is true as of the end of its day
            "views.v.ttl: found 3d, which needs 4 day(s) before the run date, but 3 are read; "
            "set `sources.log.days_before: 4`, or a shorter `ttl`.",
        ),
    ],
)
def test_a_view_may_not_look_further_back_than_days_are_read(tmp_path: Path, view: str, message: str) -> None:
    time = "" if "snapshot" in view else "event_time: t, "
    views = f"{{v: {{source: log, entity: user, key: k, {time}{view}}}}}"
    text = with_lines(sources=DATED, features=FEATURE, views=views)
    assert problem(tmp_path, text).partition(": ")[2] == message
    undated = "{log: {format: parquet, path: log}}"
    load_config(written(tmp_path, with_lines(sources=undated, features=FEATURE, views=views)))


@pytest.mark.parametrize(
    "view", ["daily_counts: {days: 3, counts: {b: true}}, ttl: unbounded", "ttl: 3d", "ttl: unbounded"]
)
def test_a_view_may_look_back_over_all_days_that_are_read(tmp_path: Path, view: str) -> None:
    views = f"{{v: {{source: log, entity: user, key: k, event_time: t, {view}}}}}"
    load_config(written(tmp_path, with_lines(sources=DATED, features=FEATURE, views=views)))


def test_a_window_that_reaches_into_days_that_are_not_read_is_refused_once_for_each_source(tmp_path: Path) -> None:
    action = "source: actions, time: t, user: u, article: a"
    text = with_lines(
        sources="{log: {format: parquet, path: 'log/{date}'}, actions: {format: table, table: t, date_column: dt}}",
        labels=f"{{near: {{{action}, window: 30m}}, far: {{{action}, window: 25h}}}}",
    )
    found = "found 0, but within `window: 25h` an action, or the last impression before it, may lie up to 2 day(s) after the"
    assert [line.partition(": ")[2] for line in problem(tmp_path, text).splitlines()] == [
        f"sources.log.days_after: {found} run date; set `sources.log.days_after: 2`.",
        f"sources.actions.days_after: {found} run date; set `sources.actions.days_after: 2`.",
    ]
    load_config(written(tmp_path, text), ["sources.log.days_after=2", "sources.actions.days_after=2"])


def test_a_window_of_nothing_needs_no_further_day(tmp_path: Path) -> None:
    text = MINIMAL.replace("path: log.parquet", "path: 'log/{date}'").replace("window: 30m", "window: 0s")
    load_config(written(tmp_path, text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "path: log.parquet",
            "path: log.parquet, date_column: dt",
            "sources.log.date_column: `date_column` is for `format: table` and `format: jdbc`, and this is `format: parquet` "
            "or `orc`; write `{date}` in `path` instead.",
        ),
        ("path: log.parquet", "path: ''", "sources.log.path: found '', expected some text."),
        (
            "format: parquet, path: log.parquet",
            "format: table, table: ''",
            "sources.log.table: found '', expected some text.",
        ),
        (
            "dtype: int64",
            "dtype: int64, hash_buckets: 9, default: 1",
            "features.position: with `hash_buckets` a missing value has an id of its own; remove `default` and `fill`.",
        ),
        (
            "dtype: int64",
            "dtype: string, top_k: 2, shape: [2]",
            "features.position: `top_k` takes the greatest numbers: set `dtype: int64` or `dtype: float32`.",
        ),
        (
            "dtype: int64",
            "dtype: int64, default: 9223372036854775808",
            "features.position: found `default: 9223372036854775808`, expected a whole number of 64 bits for `dtype: int64`.",
        ),
        (
            "dtype: int64",
            "dtype: int64, default: 1.5",
            "features.position: found `default: 1.5`, expected a whole number of 64 bits for `dtype: int64`.",
        ),
        (
            "dtype: int64",
            "dtype: float32, default: .nan",
            "features.position: found `default: nan`, expected a finite number of 32 bits for `dtype: float32`.",
        ),
        (
            "dtype: int64",
            "dtype: float32, default: 1e39",
            "features.position: found `default: 1e+39`, expected a finite number of 32 bits for `dtype: float32`.",
        ),
        (
            "dtype: int64",
            "dtype: string, default: 1",
            "features.position: found `default: 1`, expected text for `dtype: string`.",
        ),
        (
            "path: out",
            "path: 'out/{date}'",
            "output.path: found 'out/{date}', expected no template: the day's directory dt=... is made below it.",
        ),
        (
            "timezone: UTC",
            "timezone: Factory",
            "timezone: found 'Factory', expected a zone of the IANA database, such as UTC or Asia/Shanghai.",
        ),
        ("30m", "36501d", "labels.clicked.window: found '36501d', expected a duration of at most 36500d."),
    ],
)
def test_a_value_that_would_have_no_effect_or_a_wrong_one_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert problem(tmp_path, MINIMAL.replace(old, new, 1)).partition(": ")[2] == message


@pytest.mark.parametrize("default", ["-9223372036854775808", "9223372036854775807"])
def test_the_ends_of_int64_are_valid_defaults(tmp_path: Path, default: str) -> None:
    load_config(written(tmp_path, MINIMAL.replace("dtype: int64", f"dtype: int64, default: {default}")))


@pytest.mark.parametrize("zone", ["UTC", "GMT", "Asia/Shanghai", "America/Argentina/Buenos_Aires"])
def test_zones_of_cities_and_the_universal_ones_are_valid(tmp_path: Path, zone: str) -> None:
    load_config(written(tmp_path, MINIMAL.replace("timezone: UTC", f"timezone: {zone}")))


@pytest.mark.parametrize(
    ("sections", "where", "one", "other"),
    [
        (
            {"features": "{a: {from: impression.user, dtype: string}, A: {from: impression.user, dtype: string}}"},
            "features.A",
            "A",
            "a",
        ),
        ({"features": "{Clicked: {from: impression.user, dtype: string}}"}, "features.Clicked", "Clicked", "clicked"),
        (
            {"features": "{Impression_ID: {from: impression.user, dtype: string}}"},
            "features.Impression_ID",
            "Impression_ID",
            "impression_id",
        ),
        (
            {"labels": REDUCED, "features": "{Read__Mask: {from: impression.user, dtype: string}}"},
            "features.Read__Mask",
            "Read__Mask",
            "read__mask",
        ),
        ({"labels": "{User: {source: log, window: 0s}}"}, "labels.User", "User", "user"),
        (
            {
                "views": "{Clicked: {source: log, entity: user, key: k, static: true}}",
                "features": "{a: {from: Clicked.x, dtype: string}}",
            },
            "views.Clicked",
            "Clicked",
            "clicked",
        ),
        (
            {"impressions": "{source: log, time: t, user: u, article: a, columns: {POSITION: p}}"},
            "impressions.columns.POSITION",
            "POSITION",
            "position",
        ),
        (
            {
                "views": "{v: {source: log, entity: user, key: k, event_time: t, ttl: 1d, "
                "daily_counts: {days: 1, counts: {b: true, B: true}}}}",
                "features": FEATURE,
            },
            "views.v.daily_counts",
            "B",
            "b",
        ),
    ],
)
def test_names_that_differ_only_in_case_are_refused(
    tmp_path: Path, sections: dict[str, str], where: str, one: str, other: str
) -> None:
    assert problem(tmp_path, with_lines(**sections)).partition(": ")[2] == (
        f"{where}: {one!r} and {other!r} differ only in case, which Spark ignores; rename one."
    )


@pytest.mark.parametrize(
    "sections",
    [
        {"labels": REDUCED, "features": "{read__mask: {from: impression.user, dtype: string}}"},
        {"labels": REDUCED.replace("}}", "}, read__mask: {source: log, window: 0s}}")},
    ],
)
def test_the_name_of_a_mask_is_taken(tmp_path: Path, sections: dict[str, str]) -> None:
    assert problem(tmp_path, with_lines(**sections)).partition(": ")[2] == (
        "labels.read: its mask 'read__mask' is also a feature, a label, a view or a column of impressions; rename one."
    )


def test_a_label_that_is_not_reduced_has_no_mask(tmp_path: Path) -> None:
    load_config(written(tmp_path, MINIMAL.replace("  position: {", "  clicked__mask: {")))


@pytest.mark.parametrize(
    "expression",
    [
        "aggregate(impression.position, 0D, (s, t) -> s + t.score)",
        "filter(impression.position, x -> x.score > 1)",
        'if(impression.user = "a.b", 1, 0)',
        "if(impression.user = \"it's a.b\", 'c.d', 'e\"f.g')",
    ],
)
def test_lambda_parameters_and_text_in_quotes_are_no_views(tmp_path: Path, expression: str) -> None:
    features = f"\n  x:\n    dtype: int64\n    expr: >-\n      {expression}"
    load_config(written(tmp_path, with_lines(features=features)))


@pytest.mark.parametrize(
    "expression",
    [
        "item['price']",
        "item .price",
        "item. price",
        "to_json(item)",
        "`item`.price",
        "transform(ARRAY(1), x -> x + Item['a'])",
    ],
)
def test_a_view_is_used_however_its_fields_are_spelled(tmp_path: Path, expression: str) -> None:
    features = f"\n  x:\n    dtype: int64\n    expr: >-\n      {expression}"
    view = "views:\n  item: {source: log, on: article, key: article_id, static: true}\n"
    assert "is used by no feature" in problem(tmp_path, MINIMAL + view)
    load_config(written(tmp_path, with_lines(features=features) + view))


@pytest.mark.parametrize("expression", ["impression['position']", "impression .Position", "impression.POSITION"])
def test_a_column_of_impressions_may_be_spelled_in_any_case(tmp_path: Path, expression: str) -> None:
    load_config(written(tmp_path, with_lines(features=f'\n  x: {{dtype: int64, expr: "{expression}"}}')))


def test_a_view_beside_a_lambda_is_still_checked(tmp_path: Path) -> None:
    features = "\n  x:\n    dtype: int64\n    expr: transform(itm.list, t -> t.score)"
    assert "there is no view 'itm'" in problem(tmp_path, with_lines(features=features))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("output: {path: out}", "output: out", "output: found 'out', expected keys such as `path:`."),
        ("output: {path: out}", "output:", "output: found nothing, expected keys such as `path:`."),
        ("  log: {format: parquet, path: log.parquet}", "  - log", "sources: found a list, expected keys."),
        ("  log: {format: parquet, path: log.parquet}", "  {}", "sources: found no keys, expected at least 1."),
        ("  log: {", "  1: {", "sources.1: found the key 1, expected a name."),
        (
            "  log: {",
            "  a-b: {",
            "sources.a-b: found the key 'a-b', expected a name of letters, digits and `_` that starts with a letter.",
        ),
        ("path: out", "path: out, 1: 2", "output.1: found the key 1, expected a name."),
        (
            "path: out",
            "path: out, a key: 2",
            "output.a key: unknown key; expected one of compression, engine, ids, ids_salt, layout, "
            "order, partitions, path, retention, shard_size.",
        ),
        (
            "name: tiny",
            "name: Tiny",
            "name: found 'Tiny', expected a name of lower-case letters, digits, `_` and `-` that starts with a letter.",
        ),
        ("path: out", "path: 5", "output.path: found 5, expected text."),
        ("path: out", "path: ''", "output.path: found '', expected some text."),
        ("path: out", "path: out, partitions: many", "output.partitions: found 'many', expected a whole number."),
        ("path: out", "path: out, partitions: [8]", "output.partitions: found a list, expected a whole number."),
        ("path: out", "path: out, partitions: 1.5", "output.partitions: found 1.5, expected a whole number."),
        ("path: out", "path: out, partitions: 0", "output.partitions: found 0, expected at least 1."),
        ("path: out", "path: out, partitions: 100001", "output.partitions: found 100001, expected at most 100000."),
        ("output:", "split: {eval: half}\noutput:", "split.eval: found 'half', expected a number."),
        ("output:", "split: {eval: [1]}\noutput:", "split.eval: found a list, expected a number."),
        ("output:", "split: {eval: 1}\noutput:", "split.eval: found 1, expected less than 1.0."),
        (
            "parquet, path: log.parquet",
            "csv, path: x, schema: a INT, header: maybe",
            "sources.log.header: found 'maybe', expected true or false.",
        ),
        (
            "parquet, path: log.parquet",
            "csv, path: x, schema: a INT, header: [1]",
            "sources.log.header: found a list, expected true or false.",
        ),
        ("int64", "int64, shape: 100", "features.position.shape: found 100, expected a list such as [100]."),
        ("int64", "int64, default: [1]", "features.position.default: found a list, expected a number or text."),
        (
            "timezone: UTC",
            f"timezone: {'x' * 500}",
            f"timezone: found '{'x' * 79}..., expected a zone of the IANA database, such as UTC or Asia/Shanghai.",
        ),
    ],
)
def test_a_value_of_the_wrong_kind_is_told_in_plain_words(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert problem(tmp_path, MINIMAL.replace(old, new, 1)).partition(": ")[2] == message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x: \x00", "c.yaml:15: found the control character '\\x00'; remove it."),
        ("x: \x1b[0m", "c.yaml:15: found the control character '\\x1b'; remove it."),
        ("x: 2019-13-45", "c.yaml: this is not YAML: month must be in 1..12"),
        ("x: !!int many", "c.yaml: this is not YAML: invalid literal for int() with base 10: 'many'"),
        ("x: " + "[" * 1000, "c.yaml: the file is nested too deeply; make it flatter."),
    ],
)
def test_what_yaml_cannot_hold_gives_one_line(tmp_path: Path, line: str, message: str) -> None:
    found = problem(tmp_path, MINIMAL + line + "\n")
    assert found.startswith(message)
    assert len(found.splitlines()) == 1


def test_an_override_that_yaml_cannot_hold_is_refused(tmp_path: Path) -> None:
    assert problem(tmp_path, MINIMAL, "name=2019-13-45") == "--set name=2019-13-45: the value is not YAML; quote it."


def test_a_path_may_begin_at_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    text = MINIMAL.replace("path: log.parquet", "path: ~/log").replace("path: out", "path: ~/out")
    loaded = load_config(written(tmp_path, text))
    assert loaded.config.sources["log"].path == "/home/ada/log"
    assert loaded.config.output.path == "/home/ada/out"
    assert loaded.document["output"]["path"] == "~/out"


def test_a_sentence_ends_with_one_mark() -> None:
    assert (
        end_sentence("there is no source 'lag'; did you mean 'log'?") == "there is no source 'lag'; did you mean 'log'?"
    )
    assert end_sentence("expected one of a, b") == "expected one of a, b."
    assert end_sentence("It is so.") == "It is so."


def test_the_plan_says_what_becomes_of_missing_values(tmp_path: Path) -> None:
    plain = explain(load_config(written(tmp_path, MINIMAL)).config)
    assert "  position: int64 from impression.position, missing: 0\n" in plain
    hashed = explain(load_config(written(tmp_path, MINIMAL.replace("int64", "int64, hash_buckets: 9"))).config)
    assert (
        "  position: int64 from impression.position, hashed to 9 ids, missing: the id 0, which no value has\n" in hashed
    )


def test_the_plan_says_what_is_read_again_each_night(tmp_path: Path) -> None:
    how = "{source: log, entity: user, key: user, event_time: t, aggregates: {windows: [7d], counts: {c: 'true'}}}"
    dated = MINIMAL.replace("path: log.parquet", "path: 'log/{date}.parquet', days_before: 8, days_after: 1")
    text = dated.replace("features:\n", f"views:\n  n: {how}\nfeatures:\n  c: {{from: n.c_7d, dtype: int64}}\n", 1)
    assert "kept" not in explain(load_config(written(tmp_path, text)).config)
    kept = explain(load_config(written(tmp_path, f"{text}partials: {{path: kept}}\n")).config)
    assert (
        "    n: finished days are read once, and what is needed of them is kept in kept\n"
        "    so of the days before, a run reads only those whose impressions and actions are near its own\n"
    ) in kept


@pytest.mark.parametrize("name", ["open_bandit", "simulated", "toutiao", "toutiao_legacy_121", "production"])
def test_every_shipped_file_is_valid(name: str) -> None:
    loaded = load_config(PROJECT / "conf" / f"{name}.yaml", environ={"TOUTIAO_LOGS": "logs", "BUCKET": "b"})
    assert loaded.config.name.startswith(name)


# What the environment filled in is told by nothing.

SECRET = "jdbc:derby:memory:shop;user=sa;password=hush-hush"


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("dtype: int64", "dtype: '${X}'", "features.position.dtype: found '${X}', expected 'int64'"),
        ("timezone: UTC", "timezone: 'UTC ${X}'", "timezone: found 'UTC ${X}', expected a zone"),
        ("source: log\n", "source: '${X}'\n", "impressions.source: found '${X}', expected a name"),
        ("30m", "'${X}'", "labels.clicked.window: found '${X}', expected a duration"),
        ("{path: out}", "{path: out, partitions: '${X}'}", "output.partitions: found '${X}', expected a whole number"),
        ("path: log.parquet", "path: '{${X}}'", "sources.log.path: found '{${X}}', the only templates in a path"),
        ("impression.position", "'impression.${X}'", "features.position.from: 'impression.${X}'"),
        ("impression.position", "'${X}.position'", "features.position.from"),
    ],
)
@pytest.mark.parametrize(
    "value", [SECRET, 'it\'s "hushed"\\ hush-hush', "hush-hush" * 30, "hush-hush\nhush-hush", "käse hush-hush"]
)
def test_no_error_tells_what_the_environment_filled_in(
    tmp_path: Path, old: str, new: str, shown: str, value: str
) -> None:
    message = problem(tmp_path, MINIMAL.replace(old, new), environ={"X": value})
    assert "hush" not in message
    assert shown in message


def test_a_value_is_masked_however_it_is_quoted() -> None:
    value = 'it\'s 50% "a\\b"/[x]\nsecond line'
    urls = [quote(value), quote(value, safe=""), quote_plus(value)]
    escaped = [repr(value), json.dumps({"a": value}), value.replace("'", "''"), value.replace("[", "\\[")]
    for text in [value, *value.splitlines(), *urls, *escaped]:
        hidden = mask(f"before {text} after", {"X": value})
        assert "${X}" in hidden
        assert not re.search("50|second", hidden)
        assert hidden.startswith("before ")
        assert hidden.endswith(" after")


@pytest.mark.parametrize(
    ("address", "part"),
    [
        ("jdbc:postgresql://bob:hush-hush@db/shop", "hush-hush"),
        ("jdbc:postgresql://bob:h%40sh@db/shop", "h@sh"),
        ("jdbc:postgresql://db/shop?user=bob&password=hush-hush&ssl=true", "hush-hush"),
        ("jdbc:sqlserver://db;databaseName=shop;trustStorePassword=hush-hush", "hush-hush"),
        ("jdbc:snowflake://db/?private_key_file_pwd=hush-hush", "hush-hush"),
        ("jdbc:oracle:thin:bob/hush-hush@//db:1521/shop", "hush-hush"),
    ],
)
def test_the_secret_part_of_an_address_is_masked_for_itself(address: str, part: str) -> None:
    assert mask(f"login {part} refused", {"DB_URL": address}) == "login ${DB_URL} refused"


def test_a_short_value_is_masked_as_a_word_and_not_inside_of_others() -> None:
    assert mask("7 of 17 lines, day 2019-06-07, x=7;", {"N": "7"}) == "${N} of 17 lines, day 2019-06-07, x=${N};"


def test_of_two_values_the_longer_one_is_masked_first() -> None:
    filled = {"USER": "bob", "URL": "jdbc:x://bob@db"}
    assert mask("jdbc:x://bob@db is down", filled) == "${URL} is down"


def test_an_empty_value_masks_nothing() -> None:
    assert mask("as it is", {"X": ""}) == "as it is"


def test_values_are_forgotten_at_the_end_of_a_command() -> None:
    with masking():
        remember({"X": "hush-hush"})
        assert masked("hush-hush") == "${X}"
    assert masked("hush-hush") == "hush-hush"
    remember({"X": "hush-hush"})
    assert masked("hush-hush") == "hush-hush"


@pytest.mark.parametrize(
    "address",
    [
        "s3://AKIA1:hush0@bucket/x",
        "s3a://AKIA1:hu/sh+0@bucket/x",
        "s3a://AKIA1:hu@sh0@bucket/{date}",
        "s3://AKIA1@bucket/x",
        "S3A://AKIA1:hush0@bucket",
        "gs://AKIA1:hush0@bucket/x",
        "abfss://name1:hush0@account.dfs.core.windows.net/x",
        "hdfs://bob1:hush0@namenode:8020/x",
        "https://bob1:hush0@host/x",
        " s3://AKIA1:hush0@bucket/x",
    ],
)
@pytest.mark.parametrize("key", ["sources.log.path", "output.path"])
@pytest.mark.parametrize("filled", [False, True])
def test_an_address_with_credentials_is_refused_and_not_repeated(
    tmp_path: Path, address: str, key: str, filled: bool
) -> None:
    override = f"{key}='${{X}}'" if filled else f"{key}='{address}'"
    message = problem(tmp_path, MINIMAL, override, environ={"X": address})
    assert f"{key}: " in message
    assert re.search("the address holds credentials.*leave them out|found (an address with credentials|'\\$)", message)
    assert not re.search("AKIA1|hu|sh0|bob1|name1", message)


@pytest.mark.parametrize(
    "address",
    [
        "s3://bucket/a@b:c",
        "abfss://c@account.dfs.core.windows.net/x",
        "hdfs://nn:8020/x",
        "/data/a:b@c",
        "file:///a@b:c",
        "hdfs://nn/x@y",
    ],
)
def test_an_address_without_credentials_is_taken(tmp_path: Path, address: str) -> None:
    load_config(written(tmp_path, MINIMAL), [f"sources.log.path='{address}'"])


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://h/d?user=a&password=hush",
        "jdbc:postgresql://h/d?sslpassword=hush",
        "jdbc:mysql://bob:hu/sh@h/d",
        "jdbc:oracle:thin:bob/hush@h",
        "jdbc:snowflake://h/?private_key_file_pwd=hush",
        "jdbc:bigquery://h;OAuthPvtKey=hush",
        "jdbc:sqlserver://h;accessToken=hush",
    ],
)
def test_a_secret_in_the_url_of_the_file_is_refused(url: str) -> None:
    (found,) = check_secrets({"sources": {"db": {"url": url}}})
    assert found.where == ("sources", "db", "url")
    assert "hush" not in found.what


def test_what_spark_sees_in_its_plans_is_known_by_name(tmp_path: Path) -> None:
    text = MINIMAL.replace("format: parquet, path: log.parquet", "format: jdbc, table: '${T}', url: '${U}', user: '${N}', "
                           "password: '${P}'").replace("click = 1", '"token = ${S}"')  # fmt: skip
    environ = {"T": "t", "U": "jdbc:derby:x", "N": "bob", "P": "hush", "S": "hush", "O": "out"}
    assert load_config(written(tmp_path, text.replace("path: out", "path: '${O}'")), (), environ).in_plans == ["S", "T"]


@pytest.mark.parametrize("from_cause", [False, True])
def test_an_error_of_a_run_tells_no_value_and_hides_the_cause_that_does(tmp_path: Path, from_cause: bool) -> None:
    text = MINIMAL.replace("click = 1", '"token = ${X}"')
    loaded = load_config(written(tmp_path, text), (), {"X": "hush-hush"})
    said = "refused" if from_cause else "hush-hush refused"
    with pytest.raises(InputError) as caught, loaded.masked_errors():
        raise InputError(said) from (ValueError("hush-hush") if from_cause else None)
    assert str(caught.value) == ("refused" if from_cause else "${X} refused")
    assert "hush" not in "".join(traceback.format_exception(caught.value, limit=0))


def test_an_error_that_tells_nothing_keeps_its_cause(tmp_path: Path) -> None:
    loaded = load_config(written(tmp_path, MINIMAL))
    cause = ValueError("7")
    with pytest.raises(InputError) as caught, loaded.masked_errors():
        raise InputError("found 7") from cause
    assert caught.value.__cause__ is cause


@pytest.mark.parametrize(
    ("read", "written_to", "how"),
    [
        ("logs", "logs/out", "lies inside of"),
        ("logs/dt={date}", "file:{here}/logs/../logs/", "is above"),
        ("file://{here}/logs", "logs", "is the same directory as"),
    ],
)
def test_an_output_that_overlaps_with_an_input_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str, written_to: str, how: str
) -> None:
    monkeypatch.chdir(tmp_path)
    read, written_to = (text.replace("{here}", str(tmp_path)) for text in (read, written_to))
    message = problem(tmp_path, MINIMAL, f"sources.log.path='{read}'", f"output.path='{written_to}'")
    assert f"output.path: found '{written_to}', which {how} `sources.log.path: {read}`; choose another" in message


@pytest.mark.parametrize(
    "source",
    [
        "from: 'user.`age:token`'",
        "from: '`user`.`age:token`'",
        "from: user.__index_level_0__",
        "from: 'user.`a``b.c`'",
        "expr: 'length(user.`it''s`)'",
        "expr: 'coalesce(user.`a b.c`, impression.position)'",
    ],
)
def test_names_of_any_characters_stand_between_backticks(tmp_path: Path, source: str) -> None:
    views = "views:\n  user: {source: log, entity: user, key: k, static: true}\noutput:"
    text = MINIMAL.replace("output:", views).replace("features:", f"features:\n  n: {{{source}, dtype: int64}}")
    load_config(written(tmp_path, text))


@pytest.mark.parametrize(
    "source", ["from: 'user.age:token'", "from: 'user.`age'", "from: 'user.``'", "from: '`user.age`'"]
)
def test_a_name_of_other_characters_without_backticks_is_refused(tmp_path: Path, source: str) -> None:
    text = MINIMAL.replace("features:", f"features:\n  n: {{{source}, dtype: int64}}")
    assert "put a name with characters other than letters, digits and `_` between backticks." in problem(tmp_path, text)


def test_a_column_between_backticks_is_looked_for_like_any_other(tmp_path: Path) -> None:
    text = (
        MINIMAL.replace("impression.position", "impression.`postion`")
        .replace("{from: ", "{from: '")
        .replace("`postion`", "`postion`'")
    )
    assert "impressions have no column 'postion'; did you mean 'position'?" in problem(tmp_path, text)


LISTS = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
LISTS += [f"a{i}: &a{i} [{', '.join(10 * [f'*a{i - 1}'])}]" for i in range(1, 10)]
KEYS = ["a0: &a0 {x: 1, y: 1}", *[f"a{i}: &a{i} {{x: *a{i - 1}, y: *a{i - 1}}}" for i in range(1, 60)]]


@pytest.mark.parametrize("bomb", [LISTS, KEYS])
def test_aliases_that_stand_for_billions_of_values_are_refused(tmp_path: Path, bomb: list[str]) -> None:
    message = problem(tmp_path, MINIMAL + "\n".join(bomb) + "\n")
    assert re.fullmatch(r"c\.yaml has [\d,]+ values once its aliases are expanded, expected at most 200,000\.", message)


@pytest.mark.parametrize("value", ["&x [*x]", "&x {y: [1, *x]}"])
def test_an_alias_of_a_part_of_itself_is_refused(tmp_path: Path, value: str) -> None:
    message = problem(tmp_path, MINIMAL, f"x={value}")
    assert message == "c.yaml has an alias that refers to a part of itself; write the part out."


def test_aliases_of_ordinary_size_are_filled_in(tmp_path: Path) -> None:
    text = MINIMAL.replace("position: {from", "position: &p {from").replace("output:", "  again: *p\noutput:")
    assert load_config(written(tmp_path, text)).config.features["again"].from_ == "impression.position"


def test_a_bomb_in_an_override_is_refused(tmp_path: Path) -> None:
    parts = ["&a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    parts += [f"&a{i} [{', '.join(10 * [f'*a{i - 1}'])}]" for i in range(1, 10)]
    assert "values once its aliases are expanded" in problem(tmp_path, MINIMAL, f"x=[{', '.join(parts)}]")


def test_a_file_of_megabytes_is_refused_unread(tmp_path: Path) -> None:
    assert problem(tmp_path, MINIMAL + "#" * (2 << 20)).endswith("expected a configuration of at most 2 MiB.")
