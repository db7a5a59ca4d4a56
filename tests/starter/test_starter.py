"""What ``ctr-samples init`` guesses, and that each file that it writes runs with the samples that the logs hold."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from ctr_samples.config import (
    CatalogSource,
    CsvSource,
    EventView,
    JobConfig,
    RowLabel,
    SnapshotView,
    StaticView,
    WindowView,
    load_config,
)
from ctr_samples.errors import InputError, UsageError
from ctr_samples.job.checking import problems
from ctr_samples.job.run import run
from ctr_samples.periods import parse_period
from ctr_samples.starter import as_yaml, draft, look_at
from tests.starter.drafting import config_of, drafted, init, looked_at
from tests.starter.logs_of_anybody import lines
from tests.starter.logs_of_shapes import SHAPES


def configured(tmp_path: Path, *inputs: Path) -> JobConfig:
    return config_of(tmp_path, drafted(*inputs))


def shape(name: str, tmp_path: Path) -> JobConfig:
    (tmp_path / "logs").mkdir()
    SHAPES[name].write(tmp_path / "logs")
    return configured(tmp_path, tmp_path / "logs")


def csv_log(name: str, tmp_path: Path, text: str) -> JobConfig:
    (tmp_path / name).write_text(text, newline="")
    return configured(tmp_path, tmp_path / name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_a_drafted_configuration_makes_the_samples_that_the_logs_hold(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    truth = SHAPES[name]
    truth.write(tmp_path / "logs")
    written = tmp_path / "drafted.yaml"
    assert init(tmp_path / "logs", "--output", written).exit_code == 0
    loaded = load_config(written, [f"output.path={tmp_path / 'out'}"])
    assert problems(spark, loaded) == []
    manifest = run(spark, loaded, parse_period(truth.day)).manifest
    assert manifest.records == truth.records
    sums = {label: manifest.label_sum(label) for label in truth.sums}
    assert sums == truth.sums
    matched = {view: manifest.views[view]["match_rate"] for view in truth.matched}
    assert matched == truth.matched


def test_a_log_with_an_index_a_flag_and_numbered_columns_is_understood(tmp_path: Path) -> None:
    config = shape("open_bandit", tmp_path)
    log = config.sources["all"]
    assert isinstance(log, CsvSource)
    assert log.rename == {"": "row"}
    assert config.impressions.request == "row"
    assert config.impressions.position == "position"
    assert config.labels["click"] == RowLabel(expr="click")
    assert isinstance(config.views["item_context"], StaticView)
    assert config.features["user_item_affinity"].shape == (8,)
    assert "click" not in config.features


def test_a_rating_becomes_a_label_by_a_threshold_and_the_number_itself(tmp_path: Path) -> None:
    config = shape("movielens", tmp_path)
    assert config.grain == "all"
    assert config.impressions.time == "timestamp_seconds(timestamp)"
    assert config.impressions.keys == {"user": "userId", "item": "movieId"}
    assert config.labels["liked"] == RowLabel(expr="rating >= 2.5")
    assert config.labels["stars"] == RowLabel(expr="rating", dtype="float32")
    assert config.features["movies_genres"].ragged
    assert "rating" not in config.features


def test_a_list_of_items_with_clicks_is_exploded(tmp_path: Path) -> None:
    config = shape("mind", tmp_path)
    assert config.sources["behaviors"].explode == {"shown": "split(c5, ' ')"}
    assert config.impressions.time == "try_to_timestamp(c3, 'M/d/yyyy h:mm:ss a')"
    assert config.impressions.request == "c1"
    assert config.impressions.keys["user"] == "c2"
    assert config.views["news"].joined_on == ("item",)
    assert config.features["c4"].ragged  # what the user read before


def test_rows_without_keys_and_times_are_impressions_of_their_own(tmp_path: Path) -> None:
    config = shape("criteo", tmp_path)
    assert config.impressions.identity == "row"
    assert config.labels["label"] == RowLabel(expr="c1")
    assert config.features["c2"].dtype == "float32"
    assert config.features["c15"].hash_buckets == 32  # of nine values, of which no two share one
    assert config.views == {}


def test_many_flags_are_labels_and_a_table_is_found_through_another(tmp_path: Path) -> None:
    config = shape("kuairand", tmp_path)
    assert list(config.labels) == ["is_click", "is_like", "long_view"]
    authors = config.views["authors"]
    assert isinstance(authors, EventView)
    assert authors.joined_on == ("video_features_basic.author_id",)
    assert (authors.event_time, authors.valid_to) == ("since", "until")
    assert config.impressions.time == "timestamp_millis(time_ms)"
    assert "play_time_ms" not in config.features  # it is known only after the click


def test_a_category_that_tells_the_label_becomes_no_feature(tmp_path: Path) -> None:
    rows = [f"{n},i{n % 7},{('seen', 'seen', 'bought')[n % 3]},{int(n % 3 == 2)}\n" for n in range(300)]
    config = csv_log("log.csv", tmp_path, "row,item_id,state,click\n" + "".join(rows))
    assert "state" not in config.features
    assert "item_id" in config.features


def test_an_action_with_a_quote_in_its_name_stays_text(tmp_path: Path) -> None:
    actions = ["show", "show", "don't show"]
    rows = [f"2022-04-22 00:{n:02}:00,u{n % 5},i{n % 7},{actions[n % 3]}\n" for n in range(60)]
    config = csv_log("log.csv", tmp_path, "at,user_id,item_id,action\n" + "".join(rows))
    label = config.labels["don_t_show"]
    assert not isinstance(label, RowLabel)
    assert label.where == r"action = 'don\'t show'"


def test_an_export_of_pandas_has_whole_numbers_as_keys(tmp_path: Path) -> None:
    config = shape("pandas_export", tmp_path)
    assert config.impressions.keys == {"user": "bigint(user_id)", "item": "product_id"}
    assert config.labels["clicked"] == RowLabel(expr="clicked")


def test_actions_in_one_log_are_labels_with_windows(tmp_path: Path) -> None:
    config = shape("action_log", tmp_path)
    assert config.grain == "day"
    assert config.impressions.where == "param.action = 'exposure'"
    assert config.impressions.explode == "article"
    assert list(config.labels) == ["click", "read", "read_readTime"]
    assert isinstance(config.views["user_profile"], EventView)
    assert config.views["news_article_basic"].event_time == "try_to_timestamp(c4, 'yyyy/M/d H:mm')"
    assert config.sources["user_action"].days_after == 1


def test_clicks_in_a_log_of_their_own_are_labels_and_daily_tables_snapshots(tmp_path: Path) -> None:
    config = shape("two_logs", tmp_path)
    assert config.impressions.source == "impressions"
    label = config.labels["click"]
    assert not isinstance(label, RowLabel)
    assert (label.source, label.time, label.request) == ("clicks", "clicked_at", "request_id")
    users = config.views["users"]
    assert isinstance(users, SnapshotView)
    assert (users.snapshot, users.delay.days) == ("dt", 1)  # never before it is surely there


def test_what_cannot_be_known_is_marked_with_a_safe_default(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    SHAPES["kuairand"].write(tmp_path / "logs")
    made = drafted(tmp_path / "logs")
    text = as_yaml(made.entries)
    assert text.count("TODO: ") == len(made.todos)
    assert any(todo.startswith("views.authors.available_after: when does a row become known?") for todo in made.todos)
    clicks = config_of(tmp_path, made).views["clicks_of_item"]
    assert isinstance(clicks, WindowView)
    assert clicks.delay.total_seconds() == 3600
    assert all("  # " in line or line.lstrip().startswith("#") for line in text.splitlines() if "is_click}" in line)


ROWS = [f"u{n % 9};i{n % 7};2022-04-22 {n % 24:02}:00:00+08:00;{n},5;{n % 4 // 3}" for n in range(60)]
LOG = "\n".join(["user_id;item_id;ts;price;click", *ROWS, ""])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("semicolons.csv", LOG),
        ("tabs.tsv", LOG.replace(";", "\t")),
        ("pipes.txt", LOG.replace(";", "|")),
        ("marked.csv", "\ufeff" + LOG),
        ("windows.csv", LOG.replace("\n", "\r\n")),
    ],
)
def test_any_dialect_of_csv_is_read(name: str, text: str, tmp_path: Path) -> None:
    config = csv_log(name, tmp_path, text)
    assert config.impressions.keys == {"user": "user_id", "item": "item_id"}
    assert config.impressions.columns == {"price": "try_cast(replace(price, ',', '.') as double)"}
    assert list(config.labels) == ["click"]


def test_advertisements_and_their_conversions_are_understood(tmp_path: Path) -> None:
    shown = [f"a{n},{1650585600000 + n * 60000},dev{n % 9},{101 + n % 4}" for n in range(60)]
    done = [
        f"2022-04-22T{n % 24:02}:30:00+02:00,dev{n},{101 + n % 4},{'signup' if n % 2 else 'purchase'}" for n in range(9)
    ]
    (tmp_path / "imp.csv").write_text("\n".join(["auction_id,ts,device_id,campaign", *shown, ""]))
    (tmp_path / "conv.csv").write_text("\n".join(["at,device_id,campaign,type", *done, ""]))
    config = configured(tmp_path, tmp_path / "imp.csv", tmp_path / "conv.csv")
    assert (config.impressions.source, config.impressions.request) == ("imp", "auction_id")
    assert config.impressions.keys == {"user": "device_id", "item": "campaign"}
    label = config.labels["signup"]
    assert not isinstance(label, RowLabel)
    assert (label.source, label.keys) == ("conv", {"item": "campaign", "user": "device_id"})


def test_columns_of_one_name_are_taken_by_position(tmp_path: Path) -> None:
    rows = "".join(f"{n % 9},{n},{n + 1},{n % 4 // 3}\n" for n in range(60))
    source = csv_log("log.csv", tmp_path, f"user_id,price,price,click\n{rows}").sources["log"]
    assert isinstance(source, CsvSource)
    assert source.by_position
    assert source.schema_ == "user_id BIGINT, price BIGINT, price_2 BIGINT, click BIGINT"


def test_a_column_without_values_is_left_out_and_fields_of_objects_are_not(tmp_path: Path) -> None:
    row = '{{"ctx": {{"user": {{"id": "u{0}"}}}}, "ad": {{"id": {1}}}, "when": {2}, "click": {3}, "none": null, "o": {{}}}}'
    rows = [row.format(n % 9, n % 7, 1_650_585_600_000 + n, "true" if n % 3 else "false") for n in range(60)]
    lines(tmp_path / "log.json", rows)
    config = configured(tmp_path, tmp_path / "log.json")
    assert config.impressions.keys == {"user": "ctx.user.id", "item": "ad.id"}
    assert config.impressions.identity == "row"
    assert "none" not in config.features


def test_lines_that_do_not_fit_the_others_are_allowed_for(tmp_path: Path) -> None:
    assert csv_log("log.csv", tmp_path, LOG + "a;b\n").sources["log"].bad_records.max_rate == 0.03


@pytest.mark.thorough
def test_rows_beyond_those_that_are_looked_at_are_not_taken_for_bad_ones(tmp_path: Path) -> None:
    rows = [f"u{n % 9};i{n % 7};{n};{n % 4 // 3}" for n in range(70_000)]
    (tmp_path / "log.csv").write_text("\n".join(["user_id;item_id;price;click", *rows, "a;b", ""]))
    (table,) = looked_at(tmp_path / "log.csv")
    assert table.options["bad_records"][1] == "1 of the 70,001 sampled lines do not fit the others"
    assert {table.columns[2].values[0], table.columns[2].values[-1]} == {0, 69_999}  # the beginning and the end


def test_a_log_of_which_half_is_broken_is_not_allowed_for(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG + "a;b\n" * 50)
    (table,) = looked_at(tmp_path / "log.csv")
    assert table.options["bad_records"][0] == {"max_rate": 0.05}
    assert table.todo == (
        f"50 of the 110 sampled lines of {tmp_path}/log.csv do not fit the others, such as 'a;b': mend them. A run allows "
        "for 5% of such lines.",
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name\n" + "x\ny\n" * 20, "No input says what was clicked: log has the columns name"),
        ("click\n" + "0\n1\n" * 20, "log has no column but its label"),
    ],
)
def test_a_draft_that_lacks_something_is_written_and_says_what(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(text)
    result = init(tmp_path / "log.csv", "--output", tmp_path / "mine.yaml")
    assert result.exit_code == InputError.exit_code
    assert f"{tmp_path}/mine.yaml is not complete. {sentence}" in result.stderr
    written = (tmp_path / "mine.yaml").read_text()
    assert written.startswith(f"# NOT COMPLETE: {sentence}"[:60])
    assert "source: log" in written


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("empty.csv", b"", "is empty; name an input that has rows"),
        ("blank.csv", b"\n\n", "is empty; name an input that has rows"),
        ("header.csv", b"a,b,c\n", "has a header and no rows"),
        ("packed.csv", gzip.compress(LOG.encode()), "is gzip, but its name does not end in .gz"),
        ("plain.csv.gz", LOG.encode(), "is no gzip, but its name ends in .gz"),
        ("packed.csv", bz2.compress(LOG.encode()), "is bzip2, but its name does not end in .bz2"),
        ("plain.csv.bz2", LOG.encode(), "is no bzip2, but its name ends in .bz2"),
        ("plain.csv.zst", LOG.encode(), "is no Zstandard, but its name ends in .zst"),
        ("breaks.csv", b'user_id,note,click\n1,"a\nb",0\n', "has line breaks inside quotes"),
        ("broken.json", b'{"a": 1\n' * 20, "holds no JSON lines: 20 of 20 lines are no object"),
        ("noise.csv", bytes(range(256)), "is no text; expected JSON lines, CSV, Parquet or ORC"),
        ("noise.parquet", b"no parquet", "is no Parquet file"),
    ],
)
def test_an_input_that_cannot_be_used_is_refused_in_a_sentence(
    name: str, content: bytes, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        drafted(tmp_path / name)


def zstd(content: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(content))


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".zst", zstd)])
def test_a_compressed_log_is_looked_at_as_a_plain_one(
    ending: str, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    for name, content in (("log.csv", LOG.encode()), (f"log.csv{ending}", pack(LOG.encode()))):
        (tmp_path / name).write_bytes(content)
    plain, packed = (looked_at(tmp_path / name) for name in ("log.csv", f"log.csv{ending}"))
    assert plain[0].columns == packed[0].columns
    assert plain[0].rows == packed[0].rows > 0


def test_a_path_that_names_hours_is_refused_with_the_days_to_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"names hours; name the days, as in logs/dt=\{date\}: what lies below"):
        looked_at("logs/dt={date}/hour={hour}")


def test_the_hours_below_a_day_are_looked_at_with_it(tmp_path: Path) -> None:
    for hour in ("00", "23"):
        (tmp_path / f"dt=2019-06-05/hour={hour}").mkdir(parents=True)
        (tmp_path / f"dt=2019-06-05/hour={hour}/part-0.csv").write_text(LOG)
    (table,) = looked_at(tmp_path / "dt={date}")
    assert table.options["path"] == (f"{tmp_path}/dt={{date}}", "1 day(s) are there, 2019-06-05 to 2019-06-05")
    assert table.rows == 2 * LOG.count("\n") - 2


@pytest.mark.parametrize(
    ("cell", "options"),
    [
        ('"say ""hi"", {}"', {}),
        ('"say \\"hi\\", {}"', {"quote": '"', "escape": "\\"}),
        ("'hello, {}'", {"quote": "'", "escape": "'"}),
        ('24" screen {}', {}),
        ('"24 screen {}', {"quote": ""}),
    ],
)
def test_quotes_are_told_by_how_lines_split(cell: str, options: dict[str, str], tmp_path: Path) -> None:
    rows = "".join(f"u{n % 9},{cell.format(n) if n % 7 == 0 else 'plain'},{n % 2}\n" for n in range(60))
    (tmp_path / "log.csv").write_text(f"user,note,click\n{rows}")
    (table,) = looked_at(tmp_path / "log.csv")
    assert {key: table.options[key][0] for key in ("quote", "escape") if key in table.options} == options
    assert (table.rows, "bad_records" in table.options) == (60, False)


@pytest.mark.parametrize(
    ("names", "path"),
    [
        (["20240503", "20240504"], "{date:%Y%m%d}"),
        (["dt=20240503/part.csv", "dt=20240512/part.csv"], "dt={date:%Y%m%d}"),
        (["2024/05/03/a.csv", "2024/05/04/b.csv"], "{date:%Y/%m/%d}"),
        (["log_2024_05_03.csv", "log_2024_05_04.csv"], "log_{date:%Y_%m_%d}.csv"),
        (
            ["year=2024/month=5/day=3/a.csv", "year=2024/month=10/day=12/a.csv"],
            "year={date:%Y}/month={date:%-m}/day={date:%-d}",
        ),
        (["y=2024/m=05/d=03/a.csv", "y=2024/m=10/d=12/a.csv"], "y={date:%Y}/m={date:%m}/d={date:%d}"),
    ],
)
def test_days_in_paths_are_found_in_any_form(names: list[str], path: str, tmp_path: Path) -> None:
    for name in names:
        file = tmp_path / "logs" / (name if name.endswith(".csv") else f"{name}/part-0.csv")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(LOG)
    for named in (tmp_path / "logs", tmp_path / "logs" / path):
        (table,) = looked_at(named)
        assert table.options["path"][0] == f"{tmp_path}/logs/{path}"
        assert (table.dated, len(table.days), len(set(table.row_days))) == (True, 2, 2)


def test_numbers_in_names_that_are_no_days_are_none(tmp_path: Path) -> None:
    for name in ("part-00000000.csv", "part-00000001.csv"):
        (tmp_path / name).write_text(LOG)
    (table,) = looked_at(tmp_path)
    assert not table.dated


def test_a_column_of_integers_in_one_file_and_of_floats_in_another_is_drafted_as_floats(tmp_path: Path) -> None:
    for number, size in enumerate([pa.array([2**53 + 1, *range(19)]), pa.array([n + 0.5 for n in range(20)])]):
        (tmp_path / f"dt=2019-06-0{number + 1}").mkdir()
        columns = {
            "at": pa.array([datetime(2019, 6, number + 1, hour, tzinfo=UTC) for hour in range(20)]),
            "item": pa.array([f"item {n % 4}" for n in range(20)]),
            "size": size,
            "click": [n % 2 for n in range(20)],
        }
        parquet.write_table(pa.table(columns), tmp_path / f"dt=2019-06-0{number + 1}/part.parquet")
    assert configured(tmp_path, tmp_path).features["size"].dtype == "float32"


def test_days_in_the_names_of_files_beside_other_files_are_one_input(tmp_path: Path) -> None:
    for name in ("log-2024-05-03.csv", "log-2024-05-04.csv", "things.csv"):
        (tmp_path / name).write_text(LOG)
    assert [table.name for table in looked_at(tmp_path)] == ["log", "things"]


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"There is no .*nowhere.csv"):
        looked_at(tmp_path / "nowhere.csv")


def test_the_command_says_what_it_found_and_what_comes_next(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    SHAPES["action_log"].write(tmp_path / "logs")
    written = tmp_path / "mine.yaml"
    result = init(tmp_path / "logs", "--output", written)
    assert result.exit_code == 0
    assert result.stdout == f"{written}\n"
    assert "the log of what was shown" in result.stderr
    assert "labels.click: how long after being shown does click still count?" in result.stderr
    commands = result.stderr.replace(" \\\n   ", "")  # which go on in a second line
    assert f"ctr-samples generate --config {written} --date 2019-03-13" in commands


def test_without_paths_and_a_terminal_the_command_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = init()
    assert result.exit_code == 2
    assert "Name the logs: `ctr-samples init PATH ...`" in result.stderr


def test_a_table_of_the_catalog_is_looked_at_through_spark_and_lies_by_day(tmp_path: Path) -> None:
    rows = {
        "dt": ["2022-04-22"] * 30 + ["2022-04-23"] * 30,
        "user_id": [n % 9 for n in range(60)],
        "item_id": [n % 7 for n in range(60)],
        "shown_at": [datetime(2022, 4, 22 + n // 30, n % 24) for n in range(60)],
        "click": [n % 4 // 3 for n in range(60)],
    }
    made = draft(look_at(["shop.impressions"], lambda name: pa.table(rows)))
    config = config_of(tmp_path, made)
    source = config.sources["impressions"]
    assert isinstance(source, CatalogSource)
    assert (source.table, source.date_column) == ("shop.impressions", "dt")
    assert (config.grain, str(made.day)) == ("day", "2022-04-23")
    assert "dt" not in config.features


@pytest.mark.slow
def test_a_configuration_drafted_for_a_table_of_the_catalog_runs(spark: SparkSession, tmp_path: Path) -> None:
    days = [datetime(2022, 4, 22 + n // 30, n % 24) for n in range(60)]
    rows = [(str(day.date()), n % 9, n % 7, day, int(n % 4 == 3)) for n, day in enumerate(days)]
    columns = "dt string, user_id bigint, item_id bigint, shown_at timestamp, click int"
    frame = spark.createDataFrame(rows, columns)
    frame.write.saveAsTable("default.shown_for_init")
    try:
        written = tmp_path / "drafted.yaml"
        result = init("default.shown_for_init", "--output", written)
        assert result.exit_code == 0, result.stderr
        loaded = load_config(written, [f"output.path={tmp_path / 'out'}"])
        assert problems(spark, loaded) == []
        manifest = run(spark, loaded, parse_period("2022-04-23")).manifest
    finally:
        spark.sql("drop table default.shown_for_init")
    assert manifest.records == sum(str(day.astimezone(UTC).date()) == "2022-04-23" for day in days)
