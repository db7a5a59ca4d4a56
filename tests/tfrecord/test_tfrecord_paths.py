"""What a path means: directories of others, files, globs, tables and nightly outputs."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ctr_samples.errors import ContractError, CtrSamplesError, DamagedFile, InputError, UsageError
from ctr_samples.records.paths import FilePattern, place_of, regex_of
from ctr_samples.tfrecord.data_source import TfrecordSource
from tests.support.tampering import rewrite
from tests.support.tensorflow_files import example, tensorflow_writes
from tests.tfrecord.published_tables import publish_day, publish_table
from tests.tfrecord.schemas import Ddl, Read


@pytest.mark.parametrize(
    ("path", "base", "expected"),
    [
        ("/lake/x", None, FilePattern("/lake/x")),
        ("/lake/x/", None, FilePattern("/lake/x")),
        ("s3://b/x", None, FilePattern("s3://b/x")),
        ("/lake/x/*.tfrecord", None, FilePattern("/lake/x", "", "*.tfrecord")),
        ("s3://b/x/day=2019-06-*/a?", None, FilePattern("s3://b/x", "", "day=2019-06-*/a?")),
        ("*.tfrecord", None, FilePattern(".", "", "*.tfrecord")),
        ("/lake/x/day=1", "/lake/x", FilePattern("/lake/x", "day=1")),
        ("/lake/x/day=1/*", "/lake/x/", FilePattern("/lake/x", "day=1", "day=1/*")),
    ],
)
def test_a_path_is_a_root_with_what_is_fixed_and_a_pattern(path: str, base: str | None, expected: FilePattern) -> None:
    assert place_of(path, base) == expected


@pytest.mark.parametrize(
    ("root", "above"),
    [
        ("/lake/t/day=1/hour=2", [("/lake/t/day=1", "hour=2"), ("/lake/t", "day=1/hour=2")]),
        ("/lake/dt=2019-06-05/data", []),
        ("s3://lake/out/all", [("s3://lake/out", "all")]),
        ("s3://lake/all", [("s3://lake", "all")]),
        ("s3://all", []),
        ("/all", [("/", "all")]),
        ("all", [(".", "all")]),
        ("day=1", [(".", "day=1")]),
    ],
)
def test_a_partition_and_a_period_may_belong_to_a_directory_above(root: str, above: list[tuple[str, str]]) -> None:
    assert list(FilePattern(root).roots()) == [(root, ""), *above]


def test_a_path_outside_its_base_and_a_glob_with_a_bracket_too_few_are_refused() -> None:
    with pytest.raises(UsageError, match="basePath is /lake/y, which does not contain /lake/x"):
        place_of("/lake/x", "/lake/y")
    with pytest.raises(UsageError, match="path pattern '{a' is malformed"):
        regex_of("{a")


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.tfrecord", ["a.tfrecord", "a.tfrecord/b"], ["d/a.tfrecord", "a.tfrecord.gz"]),
        ("day=?", ["day=1", "day=1/a"], ["day=12", "day="]),
        ("{a,b*}/x", ["a/x", "bcd/x"], ["c/x"]),
        ("[ab]x[^0-9]", ["ax-", "bxz"], ["cx-", "ax1"]),
        ("[!a]", ["b"], ["a"]),
        ("a+b", ["a+b"], ["aab"]),
    ],
)
def test_globs_are_those_of_hadoop(pattern: str, matching: list[str], other: list[str]) -> None:
    expression = regex_of(pattern)
    assert all(expression.match(path) for path in matching)
    assert not any(expression.match(path) for path in other)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Files of others, as they lie about: two days, compressed or not, and names that Spark passes over."""
    root = tmp_path / "lake"
    tensorflow_writes(root / "day=2019-06-05/a.tfrecord", example(x=[1]))
    tensorflow_writes(root / "day=2019-06-05/b.tfrecord.gz", example(x=[2]), compression="GZIP")
    tensorflow_writes(root / "day=2019-06-06/c.deflate", example(x=[3]), compression="ZLIB")
    for hidden in ("_SUCCESS", "day=2019-06-05/.part.crc", "_temporary/0/part", "day=2019-06-06/_committed_1"):
        (root / hidden).parent.mkdir(parents=True, exist_ok=True)
        (root / hidden).write_bytes(b"not a record")
    return root


def test_a_directory_of_others_or_a_part_of_it_is_read_with_days_as_a_column(lake: Path, read: Read) -> None:
    fifth, sixth = date(2019, 6, 5), date(2019, 6, 6)
    assert read(lake) == [{"x": 1, "day": fifth}, {"x": 2, "day": fifth}, {"x": 3, "day": sixth}]
    assert read(lake / "day=2019-06-06") == [{"x": 3}]
    assert read(lake / "day=2019-06-06", basePath=str(lake)) == [{"x": 3, "day": sixth}]
    assert [row["x"] for row in read(lake / "day=*/*.{gz,deflate}")] == [2, 3]
    assert [row["x"] for row in read(lake, pathGlobFilter="*.tfrecord")] == [1]
    assert read(lake / "day=2019-06-05/b.tfrecord.gz") == [{"x": 2}]
    assert read(lake, recursiveFileLookup="true") == [{"x": 1}, {"x": 2}, {"x": 3}]
    assert read(f"file:{lake}/day=2019-06-05/a.tfrecord") == [{"x": 1}]
    source = TfrecordSource({"paths": f'["{lake}/day=2019-06-06", "{lake}/day=2019-06-05"]'})
    (task,) = source.reader(source.schema()).partitions()
    assert [Path(file.path).name for file in task.files] == ["c.deflate", "a.tfrecord", "b.tfrecord.gz"]


@pytest.mark.parametrize("written", ["", "GZIP", "ZLIB"])
def test_the_first_bytes_decide_the_compression_whatever_the_name(tmp_path: Path, read: Read, written: str) -> None:
    for name in ("a.tfrecord", "part-0", "a.gz", "a.zlib", "a.deflate", "a.snappy", "a.tfrecord.bz2"):
        path = tensorflow_writes(tmp_path / name, example(x=[1]), example(x=[2]), compression=written)
        assert read(path) == read(path, "x bigint") == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize(("written", "option"), [("", "gzip"), ("GZIP", "none"), ("ZLIB", "gzip"), ("GZIP", "zlib")])
def test_an_option_that_contradicts_the_first_bytes_is_named(
    tmp_path: Path, read: Read, written: str, option: str
) -> None:
    path = tensorflow_writes(tmp_path / "x", example(x=[1]), compression=written)
    found = written.lower() or "none"
    with pytest.raises(
        DamagedFile,
        match=f"{path}: The first bytes are those of a file with the compression {found}, but the option compression says "
        f"{option}; remove the option",
    ):
        read(path, compression=option)


def test_a_file_that_begins_like_no_records_is_named(tmp_path: Path, read: Read) -> None:
    tensorflow_writes(tmp_path / "a", example(x=[1]))
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n" * 9)
    with pytest.raises(DamagedFile, match=r"notes.csv: The first bytes are neither the header of a record nor gzip"):
        read(tmp_path, "x bigint")


# Tables


@pytest.fixture
def table(tmp_path: Path, ddl: Ddl) -> Path:
    """Two writes to a table with partitions, and an orphan that no manifest names."""
    root = tmp_path / "table"
    schema = ddl("x bigint, country string, n smallint")
    by = ("country", "n")
    publish_table(root, schema, {"country=US/n=1": [1, 2], "country=a%2Fb/n=2": [3]}, by)
    publish_table(root, schema, {"country=__HIVE_DEFAULT_PARTITION__/n=1": [4]}, by, run_id="20190606T020000-bbbbbbbb")
    shard = next(root.glob("country=US/n=1/*.tfrecord"))
    shard.with_name("part-00009-9-0123abcd.tfrecord").write_bytes(shard.read_bytes())
    return root


def test_a_table_is_read_by_its_manifests_and_has_the_types_that_it_was_written_with(table: Path, read: Read) -> None:
    assert TfrecordSource({"path": str(table)}).schema().simpleString() == "struct<x:bigint,country:string,n:smallint>"
    assert read(table) == [
        {"x": 1, "country": "US", "n": 1},
        {"x": 2, "country": "US", "n": 1},
        {"x": 3, "country": "a/b", "n": 2},
        {"x": 4, "country": None, "n": 1},
    ]


def test_a_partition_of_a_table_is_read_by_the_tables_manifests_too(table: Path, read: Read) -> None:
    for path in (
        table / "country=US",
        table / "country=US/n=1",
        table / "country=U*",
        table / "country=US/*/*.tfrecord",
    ):
        assert [row["x"] for row in read(path)] == [1, 2]


def test_a_directory_above_a_table_is_refused_since_it_would_show_orphans(table: Path, read: Read) -> None:
    with pytest.raises(
        InputError, match=r"_manifests/00000001.json, whose directory must be read through its manifests"
    ):
        read(table.parent)


def test_columns_may_be_chosen_by_name_or_by_a_schema_in_any_order(table: Path, read: Read) -> None:
    assert read(table, columns="n, x")[0] == {"n": 1, "x": 1}
    assert list(read(table, "n int, country string, x int")[2].items()) == [("n", 2), ("country", "a/b"), ("x", 3)]
    assert read(table, "n int")[2:] == [{"n": 2}, {"n": 1}]
    assert read(table, "x int, COUNTRY string")[2] == {"x": 3, "COUNTRY": "a/b"}
    with pytest.raises(ContractError, match="option columns lists y, but the data have x, country, n"):
        read(table, columns="x,y")


def test_a_partition_value_that_is_not_of_the_asked_type_fails_before_any_task(table: Path, ddl: Ddl) -> None:
    with pytest.raises(
        ContractError, match="'country' has the value 'US', which is not a valid int; read it as string"
    ):
        TfrecordSource({"path": str(table)}).reader(ddl("country int"))
    with pytest.raises(ContractError, match="the directory makes 'country' null, but the schema says NOT NULL"):
        TfrecordSource({"path": str(table)}).reader(ddl("country string not null"))


def test_a_table_that_was_written_without_spark_has_its_columns_inferred(tmp_path: Path, ddl: Ddl, read: Read) -> None:
    publish_table(tmp_path, ddl("x bigint, c int"), {"c=3": [1, 2]}, ("c",), schema={})
    assert read(tmp_path) == [{"x": 1, "c": 3}, {"x": 2, "c": 3}]


def test_of_a_table_with_a_column_of_two_types_the_others_and_the_files_of_either_are_read(
    tmp_path: Path, ddl: Ddl, read: Read
) -> None:
    """As two writers at once could leave it: ``x``, which came later, has a type in each of the last two writes."""
    publish_table(tmp_path, ddl("id bigint"), {"": [1]})
    publish_table(tmp_path, ddl("x bigint"), {"": [7]}, run_id="20190606T020000-bbbbbbbb")
    assert read(tmp_path) == [{"id": 1, "x": None}, {"id": None, "x": 7}]
    publish_table(tmp_path, ddl("x string"), {"": ["c"]}, run_id="20190606T020000-cccccccc")
    with pytest.raises(
        ContractError,
        match="Column 'x' of .* is bigint and then string, so no type fits all of its files. To read the table, set the option "
        r"columns to those to read \(id\), or give a schema of your own",
    ):
        read(tmp_path)
    assert read(tmp_path, columns="id") == read(tmp_path, "id bigint") == [{"id": 1}, {"id": None}, {"id": None}]
    _, numbers, texts = (row["path"] for row in read(tmp_path, "path string", fileColumn="path"))
    assert read(numbers, "x bigint") == [{"x": 7}]
    assert read(numbers, "x int, id bigint") == [{"x": 7, "id": None}]
    assert read(texts, "x string") == [{"x": "c"}]
    for asked, misfit in (("x bigint", texts), ("x string", numbers)):
        with pytest.raises(ContractError, match=f"{misfit}, record 0 .* Declare the column with the type of its data"):
            read(tmp_path, asked)


@pytest.mark.parametrize(
    ("first", "second", "readable", "refused"),
    [
        ("x int", "x bigint", {"x bigint": [1, 2], "x smallint": [1, 2]}, "x string"),
        ("x bigint", "x array<bigint>", {"x array<bigint>": [[1], [2]]}, "x array<string>"),
        ("x date", "x timestamp", {"x bigint": [1, 2]}, "x date"),
        ("x timestamp", "x bigint", {"x bigint": [1, 2]}, "x timestamp"),
        ("x date", "x bigint", {"x bigint": [1, 2]}, "x date"),
    ],
)
def test_types_that_are_stored_alike_are_read_together_but_no_time_in_a_wrong_unit(
    tmp_path: Path, ddl: Ddl, read: Read, first: str, second: str, readable: dict[str, list[Any]], refused: str
) -> None:
    for run, (columns, value) in enumerate(((first, 1), (second, 2))):
        stored = [value] if "array" not in columns else [[value]]
        publish_table(tmp_path, ddl(columns), {"": stored}, run_id=f"20190606T020000-0000000{run}")
    with pytest.raises(ContractError, match="Column 'x' of .* and then .*, so no type fits all of its files"):
        read(tmp_path)
    for asked, values in readable.items():
        assert [row["x"] for row in read(tmp_path, asked)] == values
    with pytest.raises(ContractError, match="Column 'x' is declared as"):
        read(tmp_path, refused)


def test_a_table_with_names_of_two_cases_is_read_by_a_schema_or_the_option_columns(
    tmp_path: Path, ddl: Ddl, read: Read
) -> None:
    publish_table(tmp_path, ddl("name bigint"), {"": [1]})
    publish_table(tmp_path, ddl("Name bigint"), {"": [2]}, run_id="20190606T020000-bbbbbbbb")
    assert read(tmp_path) == [{"name": 1, "Name": None}, {"name": None, "Name": 2}]
    assert read(tmp_path, columns="Name") == [{"Name": None}, {"Name": 2}]
    assert read(tmp_path, "name int") == [{"name": 1}, {"name": None}]


def test_a_table_of_one_kind_of_record_is_not_read_as_another(table: Path, read: Read) -> None:
    assert len(read(table, recordType="Example")) == 4
    with pytest.raises(ContractError, match="'x' is declared as string, but the data are bigint; change the schema"):
        read(table, "x string")
    with pytest.raises(
        ContractError, match="holds records of type example, but the option recordType asks for byte_array"
    ):
        read(table, recordType="ByteArray")


# Outputs of the nightly job


@pytest.fixture
def nightly(tmp_path: Path) -> Path:
    """Two days; the first has been run again, and its first generation has other ids."""
    publish_day(tmp_path / "samples", "2019-06-05", 1, train=[90, 91], evaluation=[92])
    publish_day(tmp_path / "samples", "2019-06-05", 2, train=[1, 2], evaluation=[3])
    publish_day(tmp_path / "samples", "2019-06-06", 1, train=[4], evaluation=[5])
    return tmp_path / "samples"


def test_a_nightly_output_is_read_by_the_latest_manifest_of_each_day(nightly: Path, read: Read) -> None:
    rows = sorted(read(nightly), key=lambda row: row["id"])
    assert rows[0] == {"id": 1, "vector": [1.5, -1.0], "clicked": 1, "dt": date(2019, 6, 5)}
    assert [(row["id"], row["dt"].day) for row in rows] == [(1, 5), (2, 5), (3, 5), (4, 6), (5, 6)]
    assert sorted(row["id"] for row in read(nightly / "dt=2019-06-06")) == [4, 5]
    assert sorted(row["id"] for row in read(nightly / "dt=*-06", "id int")) == [4, 5]
    assert read(nightly / "dt=2019-06-06", "dt date, id int", split="eval") == [{"dt": date(2019, 6, 6), "id": 5}]
    assert [row["id"] for row in read(nightly, split="train")] == [1, 2, 4]


def test_a_split_that_is_not_there_is_named(nightly: Path, lake: Path, read: Read) -> None:
    with pytest.raises(InputError, match="has no split 'test'; it has train, eval"):
        read(nightly, split="test")
    with pytest.raises(InputError, match="was not written by the nightly job, so it has no split 'eval'"):
        read(lake, split="eval")


def test_days_with_other_features_are_not_read_together(nightly: Path, read: Read) -> None:
    def with_another_default(document: dict[str, Any]) -> None:
        document["contract"]["features"][0]["default"] = 7

    rewrite(nightly / "dt=2019-06-06/manifests/00000001.json", with_another_default)
    with pytest.raises(
        ContractError, match="samples of 2019-06-05 have different features from those of 2019-06-06; load"
    ):
        read(nightly)
    assert len(read(nightly / "dt=2019-06-05")) == 3


@pytest.fixture(params=["2019-06-05", "2019-06-05T07", "2019-10-27T02b", "all"])
def run_again(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A day, an hour or a whole log that has been run again, below a directory of others."""
    for generation in (1, 2):
        publish_day(tmp_path / "lake/samples", request.param, generation, train=[1, 2], evaluation=[3])
    return tmp_path / "lake/samples"


def test_what_was_run_again_is_not_read_twice_from_above_or_within(run_again: Path, read: Read) -> None:
    data = next(run_again.rglob("data"))
    for path in (run_again.parent, run_again.parent / "*", data, data / "*/train"):
        for recursive in ("true", "false"):
            with pytest.raises(InputError, match="whose directory must be read through its manifests"):
                read(path, "id bigint", recursiveFileLookup=recursive)


def test_an_hour_or_a_whole_log_is_read_by_its_path_and_from_its_output_directory(run_again: Path, read: Read) -> None:
    period = next(run_again.rglob("manifests")).parent
    for path in (run_again, period, run_again / "{dt=*,all}", run_again / "*/{hour=*,data}"):
        for recursive in ("true", "false"):
            assert sorted(row["id"] for row in read(path, recursiveFileLookup=recursive)) == [1, 2, 3]


def test_a_run_that_was_not_published_is_no_data_but_its_own_directory_can_be_read(nightly: Path, read: Read) -> None:
    for manifest in nightly.rglob("manifests/*.json"):
        manifest.unlink()
    with pytest.raises(InputError, match="whose directory must be read through its manifests"):
        read(nightly)
    (run,) = (nightly / "dt=2019-06-06/data").iterdir()
    assert [row["id"] for row in read(run / "train")] == [4]
    assert sorted(row["id"] for row in read(run, recursiveFileLookup="true")) == [4, 5]


def test_a_file_that_lies_in_two_paths_is_not_read_twice(lake: Path, table: Path, nightly: Path, read: Read) -> None:
    for first, second, more in (
        (lake / "day=2019-06-05", lake / "day=2019-06-05", {}),
        (lake, lake / "day=2019-06-05/*.tfrecord", {"recursiveFileLookup": "true"}),
        (lake, lake / "day=2019-06-0*", {"basePath": str(lake)}),
        (table, table / "country=US", {}),
        (nightly / "dt=2019-06-06", nightly, {}),
    ):
        with pytest.raises(InputError, match=f"{re.escape(f'{first} and {second}')} both hold /.*, so its records"):
            TfrecordSource({"paths": json.dumps([str(first), str(second)]), **more}).schema()


def test_paths_of_different_kinds_are_not_read_together(nightly: Path, table: Path, lake: Path) -> None:
    for other in (table, lake):
        with pytest.raises(CtrSamplesError, match="hold different columns or kinds of records; load them separately"):
            TfrecordSource({"paths": f'["{nightly}", "{other}"]'}).schema()
