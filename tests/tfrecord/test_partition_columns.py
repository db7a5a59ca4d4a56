"""``key=value`` directories: names that are safe in any path, and types as Spark infers them."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
)

from ctr_samples.errors import ContractError, InputError
from ctr_samples.tfrecord.partitions import directory_of, inferred_columns, typed, values_of


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("US", "US"),
        ("a/b", "a%2Fb"),
        ("..", ".."),
        ("50%", "50%25"),
        ("12:30", "12%3A30"),
        ("a\\b\x01", "a%5Cb%01"),
        ("München *", "München %2A"),
        ("", "__HIVE_DEFAULT_PARTITION__"),
        (None, "__HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_a_value_becomes_a_name_as_spark_writes_it_and_comes_back(text: str | None, name: str) -> None:
    directory = directory_of(["key=1", "other"], [text, "x"])
    assert directory == f"key%3D1={name}/other=x"
    assert values_of(directory) == {"key=1": text or None, "other": "x"}


def test_parts_of_a_path_without_a_value_are_no_columns() -> None:
    assert values_of("data/day=1/run/train") == {"day": "1"}
    assert values_of("") == {}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "-2", "007"], IntegerType()),
        (["1", "2147483648"], LongType()),
        (["1", "2.5", "1e3"], DoubleType()),
        (["99999999999999999999"], StringType()),
        (["2019-06-05", "2020-02-29"], DateType()),
        (["2019-06-05", "2019-02-30"], StringType()),
        (["2019-06-05", "7"], StringType()),
        (["US", "DE"], StringType()),
        (["1", None], IntegerType()),
        ([None], StringType()),
    ],
)
def test_the_type_of_a_column_is_the_narrowest_that_all_values_have(texts: list[Any], expected: DataType) -> None:
    schema = inferred_columns([{"key": text} for text in texts])
    assert schema["key"].dataType == expected


def test_files_that_lack_a_partition_column_of_others_are_refused() -> None:
    with pytest.raises(InputError, match=r"have the partition columns \['a'\], others \[\]"):
        inferred_columns([{"a": "1"}, {}])


def test_a_value_has_the_type_that_the_schema_says() -> None:
    for text, kind, value in (
        ("7", IntegerType(), 7),
        ("007", StringType(), "007"),
        ("true", BooleanType(), True),
        ("2.50", DecimalType(5, 2), Decimal("2.50")),
        ("2019-06-05", DateType(), date(2019, 6, 5)),
        ("-Infinity", DoubleType(), float("-inf")),
        (None, IntegerType(), None),
    ):
        assert typed("key", text, kind) == value


def test_a_value_that_is_none_of_its_type_is_named() -> None:
    for text, kind in (
        ("US", IntegerType()),
        ("300", ByteType()),
        ("1_0", LongType()),
        ("x", DecimalType(5, 2)),
        ("99999.5", DecimalType(5, 2)),
        ("2019-02-30", DateType()),
        ("2019-06-05 10:00:00", TimestampType()),
    ):
        with pytest.raises(ContractError, match=f"'key' has the value '{text}', which is not a valid "):
            typed("key", text, kind)
