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
from ctr_samples.config.masking import mask
from ctr_samples.config.references import check_secrets
from ctr_samples.errors import ConfigError, InputError
from tests.support.minimal_config import MINIMAL, problem, with_lines, with_view, written
from tests.support.project import PROJECT


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


A_DURATION = "expected a duration such as 30s, 30m, 2h or 7d"
A_ZONE = "expected a zone of the IANA database, such as UTC or Asia/Shanghai."


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("labels.clicked.window=30", f"found 30, {A_DURATION}."),
        ("timezone=Shanghai", f"found 'Shanghai', {A_ZONE}"),
        ("timezone=Factory", f"found 'Factory', {A_ZONE}"),
        (f"timezone={'x' * 500}", f"found '{'x' * 79}..., {A_ZONE}"),
        ("sources.log.format=parket", "found 'parket', expected 'json', 'csv', 'parquet', 'orc', 'table' or 'jdbc'."),
        ("features.position.dtype=int32", "found 'int32', expected 'int64', 'float32', 'string' or 'bytes'."),
        (
            "sources.log.path='log/{day}'",
            "found 'log/{day}', the only templates in a path are {date} and {hour}, as they are or as {date:%Y%m%d}, "
            "not {day}.",
        ),
        ("impressions.source=lag", "there is no source 'lag'; did you mean 'log'?"),
        ("features.position.from=impression.postion", "impressions have no column 'postion'; did you mean 'position'?"),
        ("features.position.from=impression.`postion`", "impressions have no column 'postion'; did you mean 'position'?"),
        ("features.position.from=item.price", "there is no view 'item'; expected one of impression."),
        (
            "features.clicked={from: impression.position, dtype: int64}",
            "is the name of a label or of a column that the job adds; rename it.",
        ),
        (
            "sources.log.date_column=dt",
            "`date_column` is for `format: table` and `format: jdbc`, and this is `format: parquet` or `orc`; write "
            "`{date}` in `path` instead.",
        ),
        ("sources.log.path=''", "found '', expected some text."),
        ("sources.log={format: table, table: ''}", "sources.log.table: found '', expected some text."),
        (
            "features.position={from: impression.position, dtype: int64, hash_buckets: 9, default: 1}",
            "with `hash_buckets` a missing value has an id of its own; remove `default` and `fill`.",
        ),
        (
            "features.position={from: impression.position, dtype: string, top_k: 2, shape: [2]}",
            "`top_k` takes the greatest numbers: set `dtype: int64` or `dtype: float32`.",
        ),
        ("output.path='out/{date}'", "found 'out/{date}', expected no template: the day's directory dt=... is made below it."),
        ("output=out", "found 'out', expected keys such as `path:`."),
        ("output=null", "found nothing, expected keys such as `path:`."),
        ("sources=[log]", "found a list, expected keys."),
        ("sources={}", "found no keys, expected at least 1."),
        ("sources={1: {format: parquet, path: x}}", "sources.1: found the key 1, expected a name."),
        (
            "sources={a-b: {format: parquet, path: x}}",
            "sources.a-b: found the key 'a-b', expected a name of letters, digits and `_` that starts with a letter.",
        ),
        ("output={path: out, 1: 2}", "output.1: found the key 1, expected a name."),
        (
            "output={path: out, a key: 2}",
            "output.a key: unknown key; expected one of compression, engine, ids, ids_salt, layout, "
            "order, partitions, path, retention, shard_size.",
        ),
        ("name=Tiny", "found 'Tiny', expected a name of lower-case letters, digits, `_` and `-` that starts with a letter."),
        ("output.path=5", "found 5, expected text."),
        ("output.path=''", "found '', expected some text."),
        ("output.partitions=many", "found 'many', expected a whole number."),
        ("output.partitions=[8]", "found a list, expected a whole number."),
        ("output.partitions=1.5", "found 1.5, expected a whole number."),
        ("output.partitions=0", "found 0, expected at least 1."),
        ("output.partitions=100001", "found 100001, expected at most 100000."),
        ("split.eval=half", "found 'half', expected a number."),
        ("split.eval=[1]", "found a list, expected a number."),
        ("split.eval=1", "found 1, expected less than 1.0."),
        (
            "sources.log={format: csv, path: x, schema: a INT, header: maybe}",
            "sources.log.header: found 'maybe', expected true or false.",
        ),
        (
            "sources.log={format: csv, path: x, schema: a INT, header: [1]}",
            "sources.log.header: found a list, expected true or false.",
        ),
        ("features.position.shape=100", "found 100, expected a list such as [100]."),
        ("features.position.default=[1]", "found a list, expected a number or text."),
        ("output.path='${OUT}'", "the environment variable OUT is not set; set it before the run."),
        ("state={path: kept}", "the key `state` is called `partials` now."),
        (
            "histories.h={source: log, last: 3, within: 1h, available_after: 61m}",
            "found `within: 1h` with `available_after: 61m`: an action would be too old before it is known; expected a longer "
            "`within`.",
        ),
        (
            "features.x={dtype: int64, expr: 'transform(itm.list, t -> t.score)'}",
            "features.x.expr: there is no view 'itm'; expected one of impression.",
        ),
    ],
)  # fmt: skip
def test_a_wrong_value_says_what_was_found_and_expected(tmp_path: Path, override: str, message: str) -> None:
    said = problem(tmp_path, MINIMAL, override).partition(": ")[2]
    assert said.removeprefix(f"{override.partition('=')[0]}: ") == message


@pytest.mark.parametrize(
    ("dtype", "default", "found", "expected"),
    [
        ("int64", "9223372036854775808", "9223372036854775808", "a whole number of 64 bits"),
        ("int64", "1.5", "1.5", "a whole number of 64 bits"),
        ("float32", ".nan", "nan", "a finite number of 32 bits"),
        ("float32", "1e39", "1e+39", "a finite number of 32 bits"),
        ("string", "1", "1", "text"),
    ],
)
def test_a_default_is_of_the_type_of_its_feature(
    tmp_path: Path, dtype: str, default: str, found: str, expected: str
) -> None:
    feature = f"features.position={{from: impression.position, dtype: {dtype}, default: {default}}}"
    assert problem(tmp_path, MINIMAL, feature) == (
        f"c.yaml:13: features.position: found `default: {found}`, expected {expected} for `dtype: {dtype}`."
    )


def test_a_label_may_not_be_named_like_a_column_of_impressions(tmp_path: Path) -> None:
    text = MINIMAL.replace("  clicked: {", "  position: {").replace("  position: {from", "  place: {from")
    assert problem(tmp_path, text) == (
        "c.yaml:11: labels.position: 'position' is also a view or a column of impressions; rename one."
    )


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ("event_time: t", "views.v: the key `ttl` is missing; say how old a row may be, or `ttl: unbounded`."),
        (
            "event_time: t, static: true",
            "views.v.event_time: `event_time` is for events, daily counts and windows, and `static` is for tables without "
            "times; a view is one of them. Remove one.",
        ),
        ("snapshot: ds, ttl: 3d, event_time: t", "`event_time` is for events, daily counts and windows, and `snapshot` is for"),
        ("snapshot: ds, ttl: 3d, inclusive: true", "`inclusive` is for events and daily counts, and `snapshot` is for"),
        ("snapshot: ds, ttl: 3d, available_after: 2h", "say with `publish_delay` when a snapshot is there instead."),
        ("event_time: t, ttl: 3d, publish_delay: 2h", "`publish_delay` is for snapshots and `event_time` is for events;"),
        (
            "event_time: t, ttl: 3d, method: snapshots",
            "views.v.method: found 'snapshots', expected 'union' or 'intervals': `snapshots` is for views with `snapshot`.",
        ),
        ("static: true, tombstone: gone", "`tombstone` is for events and snapshots, and `static` is for tables without times;"),
        ("static: true, snapshot: ds", "`snapshot` is for snapshots and `static` is for tables without times; a view is"),
        ("static: 'no'", "views.v.static: found 'no', expected true, or the key that says when a row became true"),
        (
            "snapshot: ds, event_time: t, aggregates: {windows: [1h], counts: {n: true}}",
            "views.v.snapshot: `snapshot` is for snapshots and `aggregates` is for windows; a view is one of them.",
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
            "event_time: t, ttl: 3d, valid_to: e, daily_counts: {days: 1, counts: {n: true}}",
            "`valid_to` is for events and `daily_counts` is for daily counts; its rows are counted. Remove one.",
        ),
        (
            "snapshot: ds, ttl: 1d, publish_delay: 2h",
            "found `ttl: 1d` with `publish_delay: 2h`: the newest row is 26h old when the next day's becomes known, so some "
            "hours of each day would have no features; set `ttl: 2d` or longer.",
        ),
        ("event_time: t, available_time: k, available_after: 1h, ttl: 1d", "give `available_time` or `available_after`"),
        ("event_time: t, closed_available: k, ttl: 1d", "`closed_available` needs `valid_to`, which says when a row ceased"),
        ("snapshot: ds, ttl: 3d, valid_to: e", "`valid_to` is for events and `snapshot` is for snapshots; a view is one"),
        ("snapshot: ds, ttl: 12h", "found `ttl: 12h` with `publish_delay: 0s`: the newest row is 1d old"),
        ("snapshot: ds, ttl: 2d, publish_delay: 24001m", "the newest row is 25441m old when the next day's becomes known"),
        (
            "event_time: t, ttl: 1d, available_after: 1s, daily_counts: {days: 1, counts: {n: true}}",
            "found `ttl: 1d` with `available_after: 1s`: the newest row is 86401s old",
        ),
        (
            "event_time: t, ttl: 1h, available_after: 61m",
            "found `ttl: 1h` with `available_after: 61m`: a row would be too old before it is known; expected a longer `ttl`.",
        ),
    ],
)  # fmt: skip
def test_a_view_whose_clocks_contradict_each_other_is_refused(tmp_path: Path, view: str, message: str) -> None:
    assert message in problem(tmp_path, with_view(view))


@pytest.mark.parametrize(
    ("view", "messages"),
    [
        (
            "event_time: t, agregates: {windows: [1h], counts: {n: true}}",
            [": the key `aggregates` is missing.", ".agregates: unknown key; did you mean 'aggregates'?"],
        ),
        (
            "snapshots: ds, ttl: 1d",
            [": the key `snapshot` is missing.", ".snapshots: unknown key; did you mean 'snapshot'?"],
        ),
        ("snapshot: ds, ttl: 1d, publish_dely: 2h", [".publish_dely: unknown key; did you mean 'publish_delay'?"]),
        ("publish_delay: 2h, ttl: 2d", [": the key `snapshot` is missing."]),
        (
            "static: true, colour: red",
            [".colour: unknown key; expected one of article_key, entity, key, on, source, static, where."],
        ),
        ("ttl: 1d", [": the key `event_time` is missing; a table that never changes says `static: true` instead."]),
        ("event_time: t, ttl: soon", [f".ttl: found 'soon', {A_DURATION}, or `unbounded`."]),
        (
            "event_time: t, aggregates: {windows: [1h], count: {n: true}}",
            [".aggregates.count: unknown key; did you mean 'counts'?"],
        ),
    ],
)
def test_an_unknown_key_of_a_view_names_the_nearest_of_the_kind_that_is_meant(
    tmp_path: Path, view: str, messages: list[str]
) -> None:
    assert problem(tmp_path, with_view(view)).splitlines() == [f"c.yaml:16: views.v{message}" for message in messages]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("5", ": found 5, expected keys such as `format:`."),
        ("{path: x}", ": the key `format` is missing."),
        (
            "{format: [csv], path: x}",
            ".format: found a list, expected 'json', 'csv', 'parquet', 'orc', 'table' or 'jdbc'.",
        ),
        ("{format: json, path: x}", ": the key `schema` is missing; without it, types would depend on one day's data."),
        ("{format: csv, path: x, schema: a INT, delimeter: ;}", ".delimeter: unknown key; did you mean 'delimiter'?"),
        ("{format: parquet, path: x, delimeter: ;}", ".delimeter: unknown key; did you mean 'delimiter'?"),
        (
            "{format: orc, path: x, user: sa}",
            ".user: `user` is for `format: jdbc` and this is `format: parquet` or `orc`; a source is one of them. Remove one.",
        ),
        (
            "{format: jdbc, url: 'jdbc:x', table: t, partition: {column: a, lower: 1, upper: 2}}",
            ".partition: the key `count` is missing.",
        ),
    ],
)
def test_a_key_of_a_source_fits_its_format(tmp_path: Path, source: str, message: str) -> None:
    assert problem(tmp_path, MINIMAL, f"sources.log={source}") == f"c.yaml:4: sources.log{message}"


def test_what_is_null_or_false_says_nothing_of_another_kind(tmp_path: Path) -> None:
    off = "static: false, snapshot: null, daily_counts: null, aggregates: null, publish_delay: null"
    text = with_view(f"event_time: t, ttl: 1d, {off}").replace(
        "log.parquet}", "log.parquet, header: false, date_column: null}"
    )
    loaded = load_config(written(tmp_path, text))
    plain = text.replace(f", {off}", "").replace(", header: false, date_column: null", "")
    assert loaded.config == load_config(written(tmp_path, plain)).config


def test_equal_views_are_written_alike_whatever_the_order_of_their_keys(tmp_path: Path) -> None:
    keys = ["source: log", "entity: user", "key: k", "snapshot: ds", "ttl: 1d", "method: null"]
    dumps = [
        json.dumps(load_config(written(tmp_path, text)).config.model_dump(mode="json", by_alias=True))
        for order in (keys, keys[::-1], keys[:-1])
        for text in [with_lines(views=f"{{v: {{{', '.join(order)}}}}}", features="{last: {from: v.b, dtype: int64}}")]
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
    load_config(written(tmp_path, with_view(view)))


def test_no_hint_leads_to_a_ttl_that_is_refused(tmp_path: Path) -> None:
    text = with_view("snapshot: ds, publish_delay: 2h, ttl: 2d")
    dated = text.replace("path: log.parquet", "path: 'log/dt={date}', days_before: 1, days_after: 1")
    assert "set `sources.log.days_before: 3`." in problem(tmp_path, dated)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("name: again", "c.yaml:15: the key 'name' appears twice; keep one."),
        ("x: [1, 2", "c.yaml:16: this is not YAML"),
        ("x: {a: ${HOME}/out}", "inside braces a value with `${NAME}` needs quotes."),
        (
            "x: {{a: b}}",
            "c.yaml:15: x: found a key that is a map or a list, expected a name; put a value with braces or brackets",
        ),
        ("x: {y: [{[1]: 2}]}", "c.yaml:15: x.y.0: found a key that is a map or a list"),
        ("? [a]\n: 1", "c.yaml: found a key that is a map or a list"),
        ("x: \x00", "c.yaml:15: found the control character '\\x00'; remove it."),
        ("x: \x1b[0m", "c.yaml:15: found the control character '\\x1b'; remove it."),
        ("x: 2019-13-45", "c.yaml: this is not YAML: month must be in 1..12"),
        ("x: !!int many", "c.yaml: this is not YAML: invalid literal for int() with base 10: 'many'"),
        ("x: " + "[" * 1000, "c.yaml: the file is nested too deeply; make it flatter."),
    ],
)
def test_text_that_is_not_yaml_or_has_no_names_as_keys_gives_one_line(tmp_path: Path, line: str, message: str) -> None:
    found = problem(tmp_path, MINIMAL + line + "\n")
    assert message in found
    assert len(found.splitlines()) == 1


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("sources={{a: b}: 1}", "--set sources={{a: b}: 1}: the value is not YAML; quote it."),
        ("name=2019-13-45", "--set name=2019-13-45: the value is not YAML; quote it."),
        ("output", "--set output: expected the form a.b=value, such as output.path=build/samples."),
        ("x=&x [*x]", "c.yaml has an alias that refers to a part of itself; write the part out."),
        ("x=&x {y: [1, *x]}", "c.yaml has an alias that refers to a part of itself; write the part out."),
    ],
)
def test_an_override_that_is_no_value_is_refused(tmp_path: Path, override: str, message: str) -> None:
    assert problem(tmp_path, MINIMAL, override) == message


def test_a_file_that_is_empty_missing_or_without_a_key_is_told(tmp_path: Path) -> None:
    assert problem(tmp_path, "") == "c.yaml: found an empty file, expected keys such as `name:` and `sources:`."
    assert problem(tmp_path, MINIMAL.replace("name: tiny\n", "")) == "c.yaml: the key `name` is missing."
    with pytest.raises(ConfigError, match=r"There is no configuration file .*nowhere\.yaml"):
        load_config(tmp_path / "nowhere.yaml")


def test_an_override_wins_over_the_file_and_is_checked_like_it(tmp_path: Path) -> None:
    loaded = load_config(written(tmp_path, MINIMAL), ["output.path=elsewhere", "output.partitions=3"])
    assert loaded.config.output.path == "elsewhere"
    assert loaded.document["output"] == {"path": "elsewhere", "partitions": 3}
    said = problem(tmp_path, MINIMAL, "output.partition=3")
    assert "output.partition: unknown key; did you mean 'partitions'?" in said


def test_the_environment_fills_templates_but_never_the_document(tmp_path: Path) -> None:
    path = written(tmp_path, MINIMAL.replace("path: out", "path: 's3://${BUCKET}/x'"))
    loaded = load_config(path, environ={"BUCKET": "secret"})
    assert loaded.config.output.path == "s3://secret/x"
    assert loaded.document["output"]["path"] == "s3://${BUCKET}/x"


REDUCED = "{read: {source: log, window: 0s, value: ms, reduce: sum}}"


def with_view_of_three_days(view: str) -> str:
    """The minimal file with a view of a log of which three days before the run date are read."""
    return with_view(view, "from: v.b").replace("log.parquet", "'log/{date}', days_before: 3, days_after: 1")


@pytest.mark.parametrize(
    ("view", "found", "instead"),
    [
        (
            "event_time: t, daily_counts: {days: 4, counts: {b: true}}, ttl: 2d",
            "daily_counts.days: found 4",
            "fewer `days`",
        ),
        (
            "event_time: t, daily_counts: {days: 3, counts: {b: true}}, available_after: 1h, ttl: 2d",
            "daily_counts.days: found 3 with `available_after: 1h`",
            "fewer `days`",
        ),
        ("event_time: t, ttl: 73h", "ttl: found 73h", "a shorter `ttl`"),
        # A snapshot of three days before is true as of the end of its day.
        ("snapshot: ds, ttl: 3d", "ttl: found 3d", "a shorter `ttl`"),
    ],
)
def test_a_view_may_not_look_further_back_than_days_are_read(
    tmp_path: Path, view: str, found: str, instead: str
) -> None:
    assert problem(tmp_path, with_view_of_three_days(view)).partition(": ")[2] == (
        f"views.v.{found}, which needs 4 day(s) before the run date, but 3 are read; "
        f"set `sources.log.days_before: 4`, or {instead}."
    )
    load_config(written(tmp_path, with_view(view, "from: v.b")))


@pytest.mark.parametrize(
    "view", ["daily_counts: {days: 3, counts: {b: true}}, ttl: unbounded", "ttl: 3d", "ttl: unbounded"]
)
def test_a_view_may_look_back_over_all_days_that_are_read(tmp_path: Path, view: str) -> None:
    load_config(written(tmp_path, with_view_of_three_days(f"event_time: t, {view}")))


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


@pytest.mark.parametrize("default", ["-9223372036854775808", "9223372036854775807"])
def test_the_ends_of_int64_are_valid_defaults(tmp_path: Path, default: str) -> None:
    load_config(written(tmp_path, MINIMAL.replace("dtype: int64", f"dtype: int64, default: {default}")))


@pytest.mark.parametrize("zone", ["UTC", "GMT", "Asia/Shanghai", "America/Argentina/Buenos_Aires"])
def test_zones_of_cities_and_the_universal_ones_are_valid(tmp_path: Path, zone: str) -> None:
    load_config(written(tmp_path, MINIMAL.replace("timezone: UTC", f"timezone: {zone}")))


TEXT = "{from: impression.user, dtype: string}"


@pytest.mark.parametrize(
    ("place", "name", "sections"),
    [
        ("features.", "A", {"features": f"{{a: {TEXT}, A: {TEXT}}}"}),
        ("features.", "Clicked", {"features": f"{{Clicked: {TEXT}}}"}),
        ("features.", "Impression_ID", {"features": f"{{Impression_ID: {TEXT}}}"}),
        ("features.", "Read__Mask", {"labels": REDUCED, "features": f"{{Read__Mask: {TEXT}}}"}),
        ("labels.", "User", {"labels": "{User: {source: log, window: 0s}}"}),
        (
            "views.",
            "Clicked",
            {
                "views": "{Clicked: {source: log, entity: user, key: k, static: true}}",
                "features": "{a: {from: Clicked.x, dtype: string}}",
            },
        ),
        (
            "impressions.columns.",
            "POSITION",
            {"impressions": "{source: log, time: t, user: u, article: a, columns: {POSITION: p}}"},
        ),
    ],
)
def test_names_that_differ_only_in_case_are_refused(
    tmp_path: Path, place: str, name: str, sections: dict[str, str]
) -> None:
    assert problem(tmp_path, with_lines(**sections)).partition(": ")[2] == (
        f"{place}{name}: {name!r} and {name.lower()!r} differ only in case, which Spark ignores; rename one."
    )


def test_counts_whose_names_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    said = problem(tmp_path, with_view("event_time: t, ttl: 1d, daily_counts: {days: 1, counts: {b: true, B: true}}"))
    assert "views.v.daily_counts: 'B' and 'b' differ only in case, which Spark ignores; rename one." in said


@pytest.mark.parametrize(
    "sections",
    [
        {"labels": REDUCED, "features": f"{{read__mask: {TEXT}}}"},
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
        "impression['position']",
        "impression .Position",
        "impression.POSITION",
    ],
)
def test_columns_in_any_case_parameters_of_lambdas_and_text_in_quotes_are_no_views(
    tmp_path: Path, expression: str
) -> None:
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


def test_a_path_may_begin_at_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    text = MINIMAL.replace("path: log.parquet", "path: ~/log").replace("path: out", "path: ~/out")
    loaded = load_config(written(tmp_path, text))
    assert loaded.config.sources["log"].path == "/home/ada/log"
    assert loaded.config.output.path == "/home/ada/out"
    assert loaded.document["output"]["path"] == "~/out"


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


def test_a_short_value_is_masked_as_a_word_and_the_longer_one_of_two_first() -> None:
    assert mask("7 of 17 lines, day 2019-06-07, x=7;", {"N": "7"}) == "${N} of 17 lines, day 2019-06-07, x=${N};"
    assert mask("bob@db is down", {"USER": "bob", "URL": "bob@db"}) == "${URL} is down"


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


def test_an_output_that_overlaps_with_an_input_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    message = problem(tmp_path, MINIMAL, f"sources.log.path='file://{tmp_path}/logs'", "output.path=logs/out")
    how = f"which lies inside of `sources.log.path: file://{tmp_path}/logs`; choose another"
    assert f"output.path: found 'logs/out', {how}" in message


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
    load_config(written(tmp_path, with_view("static: true", source).replace(" v:", " user:")))


@pytest.mark.parametrize(
    "source", ["from: 'user.age:token'", "from: 'user.`age'", "from: 'user.``'", "from: '`user.age`'"]
)
def test_a_name_of_other_characters_without_backticks_is_refused(tmp_path: Path, source: str) -> None:
    text = MINIMAL.replace("features:", f"features:\n  n: {{{source}, dtype: int64}}")
    assert "put a name with characters other than letters, digits and `_` between backticks." in problem(tmp_path, text)


LISTS = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
LISTS += [f"a{i}: &a{i} [{', '.join(10 * [f'*a{i - 1}'])}]" for i in range(1, 10)]
KEYS = ["a0: &a0 {x: 1, y: 1}", *[f"a{i}: &a{i} {{x: *a{i - 1}, y: *a{i - 1}}}" for i in range(1, 60)]]


@pytest.mark.parametrize("bomb", [LISTS, KEYS])
def test_aliases_that_stand_for_billions_of_values_are_refused(tmp_path: Path, bomb: list[str]) -> None:
    message = problem(tmp_path, MINIMAL + "\n".join(bomb) + "\n")
    assert re.fullmatch(r"c\.yaml has [\d,]+ values once its aliases are expanded, expected at most 200,000\.", message)


def test_aliases_of_ordinary_size_are_filled_in(tmp_path: Path) -> None:
    text = MINIMAL.replace("position: {from", "position: &p {from").replace("output:", "  again: *p\noutput:")
    assert load_config(written(tmp_path, text)).config.features["again"].from_ == "impression.position"


def test_a_file_of_megabytes_is_refused_unread(tmp_path: Path) -> None:
    assert problem(tmp_path, MINIMAL + "#" * (2 << 20)).endswith("expected a configuration of at most 2 MiB.")
