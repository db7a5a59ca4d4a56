"""Records that TensorFlow wrote, as rows; and what is said of files and records that are not as they should be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition

from ctr_samples.errors import ContractError, DamagedFile
from ctr_samples.tfrecord.data_source import TfrecordSource
from tests.support.tensorflow_files import example, sequence_example, tensorflow_writes
from tests.tfrecord.published_tables import publish_table
from tests.tfrecord.schemas import Ddl, Read


def inferred(path: Path, **options: str) -> str:
    return str(TfrecordSource({"path": str(path), **options}).schema().simpleString())


def test_what_tensorflow_wrote_is_read_plain_and_compressed(tmp_path: Path, read: Read) -> None:
    tensorflow_writes(tmp_path / "a.tfrecord", example(id=[1], score=[0.5], name=[b"x"], tags=[b"p"]), example(id=[2]))
    tensorflow_writes(tmp_path / "b.tfrecord.gz", example(id=[3], tags=[b"q", b"r"]), compression="GZIP")
    assert inferred(tmp_path) == "struct<id:bigint,name:string,score:float,tags:array<string>>"
    assert [tuple(row.values()) for row in read(tmp_path)] == [
        (1, "x", 0.5, ["p"]),
        (2, None, None, None),
        (3, None, None, ["q", "r"]),
    ]


def test_a_schema_is_inferred_over_all_records_of_all_files(tmp_path: Path) -> None:
    tensorflow_writes(tmp_path / "a", example(x=[1], y=[0.5]), example(x=[1], y=[0.5]))
    assert inferred(tmp_path) == "struct<x:bigint,y:float>"
    tensorflow_writes(tmp_path / "b", example(x=[1]), example(x=[1, 2], z=[b"late"]))
    assert inferred(tmp_path) == "struct<x:array<bigint>,y:float,z:string>"
    tensorflow_writes(tmp_path / "c", example(y=[1]))
    with pytest.raises(ContractError, match=r"Values of several kinds are stored under 'y' \(float32 and int64\)"):
        inferred(tmp_path)


def test_bytes_of_which_one_is_no_utf8_are_inferred_binary(tmp_path: Path, read: Read) -> None:
    records = [example(text=[b"a"], image=[b"b"], several=[b"c", b"d"])] * 9_999
    tensorflow_writes(
        tmp_path / "a", *records, example(text=["\u00e9".encode()], image=[b"\xff\xd8"], several=[b"\x80"])
    )
    assert inferred(tmp_path) == "struct<image:binary,several:array<binary>,text:string>"
    rows = read(tmp_path)
    assert rows[-1] == {"image": b"\xff\xd8", "several": [b"\x80"], "text": "\u00e9"}
    assert len(rows) == 10_000
    tensorflow_writes(tmp_path / "b/steps", sequence_example({"id": [b"\xff"]}, {"frames": [[b"\xff"], [b"b"]]}))
    assert read(tmp_path / "b", recordType="SequenceExample") == [{"id": b"\xff", "frames": [[b"\xff"], [b"b"]]}]


def test_the_advice_of_the_error_gets_past_a_key_of_two_kinds(tmp_path: Path, read: Read) -> None:
    tensorflow_writes(tmp_path / "a", example(x=[1], y=[1], z=[b"s"]), example(x=[2], y=[0.5]))
    with pytest.raises(ContractError) as caught:
        inferred(tmp_path)
    assert str(caught.value) == (
        "Values of several kinds are stored under 'y' (float32 and int64); read the data without these. "
        "To do so, set the option columns to those to read (x,z), or give a schema of your own."
    )
    assert read(tmp_path, columns="x,z") == [{"x": 1, "z": "s"}, {"x": 2, "z": None}]
    assert read(tmp_path, "x bigint, z string") == [{"x": 1, "z": "s"}, {"x": 2, "z": None}]
    with pytest.raises(ContractError, match="stored under 'y'"):
        inferred(tmp_path, columns="x,y")
    with pytest.raises(ContractError, match="option columns lists w, but the data have x, y, z"):
        inferred(tmp_path, columns="w")


def test_a_key_of_two_kinds_that_the_directories_name_too_holds_up_nobody(tmp_path: Path, read: Read) -> None:
    tensorflow_writes(tmp_path / "day=1/a", example(x=[1], day=[1]))
    tensorflow_writes(tmp_path / "day=2/a", example(x=[2], day=[0.5]))
    assert read(tmp_path) == [{"x": 1, "day": 1}, {"x": 2, "day": 2}]


def test_a_schema_may_be_inferred_from_a_share_of_the_files(tmp_path: Path, read: Read) -> None:
    for number in range(10):
        tensorflow_writes(tmp_path / f"day={number}/a", example(**{f"x{number}": [1]}))
    assert inferred(tmp_path, samplingRatio="0.3") == "struct<x0:bigint,x3:bigint,x6:bigint,day:int>"
    assert inferred(tmp_path, samplingRatio="0.0001") == "struct<x0:bigint,day:int>"
    assert len(read(tmp_path, samplingRatio="0.3")) == 10


def test_the_path_of_each_rows_file_can_be_a_column(tmp_path: Path, read: Read) -> None:
    one = tensorflow_writes(tmp_path / "a", example(x=[1]))
    two = tensorflow_writes(tmp_path / "b", example(x=[2]))
    assert inferred(tmp_path, fileColumn="file") == "struct<x:bigint,file:string>"
    assert read(tmp_path, fileColumn="file") == [{"x": 1, "file": str(one)}, {"x": 2, "file": str(two)}]
    assert read(tmp_path, "file string", fileColumn="file") == [{"file": str(one)}, {"file": str(two)}]
    assert read(tmp_path, "x int", fileColumn="file") == [{"x": 1}, {"x": 2}]
    with pytest.raises(
        ContractError, match="fileColumn is 'x', which is already a column of the data; use another name"
    ):
        inferred(tmp_path, fileColumn="x")
    with pytest.raises(ContractError, match="'file' is the fileColumn, which holds paths; declare it as string"):
        read(tmp_path, "file int", fileColumn="file")


def test_sequences_are_arrays_of_arrays_and_byte_arrays_one_column(tmp_path: Path, read: Read) -> None:
    message = sequence_example({"id": [7]}, {"steps": [[1], [2]], "words": [[b"a", b"b"], [b"c"]]})
    tensorflow_writes(tmp_path / "s", message)
    assert inferred(tmp_path, recordType="SequenceExample") == (
        "struct<id:bigint,steps:array<array<bigint>>,words:array<array<string>>>"
    )
    rows = [{"id": 7, "steps": [[1], [2]], "words": [["a", "b"], ["c"]]}]
    assert read(tmp_path, recordType="SequenceExample") == rows
    assert read(tmp_path, recordType="ByteArray") == [{"byteArray": message}]
    assert read(tmp_path, "anything binary", recordType="bytearray") == [{"anything": message}]


def test_a_value_that_does_not_fit_its_column_is_an_error_that_names_file_and_record(
    tmp_path: Path, read: Read
) -> None:
    sound = [example(w=[1], y=[b"y"])] * 20_000  # so that there are several batches
    tensorflow_writes(tmp_path / "a", *sound, example(w=[1, 2], x=[40_000], z=[b"\xff"]))
    for column, problem in (
        ("w bigint", " does not match the contract: feature 'w' holds 2 values.*an ARRAY where"),
        ("x string", " does not match the contract: feature 'x' holds int64 values, but the contract has bytes"),
        ("x smallint", ": the value 40000 of 'x' does not fit into smallint. Change the schema"),
        ("y string not null", "( does not match|: 'y' is absent, but the schema says NOT NULL)"),
        ("z string", ": the value b'.xff' of 'z' is not UTF-8; read the column as binary"),
    ):
        with pytest.raises(ContractError, match=f"{tmp_path}/a, record 20000{problem}"):
            read(tmp_path, column)


def test_files_without_features_need_a_schema(tmp_path: Path, ddl: Ddl, read: Read) -> None:
    for number, subject in enumerate(("f0 has no", "f0 and 1 other file have no", "f0 and 2 other files have no")):
        tensorflow_writes(tmp_path / f"f{number}", *[example()] * number)
        with pytest.raises(
            ContractError, match=f"{subject} feature to infer a schema from; give a schema, or set recordType"
        ):
            read(tmp_path)
    assert read(tmp_path, "x int") == [{"x": None}] * 3
    reader = TfrecordSource({"path": str(tmp_path)}).reader(ddl("x int"))
    assert list(reader.read(InputPartition(None))) == []  # what Spark plans for no partitions


def test_only_the_columns_of_the_schema_are_decoded(tmp_path: Path, read: Read) -> None:
    path = tensorflow_writes(tmp_path / "day=1/a", example(x=[1], broken=[b"not a number"]))
    assert read(tmp_path, "x int, missing string") == [{"x": 1, "missing": None}]
    assert read(tmp_path, columns="x") == [{"x": 1}]
    path.write_bytes(b"damaged")
    assert inferred(tmp_path, columns="day") == "struct<day:int>"  # needs no file


def test_a_file_of_a_table_must_be_byte_for_byte_what_its_manifest_says(tmp_path: Path, ddl: Ddl, read: Read) -> None:
    publish_table(tmp_path, ddl("x bigint"), {"": [1, 2]})
    (path,) = tmp_path.glob("*.tfrecord")
    whole = path.read_bytes()
    first = int.from_bytes(whole[:8], "little") + 16
    for bytes_there, problem in (
        (whole[:first], "has .* bytes, the manifest says"),
        (whole[first:] + whole[:first], "has CRC32C .*, the manifest says"),
        (whole + whole, "has .* bytes, the manifest says"),
    ):
        path.write_bytes(bytes_there)
        with pytest.raises(DamagedFile, match=f"^{path} {problem}"):
            read(tmp_path)
    path.unlink()
    with pytest.raises(DamagedFile, match=f"^{path} is missing: the directory was overwritten since"):
        read(tmp_path)


def test_the_way_to_the_executors_imports_neither_tensorflow_nor_numba() -> None:
    code = (
        "import ctr_samples.tfrecord.stream_reading, ctr_samples.tfrecord.data_source, ctr_samples.records.write, sys"
    )
    unwanted = "{'tensorflow', 'numba', 'pydantic', 'ruamel'}"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print({unwanted} & set(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("names", "advice"),
    [
        (["", "a"], "Set the option columns to those to read, or give a schema of your own."),
        (
            ["b", "a,b", " c", "a"],
            "To do so, set the option columns to those to read (a), or give a schema of your own.",
        ),
        (["b", "a,b"], "To do so, give a schema of your own."),
    ],
)
def test_the_advice_lists_only_names_that_the_option_can_hold(
    tmp_path: Path, read: Read, names: list[str], advice: str
) -> None:
    path = tensorflow_writes(tmp_path / "x", example(**{name: [1] for name in names}), example(**{names[0]: [1.5]}))
    with pytest.raises(ContractError) as refused:
        read(path)
    assert str(refused.value).endswith(advice)
    if "" in names:
        assert str(refused.value).startswith(f"{path}: A record has a feature with an empty key")
        assert read(path, columns="a") == [{"a": 1}, {"a": None}]


@pytest.mark.parametrize("name", ["a*b", "a[1]", "a\nb", "a\u202eb"])
def test_a_path_of_the_format_means_the_file_that_has_this_very_name(tmp_path: Path, read: Read, name: str) -> None:
    tensorflow_writes(tmp_path / "a1", example(x=[2]))
    tensorflow_writes(tmp_path / name, example(x=[1]))
    assert read(tmp_path / name) == [{"x": 1}]
