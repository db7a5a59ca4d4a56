"""Spark's types as features, and features as Spark's types, without a file."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from ctr_samples.codec import ExampleDecoder, ExampleEncoder
from ctr_samples.contract import ExampleContract, FeatureSpec, RecordType
from ctr_samples.errors import ContractError
from ctr_samples.sparksql.releases import arrow_schema
from ctr_samples.tfrecord.schema import contract_of, schema_as_stored, schema_of
from ctr_samples.tfrecord.spark_columns import ColumnError, plan_reading
from tests.tfrecord.schemas import Ddl


def spec(name: str, dtype: Any, shape: Any = (), **more: Any) -> FeatureSpec:
    return FeatureSpec(name, dtype, shape, **more)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("a boolean, b tinyint, c smallint, d int, e bigint", [spec(name, "int64") for name in "abcde"]),
        ("a float, b double, c decimal(10, 2)", [spec(name, "float32") for name in "abc"]),
        ("a string, b binary", [spec("a", "bytes"), spec("b", "bytes")]),
        ("x date", [spec("x", "int64", unit="D")]),
        ("a timestamp, b timestamp_ntz", [spec("a", "int64", unit="us"), spec("b", "int64", unit="us")]),
        ("x array<int>", [spec("x", "int64", None)]),
        ("x array<date>", [spec("x", "int64", None, unit="D")]),
        ("x map<string, double>", [spec("x.keys", "bytes", None), spec("x.values", "float32", None)]),
        ("x struct<a: int, b: struct<c: string>>", [spec("x.a", "int64"), spec("x.b.c", "bytes")]),
        ("x array<array<float>>", [spec("x.values", "float32", None), spec("x.row_lengths", "int64", None)]),
    ],
)
def test_columns_become_the_features_of_the_wire_contract(ddl: Ddl, columns: str, expected: list[FeatureSpec]) -> None:
    assert contract_of(ddl(columns), "example").features == tuple(expected)


def test_a_vector_becomes_one_list_and_lists_of_lists_steps_of_a_sequence(ddl: Ddl) -> None:
    vector = StructType([StructField("v", VectorUDT())])
    assert contract_of(vector, "example").features == (spec("v", "float32", None),)
    steps = contract_of(ddl("x array<array<string>>, y array<int>"), "sequence_example")
    assert steps.features == (spec("x", "bytes", None, sequence=True), spec("y", "int64", None))


@pytest.mark.parametrize(
    "column",
    [
        "x interval day",
        "x void",
        "x variant",
        "x array<struct<a: int>>",
        "x array<array<array<int>>>",
        "x map<string, array<int>>",
        "x struct<>",
        "x struct<a: int, b: void>",
    ],
)
def test_a_type_that_no_record_can_hold_is_refused_by_the_name_of_its_column(ddl: Ddl, column: str) -> None:
    for plan in (contract_of, plan_reading):
        with pytest.raises(ContractError, match="Column 'x' has the type .*, which no record can hold; records hold "):
            plan(ddl(f"a int, {column}"), "example")


def test_columns_that_give_the_same_feature_are_refused(ddl: Ddl) -> None:
    with pytest.raises(ContractError, match="'x.a' more than once"):
        contract_of(ddl("x struct<a: int>, `x.a` int"), "example")


def test_a_byte_array_is_one_column_of_bytes_or_text(ddl: Ddl) -> None:
    assert contract_of(ddl("any string"), "byte_array").names() == ["any"]
    for columns in ("a binary, b binary", "a int", "a array<binary>"):
        for plan in (contract_of, plan_reading):
            with pytest.raises(ContractError, match="one column of bytes or text; "):
                plan(ddl(columns), "byte_array")


ALL_TYPES = """
    yes boolean, b tinyint, s smallint, i int, l bigint, f float, d double, dec decimal(6, 2), text string, bytes binary,
    day date, at timestamp, local timestamp_ntz, ints array<int>, texts array<string>, days array<date>,
    ragged array<array<float>>, weights map<string, double>, user struct<id: bigint, home: struct<city: string>>
"""


def test_schemas_that_tests_write_as_text_are_those_of_spark(spark: SparkSession, ddl: Ddl) -> None:
    odd = "x interval day, n void, v variant, `a.b``c` int not null, m map<string, array<int>>, s struct<>, t struct<a int>"
    for text in (ALL_TYPES, odd, "Day int, day int"):
        assert ddl(text) == StructType.fromDDL(text)


FULL: dict[str, Any] = {
    "yes": True,
    "b": -128,
    "s": 32767,
    "i": -(2**31),
    "l": 2**63 - 1,
    "f": 0.1,
    "d": 0.25,
    "dec": Decimal("12.34"),
    "text": "Grüße",
    "bytes": b"\xff\x00",
    "day": date(1969, 12, 31),
    "at": datetime(2019, 6, 5, 12, 30, 0, 1, UTC),
    "local": datetime(1960, 1, 1),
    "ints": [1, -2],
    "texts": ["a", ""],
    "days": [date(2020, 2, 29)],
    "ragged": [[1.5], [], [2.5, 3.5]],
    "weights": [("a", 0.5), ("b", -1.0)],
    "user": {"id": 7, "home": {"city": "Bonn"}},
}


@pytest.mark.parametrize("record", ["example", "sequence_example"])
def test_every_type_comes_back_as_it_was_written(ddl: Ddl, record: RecordType) -> None:
    empty = {**dict.fromkeys(FULL), "ints": [], "texts": [], "ragged": [], "weights": []}
    rows = [{**FULL, "f": 0.5}, empty, dict.fromkeys(FULL)]
    assert through_the_wire(ddl(ALL_TYPES), rows, record) == rows
    structs = through_the_wire(ddl("x struct<a: int>"), [{"x": {"a": None}}, {"x": {"a": 1}}], record)
    assert structs == [{"x": None}, {"x": {"a": 1}}]  # nulls alone are null


def through_the_wire(schema: StructType, rows: list[dict[str, Any]], record: RecordType) -> list[dict[str, Any]]:
    arrow = arrow_schema(schema)
    encoded = ExampleEncoder(contract_of(schema, record)).encode(pa.RecordBatch.from_pylist(rows, arrow))
    plan = plan_reading(schema, record)
    columns = plan.columns(ExampleDecoder(plan.contract).decode(encoded.buffer))
    back = pa.RecordBatch.from_arrays(columns, schema=arrow)
    back.validate(full=True)
    return back.to_pylist()


def test_doubles_and_decimals_are_stored_as_float_and_read_so_unless_asked_otherwise(ddl: Ddl) -> None:
    given = ddl(
        "d double not null, e decimal(6, 2), a array<double>, m map<string, double>, s struct<d: double>, i int"
    )
    assert schema_as_stored(given).simpleString() == (
        "struct<d:float,e:float,a:array<float>,m:map<string,float>,s:struct<d:float>,i:int>"
    )


def test_the_schema_of_a_contract_has_arrays_for_shapes_and_steps() -> None:
    contract = ExampleContract(
        (
            spec("n", "int64"),
            spec("v", "float32", (2,)),
            spec("m", "float32", (2, 3)),
            spec("t", "bytes", None),
            spec("h", "int64", (), sequence=True),
        ),
        "sequence_example",
    )
    assert schema_of(contract).simpleString() == (
        "struct<n:bigint,v:array<float>,m:array<array<float>>,t:array<string>,h:array<bigint>>"
    )


@pytest.mark.parametrize(
    ("column", "dtype", "values", "problem"),
    [
        ("x tinyint", "int64", [1, 128], "the value 128 of 'x' does not fit into tinyint"),
        ("x int", "int64", [1, -(2**31) - 1], "does not fit into int"),
        ("x boolean", "int64", [1, 2], "the value 2 of 'x' is neither 0 nor 1"),
        ("x date", "int64", [1, 2**40], "does not fit into date"),
        ("x decimal(4, 2)", "float32", [1.0, 100.0], "the value 100.0 of 'x' does not fit into decimal"),
        ("x decimal(4, 2)", "float32", [1.0, float("nan")], "does not fit into decimal"),
        ("x decimal(3, 2)", "float32", [1.0, -9.998], "the value -9.99.* of 'x' does not fit into decimal"),
        ("x string", "bytes", [b"a", b"\xff\xfe"], "is not UTF-8; read the column as binary"),
    ],
)
def test_a_value_that_the_type_cannot_hold_is_refused_with_its_row(
    ddl: Ddl, column: str, dtype: Any, values: list[Any], problem: str
) -> None:
    with pytest.raises(ColumnError, match=problem) as caught:
        read_feature(ddl(column), spec("x", dtype), values)
    assert caught.value.row == 1
    lists = ddl(f"x array<{column.removeprefix('x ')}>")
    with pytest.raises(ColumnError, match=problem) as caught:
        read_feature(lists, spec("x", dtype, None), [[values[0]] * 2, [], [values[0], values[1]]])
    assert caught.value.row == 2


def read_feature(schema: StructType, wire: FeatureSpec, values: list[Any], known: Any = None) -> list[Any]:
    """Values as they stand in records of one feature, read as the schema says."""
    encoder = ExampleEncoder(ExampleContract((wire,)))
    kinds = {"int64": pa.int64(), "float32": pa.float32(), "bytes": pa.binary()}
    kind = kinds[wire.dtype]
    for _ in range(1 if wire.shape is None else len(wire.shape)):
        kind = pa.list_(kind)
    encoded = encoder.encode(pa.RecordBatch.from_pydict({wire.name: pa.array(values, kind)}))
    plan = plan_reading(schema, "example", known)
    return plan.columns(ExampleDecoder(plan.contract).decode(encoded.buffer))[0].to_pylist()


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("s", -1, datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("ms", 1500, datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)),
        ("us", 1, datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        ("ns", -1, datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("D", 1, datetime(1970, 1, 2, tzinfo=UTC)),
    ],
)
def test_times_are_read_in_the_unit_that_the_contract_of_the_data_says(
    ddl: Ddl, unit: Any, value: int, expected: datetime
) -> None:
    known = ExampleContract((spec("x", "int64", unit=unit),))
    assert read_feature(ddl("x timestamp"), spec("x", "int64"), [value], known) == [expected]


def test_a_schema_that_contradicts_the_contract_of_the_data_is_refused(ddl: Ddl) -> None:
    known = ExampleContract((spec("n", "int64"), spec("at", "int64", unit="s")))
    for column, problem in (
        ("n string", "'n' is declared as string, but the data are bigint; change"),
        ("n timestamp", "'n' is declared as timestamp, but its data are plain integers"),
        ("at date", "'at' is declared as date, but the data are times in s; read it as timestamp"),
    ):
        with pytest.raises(ContractError, match=problem):
            plan_reading(ddl(column), "example", known)


def test_tensors_and_matrices_are_read_by_the_contract_of_the_data(ddl: Ddl) -> None:
    for known in (
        spec("x", "float32", (2, 2)),
        spec("x", "float32", (2, 2), encoding="tensor"),
        spec("x", "float32", (2, 2), encoding="raw"),
    ):
        matrix = [[1.0, 2.0], [3.0, 4.0]]
        contract = ExampleContract((known,))
        assert read_feature(ddl("x array<array<double>>"), known, [matrix], contract) == [matrix]


@pytest.mark.parametrize(
    ("columns", "wire", "problem"),
    [
        ("x map<string, int>", {"x.keys": [b"a"], "x.values": [1, 2]}, "keys and values of 'x' do not belong together"),
        ("x map<string, int>", {"x.keys": [b"a", b"a"], "x.values": [1, 2]}, "a key of 'x' is there twice"),
        ("x array<array<int>>", {"x.values": [1], "x.row_lengths": [2]}, "row lengths and values of 'x' do not"),
        ("x array<array<int>>", {"x.values": [1], "x.row_lengths": [2, -1]}, "'x' has a negative row length"),
        (
            "x array<array<int>>",
            {"x.values": [1], "x.row_lengths": [2**62] * 4 + [1]},
            "row lengths and values of 'x' do not",
        ),
        ("x array<int> not null", {}, "'x' is absent, but the schema says NOT NULL"),
        (
            "x struct<a: int not null, b: array<int>> not null",
            {"x.b": [1]},
            "'x.a' is absent, but the schema says NOT NULL",
        ),
    ],
)
def test_features_that_do_not_belong_together_are_refused_with_their_record(
    ddl: Ddl, columns: str, wire: dict[str, list[Any]], problem: str
) -> None:
    plan = plan_reading(ddl(columns), "example")
    good: dict[str, list[Any]] = {"x": [1], "x.b": [1]} if "NOT NULL" in problem else {name: [] for name in wire}
    with pytest.raises(ColumnError, match=problem):
        plan.columns(ExampleDecoder(plan.contract).decode(records(good, wire)))


def records(*rows: dict[str, list[Any]]) -> Any:
    """Framed Examples with these features; a row leaves out those that it does not name."""
    names = sorted({name for row in rows for name in row})
    columns = {name: pa.array([row.get(name) for row in rows]) for name in names}
    batch = pa.RecordBatch.from_pydict(columns)
    dtypes = {name: "bytes" if b"" in kinds_of(rows, name) else "int64" for name in names}
    contract = ExampleContract(tuple(spec(name, dtypes[name], None) for name in names))
    return ExampleEncoder(contract).encode(batch).buffer


def kinds_of(rows: Any, name: str) -> set[Any]:
    """An empty value of each type that a feature has."""
    return {type(value)() for row in rows for value in row.get(name, [])}
