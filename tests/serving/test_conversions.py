"""Each conversion that serving does for itself: what it makes of a value is what the job makes of it, or it is refused."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import Feature, JobConfig
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import InputError
from ctr_samples.samples.features.one_feature import feature_column
from ctr_samples.samples.features.values import joined_ids, source_value, with_joined_ids
from ctr_samples.serving.declared import Declared
from ctr_samples.serving.feature_inputs import source_of
from ctr_samples.serving.values import feature_of
from ctr_samples.serving.wire import MessageWriter
from ctr_samples.sparksql.session import run_session
from ctr_samples.vocabulary import FittedState, FittedVocabulary
from tests.support.literal_frames import literal

REFUSED = "refused"
ZONES = ["Asia/Kathmandu", "Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia", "America/St_Johns"]
"""One with a quarter of an hour, one whose clocks skip 2 o'clock, one midnight, one a whole day, one that is behind."""
CHANGED = [("America/Toronto", date(1919, 3, 31)), ("Asia/Beirut", date(2022, 3, 27)), ("UTC", date(1, 1, 1))]
"""Days on which the clocks of a zone were changed at midnight, and the first of all."""


def served(feature: Mapping[str, Any], zone: str, row: Mapping[str, Any]) -> Any:
    """The source value of a feature in serving, or that it is refused."""
    try:
        return source_of(Declared.of("f", feature), {"timezone": zone})({"item": row, "": {}})
    except InputError:
        return REFUSED


def in_job(rows: DataFrame, features: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The source values of features in the job, in the order of ``n``. Without those that it refuses."""
    columns = {}
    for name, feature in features.items():
        with suppress(InputError, AnalysisException):
            column = source_value(rows, name, Feature.model_validate(feature)).column.alias(name)
            rows.select(column)
            columns[name] = column
    return values_of(rows, columns)


def values_of(rows: DataFrame, columns: Mapping[str, Column]) -> dict[str, list[Any]]:
    """The values of columns, in the order of ``n``."""
    found = rows.orderBy("n").select(*columns.values()).collect()
    return {name: [row[name] for row in found] for name in columns}


def of_texts(spark: SparkSession, texts: Sequence[str], kind: str = "string") -> DataFrame:
    """A row for each text, read as a column of a type."""
    rows = literal(spark, list(enumerate(texts)), "n int, of string")
    return rows.select("n", F.struct(F.col("of").cast(kind).alias("of")).alias("item"))


HOURS = {"from": "item.of", "date_part": "hour_of_week", "dtype": "int64"}
ORDINARY = (
    "2019-06-05 10:00:00",
    "2019-06-05T10:00:00",
    "2019-06-05T23:59:59.999999",
    "2019-06-05 10:00:00.123456789",
    "2019-06-05T10:00:00Z",
    "2019-06-05 10:00:00.5+05:45",
    "2019-06-05T10:00:00-09:30",
    "2019-06-05",
    "2019-06-05 10:00",
    "1890-06-05T10:00:00Z",
    "2019-02-30 10:00:00",
    "2019-06-05 24:00:00",
    "2019-06-05 10:60:00",
    "10:00:00",
    "yesterday",
    "",
    "2019/06/05 10:00:00",
)
"""Texts that serving reads, or knows to be no times."""
SKIPPED = ("2019-03-31 02:30:00", "2018-11-04 00:00:00", "2018-11-04", "2011-12-30 07:00:00", "2019-03-10 02:00:00")
"""Times that clocks skip in one of the zones."""
ODD = (
    "2019-6-5 10:00:00",
    "2019-06-05 9:05:00",
    "2019-06-05 10:00:00 UTC",
    "2019-06-05X10:00:00",
    "2019-06-05 10",
    "20190605T100000",
    "2019-06-05 ١٠:00:00",
    "٢٠١٩-06-05 10:00:00",
    "2019-06-05 10:00:00+24:00",
    "2019-06-05T10:00:00+05",
    "2019-06-05T10:00:00,5",
    "2019-W23-3",
    "0000-06-05 10:00:00",
    "0001-01-01 00:00:00Z",
    "9999-12-31 23:59:59Z",
    "9999-12-31 23:59:59-18:00",
    "2019-06-05 10:00:00\\u00a0",
)


def texts_by_chance(count: int) -> list[str]:
    chance = random.Random(7)

    def one_of(*parts: str) -> str:
        return chance.choice(parts)

    return [
        one_of("", "", "", " ", "\t", "\u00a0", "\u2003", "\x1f")
        + one_of("2019", "2019", "2011", "2018", "1890", "0000", "0001", "9999", "19", "12019", "+2019", "２０１９")
        + one_of("-", "-", "-", "/", "")
        + one_of("06", "12", "3", "11", "13", "00")
        + one_of("-", "-", "-", "/", "")
        + one_of("05", "31", "30", "4", "00", "32", "10")
        + one_of(" ", "T", " ", "T", "t", "X", "  ", "")
        + one_of("10:00:00", "02:30:00", "2:30:00", "00:00", "24:00:00", "23:59:60", "7", "", "10:00:0", "1٠:00:00")
        + one_of("", "", ".5", ".123456789", ".1234567890", ".", ",5")
        + one_of(
            "",
            "",
            "Z",
            "z",
            " Z",
            "+01:00",
            "-18:00",
            "+18:01",
            "+1:00",
            "+0100",
            "+01",
            " UTC",
            "UTC",
            "GMT+1",
            "[UTC]",
        )
        + one_of("", "", "", " ", "\n", "\u00a0", "\x1f")
        for _ in range(count)
    ]


@pytest.mark.some(2)
@pytest.mark.parametrize("zone", ZONES)
def test_a_part_of_a_time_is_that_of_the_job_or_refused(spark: SparkSession, zone: str) -> None:
    session, texts = run_session(spark, zone), [*ORDINARY, *SKIPPED, *ODD, *texts_by_chance(400)]
    of_job = in_job(of_texts(session, texts), {"f": HOURS})["f"]
    of_serving = [served(HOURS, zone, {"of": text}) for text in texts]
    known = len(ORDINARY) + len(SKIPPED)
    assert dict(zip(texts[:known], of_serving, strict=False)) == dict(zip(texts[:known], of_job, strict=False))
    wrong = {t: (a, b) for t, a, b in zip(texts, of_job, of_serving, strict=True) if b not in (a, REFUSED)}
    assert wrong == {}
    assert REFUSED in of_serving
    chance = random.Random(8)
    moments = [
        *map(datetime.fromisoformat, SKIPPED),
        *[datetime(2019, m, d, h, 30) for m, d in ((3, 10), (3, 31), (10, 27), (11, 3)) for h in range(4)],
        *[datetime.fromtimestamp(chance.uniform(-3e9, 3e9), UTC).replace(tzinfo=None) for _ in range(60)],
    ]
    for kind, given in (
        ("timestamp_ntz", [*moments, *[moment.replace(fold=1) for moment in moments]]),
        ("date", [moment.date() for moment in moments]),
    ):
        expected = in_job(of_texts(session, [str(one) for one in given], kind), {"f": HOURS})["f"]
        assert [served(HOURS, zone, {"of": one}) for one in given] == expected, kind
    expected = in_job(of_texts(session, [f"{moment}Z" for moment in moments], "timestamp"), {"f": HOURS})["f"]
    for seen_in in (UTC, ZoneInfo("America/Los_Angeles")):
        given = [moment.replace(tzinfo=UTC).astimezone(seen_in) for moment in moments]
        assert [served(HOURS, zone, {"of": time}) for time in given] == expected
    for other, day in CHANGED:
        (found,) = in_job(of_texts(run_session(spark, other), [str(day)], "date"), {"f": HOURS})["f"]
        assert served(HOURS, other, {"of": day}) in (found, REFUSED)


MAPS: dict[str, list[Any]] = {
    "string": [
        *(
            "7",
            "7.0",
            "10",
            "1_0",
            "100",
            "true",
            "True",
            "1.0E7",
            "10000000.0",
            "1.0E-5",
            "0.1",
            "7.50",
            "7.5",
            "1E+2",
            "NaN",
        ),
        *("nan", "b'a'", "a", "x", "", "٧", "2019-06-05", "2019-06-05 10:00:00"),
    ],
    "bigint": [7, 10, 1, 0, -7, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 16_777_217],
    "int": [7, 0, 2**31 - 1, -(2**31)],
    "tinyint": [7, 1, 0, -7, 127, -128],
    "double": [7.0, 0.5, 1e7, 1.0, 0.0, float("inf"), 16_777_217.0, 9007199254740992.0, 0.1],
    "float": [7.0, 0.5, 1.0, 0.0, 16_777_216.0, float(np.float32(0.1)), float(np.float32(0.3)), float("inf")],
    "boolean": [True, False],
    "date": [date(2019, 6, 5), date(1970, 1, 8)],
    "decimal(9,2)": [
        Decimal("7.00"),
        Decimal("1.01"),
        Decimal("0.10"),
        Decimal("0.50"),
        Decimal("1.00"),
        Decimal("10.00"),
    ],
    "binary": [b"7", b"a", b"", b"true"],
    "timestamp": [datetime(2019, 6, 5, tzinfo=UTC), datetime(2019, 6, 5, 10, tzinfo=UTC)],
}
KEYS: dict[str, list[Any]] = {
    "string": [
        *(
            "7",
            " 7 ",
            "+7",
            "-7",
            "07",
            "7.0",
            "1_0",
            "٧",
            "１０",
            "1e1",
            "7.5",
            "true",
            "TRUE",
            "t",
            "False",
            "0",
            "1",
            "",
            "a",
        ),
        *(
            "inf",
            "Infinity",
            "NaN",
            "0.1",
            "7d",
            "0x7",
            "2019-06-05",
            "2019-6-5",
            "7\u00a0",
            "\x1f7",
            "-",
            "- 7",
            "7\n",
            "x",
        ),
        *(
            "9" * 20,
            "9" * 5000,
            "0" * 30 + "7",
            "9223372036854775807",
            "9223372036854775808",
            "16777217",
            "0.5",
            "127",
            "128",
        ),
    ],
    "bigint": [7, 10, 1, 0, -7, 2**53 + 1, 2**63 - 1, -(2**63), 16_777_217, 127, 128, 2**31],
    "int": [7, 100, 1],
    "double": [
        *(
            7.0,
            7.9,
            -7.9,
            1e7,
            1e-5,
            0.1,
            0.5,
            0.0,
            -0.0,
            1.0,
            1e19,
            -1e300,
            2.0**63,
            -(2.0**63),
            2.0**31,
            16_777_217.0,
            0.3,
        ),
        *(0.30000001192092896, 127.5, float("inf"), float("nan")),
    ],
    "float": [7.0, 0.5, 1e7, 2.0**31, -(2.0**31), float(np.float32(0.1)), float(np.float32(0.3)), float("nan")],
    "boolean": [True, False],
    "date": [date(2019, 6, 5), date(999, 1, 1)],
    "decimal(9,2)": [Decimal(text) for text in ("7.00", "7.50", "100.00", "0.10", "-7.99", "1.00")],
    "decimal(9,4)": [Decimal(text) for text in ("7.0000", "1.0050", "1.0149", "0.1000", "0.0000")],
    "binary": [b"7", b"a", b"true", b""],
    "timestamp": [datetime(2019, 6, 5, tzinfo=UTC), datetime(2019, 6, 5, 10, tzinfo=UTC)],
    "timestamp_ntz": [datetime(2019, 6, 5), datetime(2019, 6, 5, 10)],
}
MUST = [
    *[("string", key) for key in ("string", "bigint", "boolean", "date")],
    *[("bigint", key) for key in ("bigint", "boolean", "string", "decimal(9,2)")],
    *[(same, same) for same in ("double", "float", "boolean", "date", "binary", "decimal(9,2)")],
    ("tinyint", "bigint"),
]
"""Types of keys of a map, and of what is looked up in it, whose values serving takes all."""


@pytest.mark.thorough
@pytest.mark.parametrize("of_map", MAPS)
def test_an_entry_of_a_map_is_that_of_the_job_or_refused(spark: SparkSession, of_map: str) -> None:
    entries = {key: f"{key!r} of {of_map}" for key in MAPS[of_map]}
    longest = max(map(len, KEYS.values())) + 1
    keys_of = {of_key: [*keys, *[None] * (longest - len(keys))] for of_key, keys in KEYS.items()}
    kinds = ", ".join(f"at_{n}: {of_key}" for n, of_key in enumerate(KEYS))
    items = [(n, (entries, *keys)) for n, keys in enumerate(zip(*keys_of.values(), strict=True))]
    rows = literal(run_session(spark, "UTC"), items, f"n int, item struct<all: map<{of_map}, string>, {kinds}>")
    features = {of_key: {"from": "item.all", "at": f"item.at_{n}", "dtype": "string"} for n, of_key in enumerate(KEYS)}
    of_job = in_job(rows, features)
    must = {of_key for of_one, of_key in MUST if of_one == of_map}
    assert must <= of_job.keys()
    for of_key, found in of_job.items():
        feature = features[of_key] | {"at": "item.at"}
        of_serving = [served(feature, "UTC", {"all": entries, "at": key}) for key in keys_of[of_key]]
        wrong = {
            repr(key): (a, b)
            for key, a, b in zip(keys_of[of_key], found, of_serving, strict=True)
            if b not in (a, REFUSED)
        }
        assert wrong == {}, of_key
        assert of_key not in must or REFUSED not in of_serving, of_key


NUMPY = [np.int64(7), np.int8(7), np.bool_(True), np.str_("7"), np.float64(0.5), np.float32(0.5)]


@pytest.mark.parametrize("key", NUMPY, ids=repr)
@pytest.mark.parametrize("of_map", MAPS)
def test_a_scalar_of_numpy_is_looked_up_as_the_one_of_python(of_map: str, key: Any) -> None:
    feature = {"from": "item.all", "at": "item.at", "dtype": "string"}
    entries = {key: repr(key) for key in MAPS[of_map]}
    assert served(feature, "UTC", {"all": entries, "at": key}) == served(
        feature, "UTC", {"all": entries, "at": key.item()}
    )


def job(**features: dict[str, Any]) -> JobConfig:
    return JobConfig.model_validate(
        {
            "name": "s",
            "timezone": "Asia/Kathmandu",
            "sources": {"a": {"format": "json", "path": "x", "schema": "t timestamp, item string"}},
            "impressions": {"source": "a", "time": "t", "article": "item", "user": "item"},
            "labels": {"clicked": {"source": "a", "where": "true", "window": "1h"}},
            "features": features,
            "vocabularies": {"tokens": {"capacity": 10, "oov_buckets": 1000}},
            "fitted": {"path": "state"},
            "output": {"path": "out"},
        }
    )


FEATURES: list[dict[str, Any]] = [
    {"dtype": "int64", "hash_buckets": 2**40},
    {"dtype": "int64", "vocabulary": "tokens"},
    {"dtype": "int64", "boundaries": [-1, 0.1, 7, 16_777_217]},
    {"dtype": "int64"},
    {"dtype": "float32", "default": -2},
    {"dtype": "float32", "clip": [-1, 16_777_217]},
    {"dtype": "string"},
    {"dtype": "bytes", "nulls": "omit"},
]
VALUES: dict[str, list[Any]] = KEYS | {
    "string": [
        *KEYS["string"],
        "é",
        "\U0001f600",
        "a\x1fb",
        " ",
        "\x00",
        *("é" * (n // 3) + "x" * (n % 3) for n in range(120)),
    ],
    "decimal(38,18)": [Decimal("0.100000000000000001"), Decimal("12345678901234567890.123456789012345678")],
    "tinyint": [7, -128],
}
STATE = FittedState(
    name="s",
    lineage="l",
    version=1,
    run_id="r",
    created_at="",
    days=("2019-06-04",),
    declared={},
    vocabularies={"tokens": FittedVocabulary(("7", "true", "2019-06-05", "a", "0999-01-01"), 1000, 10)},
)


@pytest.mark.thorough
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("of", VALUES)
def test_what_is_made_of_a_value_is_what_the_job_makes_of_it_or_it_is_refused(
    spark: SparkSession, of: str, listed: bool
) -> None:
    session, values = run_session(spark, "Asia/Kathmandu"), [*VALUES[of], None]
    given = [[value, None, value] for value in values] if listed else values
    kind = f"array<{of}>" if listed else of
    rows = literal(session, [(n, (value,)) for n, value in enumerate(given)], f"n int, item struct<of: {kind}>")
    features: dict[str, dict[str, Any]] = {}
    for n, keys in enumerate(FEATURES):
        feature = {"from": "item.of", **keys}
        if listed:
            feature |= {"ragged": True, **({"fill": feature.pop("default")} if "default" in feature else {})}
        with suppress(InputError, AnalysisException):  # the job refuses this type, so nothing is served
            features_in_job(rows, {f"f{n}": feature})
            features[f"f{n}"] = feature
    typed, columns = features_in_job(rows, features)
    of_job = values_of(typed, columns)
    compared = 0
    for name, feature in features.items():
        make = feature_of(Declared.of(name, feature), {"timezone": "Asia/Kathmandu"}, STATE, None if listed else 0)
        for value, expected in zip(given, of_job[name], strict=True):
            try:
                found = make({"item": {"of": value}})
            except InputError:
                continue
            dtype = feature["dtype"]
            assert _recorded(found, dtype) == _recorded(expected, dtype), (feature, value)
            compared += value is not None
    assert compared or of.startswith("timestamp")


def features_in_job(rows: DataFrame, features: Mapping[str, Any]) -> tuple[DataFrame, dict[str, Column]]:
    """The rows with ids of their tokens, and the columns of features; raises what the job refuses them with."""
    config = job(**features)
    typed = with_joined_ids(rows, joined_ids(rows, config, STATE))
    columns = {name: feature_column(typed, name, config.features[name], config, STATE).alias(name) for name in features}
    typed.select(*columns.values())
    return typed, columns


def _recorded(value: Any, dtype: str) -> Any:
    """What a record holds of a value."""
    if isinstance(value, list):
        return [_recorded(item, dtype) for item in value]
    if dtype == "float32" and value is not None:
        with np.errstate(over="ignore"):
            return repr(np.float32(float(value)))
    return value.encode() if isinstance(value, str) else bytes(value) if isinstance(value, bytearray) else value


PATHS: list[dict[str, Any]] = [
    {"from": "item.inside.code", "dtype": "string"},
    {"from": "item.tags.a", "dtype": "float32"},
    {"from": "item.tags.b", "dtype": "float32"},
    {"from": "item.steps.code", "dtype": "string", "ragged": True},
    {"from": "1.5", "dtype": "float32"},
    *[
        {"from": "item.tags", "at": at, "dtype": "float32"}
        for at in ("'a'", "1.5", "'1.5'", "7", "-07", "item.inside.code", "item.nothing.code")
    ],
]


def test_what_a_path_or_a_literal_means_is_what_it_means_to_the_job_or_refused(spark: SparkSession) -> None:
    item: dict[str, Any] = {
        "inside": {"code": "a"},
        "tags": {"a": 0.5, "1.5": 2.5, "7": 3.5, "-7": 4.5},
        "nothing": None,
        "steps": [{"code": "x"}, {"code": "y"}],
    }
    kinds = "inside: struct<code: string>, tags: map<string, double>, nothing: struct<code: string>"
    kinds += ", steps: array<struct<code: string>>"
    rows = literal(run_session(spark, "UTC"), [(0, item)], f"n int, item struct<{kinds}>")
    of_job = in_job(rows, {f"f{n}": feature for n, feature in enumerate(PATHS)})
    for feature, (found,) in zip(PATHS, of_job.values(), strict=True):
        assert served(feature, "UTC", item) in (found, REFUSED), feature


@pytest.mark.parametrize("more", [{"hash_buckets": 9}, {"dtype": "string"}, {"vocabulary": "tokens"}])
def test_half_of_a_surrogate_pair_is_refused_in_a_sentence(more: dict[str, Any]) -> None:
    declared = Declared.of("f", {"from": "item.of", "dtype": "int64", **more})
    value = feature_of(declared, {"timezone": "UTC"}, STATE, 0)
    with pytest.raises(InputError, match=r"features\.f: found 'a\\ud800', which has half of a surrogate pair"):
        value({"item": {"of": "a\ud800"}, "": {}})


@pytest.mark.parametrize("number", [-1, -(2**63), -5, 1 << 14, 2**63 - 1, 7])
def test_an_integer_of_numpy_is_written_like_one_of_python(number: int) -> None:
    for shape in ((), None):
        contract = ExampleContract((FeatureSpec("f", "int64", shape),))
        each = [MessageWriter(contract).write({"f": x if shape == () else [x]}) for x in (number, np.int64(number))]
        assert each[0] == each[1]
