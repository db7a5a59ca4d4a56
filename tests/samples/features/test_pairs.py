"""Features of two sources: what the job makes of a batch, and serving of one row."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from ctr_samples.config import Feature
from ctr_samples.errors import EncodeError, InputError
from ctr_samples.samples.features.pairs import PAIRS, PairValues
from ctr_samples.serving.declared import Declared
from ctr_samples.serving.feature_inputs import source_of

NUMBERS = pa.map_(pa.string(), pa.float64())
STRUCTS = pa.list_(pa.struct([("k", pa.string()), ("v", pa.float64())]))
USER = pa.struct(
    [
        ("weights", NUMBERS),
        ("counts", pa.map_(pa.int64(), pa.int32())),
        ("pairs", STRUCTS),
        ("by_channel", pa.map_(pa.int32(), NUMBERS)),
        ("names", pa.map_(pa.string(), pa.string())),
        ("tags", pa.list_(pa.string())),
        ("ids", pa.list_(pa.int64())),
        ("vector", pa.list_(pa.float32())),
        ("channel", pa.string()),
    ]
)
ITEM = pa.struct(
    [
        ("topics", pa.list_(pa.string())),
        ("topic", pa.string()),
        ("channel", pa.int32()),
        ("channels", pa.list_(pa.int32())),
        ("tags", pa.list_(pa.string())),
        ("id", pa.int64()),
        ("vector", pa.list_(pa.float64())),
    ]
)
WEIGHTS = {"7:a": 1.5, "7:b": -0.25, "7:a:c": 4.0, "71:a": 8.0, "a": 2.0, "b": None, "c": math.nan}
USERS: dict[str, Any] = {
    "weights": WEIGHTS,
    "counts": {7: 3, 71: 5},
    "pairs": [{"k": "a", "v": 1.0}, {"k": "b", "v": 2.0}, {"k": "a", "v": 3.0}],
    "by_channel": {7: {"a": 1.5, "b": 0.5}, 8: None, 9: {}},
    "names": {"a": "one"},
    "tags": ["x", "y", "y", None],
    "ids": [3, 4],
    "vector": [3.0, 4.0],
    "channel": "7",
}
ITEMS: dict[str, Any] = {
    "topics": ["b", "a", "a", None, "no"],
    "topic": "a",
    "channel": 7,
    "channels": [71, 7, 8],
    "tags": ["y", "z"],
    "id": 4,
    "vector": [1.0, 2.0],
}
EMPTY: list[Any] = []
WANTED: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], Any]] = [
    ({"lookup": {"map": "user.weights", "keys": "item.topic"}}, {}, {}, 2.0),
    ({"lookup": {"map": "user.weights", "keys": "item.topic"}}, {}, {"topic": "no"}, None),
    ({"lookup": {"map": "user.weights", "keys": "item.topic"}}, {"weights": None}, {}, None),
    ({"lookup": {"map": "user.counts", "keys": "item.channel"}}, {}, {}, 3),
    ({"lookup": {"map": "user.counts", "keys": "user.channel"}}, {}, {}, 3),  # a number and its text are equal
    ({"lookup": {"map": "user.weights", "keys": "item.topics"}}, {}, {}, [None, 2.0, 2.0, None, None]),
    ({"lookup": {"map": "user.weights", "keys": "item.topics"}}, {}, {"topics": []}, EMPTY),
    ({"lookup": {"map": "user.weights", "keys": "item.topics"}}, {}, {"topics": None}, None),
    ({"lookup": {"map": "user.names", "keys": "item.topics"}}, {}, {}, [None, "one", "one", None, None]),
    ({"lookup": {"map": "user.weights", "keys": "item.topics", "reduce": "sum"}}, {}, {}, 4.0),
    ({"lookup": {"map": "user.weights", "keys": "item.topics", "reduce": "mean"}}, {}, {}, 2.0),
    ({"lookup": {"map": "user.weights", "keys": "item.topics", "reduce": "count"}}, {}, {}, 2),
    ({"lookup": {"map": "user.counts", "keys": "item.channels", "reduce": "sum"}}, {}, {}, 8.0),
    ({"lookup": {"map": "user.counts", "keys": "item.channels", "reduce": "max"}}, {}, {}, 5.0),
    ({"lookup": {"map": "user.counts", "keys": "item.channels", "reduce": "min"}}, {}, {}, 3.0),
    ({"lookup": {"map": "user.weights", "keys": "item.topics", "reduce": "sum"}}, {}, {"topics": ["no"]}, 0.0),
    ({"lookup": {"map": "user.weights", "keys": "item.topics", "reduce": "mean"}}, {}, {"topics": ["no"]}, None),
    ({"lookup": {"map": "user.weights", "keys": "item.topics", "reduce": "max"}}, {}, {"topics": []}, None),
    ({"lookup": {"map": "user.weights", "keys": "item.topics", "reduce": "count"}}, {}, {"topics": []}, 0),
    ({"lookup": {"map": "user.weights", "keys": "item.topics", "reduce": "sum"}}, {}, {"topics": ["c", "a"]}, math.nan),
    ({"lookup": {"map": "user.weights", "keys": "item.topic", "reduce": "sum"}}, {}, {}, 2.0),
    ({"lookup": {"map": "user.pairs", "keys": "item.topics", "reduce": "sum"}}, {}, {}, 8.0),  # the last entry counts
    ({"lookup": {"map": "user.pairs", "keys": "item.topics", "reduce": "sum"}},
     {"pairs": [None, {"k": None, "v": 1.0}, {"k": "a", "v": 2.0}]}, {}, 4.0),
    ({"lookup": {"map": "user.weights", "under": "item.channel"}}, {}, {}, {"7:a": 1.5, "7:b": -0.25, "7:a:c": 4.0}),
    ({"lookup": {"map": "user.weights", "under": "item.channel"}}, {}, {"channel": 8}, {}),
    ({"lookup": {"map": "user.weights", "under": "item.channel"}}, {}, {"channel": None}, None),
    ({"lookup": {"map": "user.weights", "under": "item.topic", "separator": "->"}}, {"weights": {"a->b": 1.0}}, {},
     {"a->b": 1.0}),
    ({"lookup": {"map": "user.weights", "under": "item.channel", "keys": "item.topics", "reduce": "sum"}}, {}, {}, 2.75),
    ({"lookup": {"map": "user.weights", "under": "item.channel", "keys": "item.topic"}}, {}, {}, 1.5),
    ({"lookup": {"map": "user.by_channel", "under": "item.channel", "keys": "item.topics"}}, {}, {},
     [0.5, 1.5, 1.5, None, None]),
    ({"lookup": {"map": "user.by_channel", "under": "item.channel"}}, {}, {}, {"a": 1.5, "b": 0.5}),
    *[
        ({"lookup": {"map": "user.by_channel", "under": "item.channel", **more}}, {}, {"channel": channel}, wanted)
        for channel in (8, 9, 10)  # nothing, an empty map and no entry are the same
        for more, wanted in (({}, {}), ({"keys": "item.topic", "reduce": "sum"}, 0.0), ({"keys": "item.topic"}, None))
    ],
    ({"overlap": {"of": "user.tags", "with": "item.tags"}}, {}, {}, 1),
    ({"overlap": {"of": "user.tags", "with": "item.tags", "as": "any"}}, {}, {"tags": ["z"]}, 0),
    ({"overlap": {"of": "user.tags", "with": "item.tags", "as": "share_of"}}, {}, {"tags": ["y", "z", "v"]}, 0.5),
    ({"overlap": {"of": "user.tags", "with": "item.tags", "as": "share_with"}}, {}, {"tags": ["y", "z", "v", "u"]}, 0.25),
    ({"overlap": {"of": "user.tags", "with": "item.tags", "as": "share_of"}}, {"tags": [None]}, {}, None),
    ({"overlap": {"of": "user.tags", "with": "item.tags"}}, {"tags": None}, {}, None),
    ({"overlap": {"of": "user.ids", "with": "item.id", "as": "any"}}, {}, {}, 1),
    ({"overlap": {"of": "user.ids", "with": "item.id", "as": "any"}}, {}, {"id": None}, None),
    ({"dot": {"of": "user.vector", "with": "item.vector"}}, {}, {}, 11.0),
    ({"dot": {"of": "user.vector", "with": "item.vector", "as": "cosine"}}, {}, {"vector": [4.0, 3.0]}, 0.96),
    ({"dot": {"of": "user.vector", "with": "item.vector", "as": "cosine"}}, {}, {"vector": [0.0, 0.0]}, None),
    ({"dot": {"of": "user.vector", "with": "item.vector"}}, {}, {"vector": [None, 1.0]}, None),
    ({"dot": {"of": "user.vector", "with": "item.vector"}}, {}, {"vector": None}, None),
    ({"dot": {"of": "user.vector", "with": "item.vector"}}, {"vector": []}, {"vector": []}, 0.0),
    ({"dot": {"of": "user.vector", "with": "item.vector"}}, {"vector": [math.nan]}, {"vector": [1.0]}, math.nan),
]  # fmt: skip


def batch(users: list[Any], items: list[Any]) -> pa.RecordBatch:
    def arrow(row: Any) -> Any:
        maps = [f.name for f in USER if pa.types.is_map(f.type)]
        inner = {"by_channel": lambda value: None if value is None else list(value.items())}
        return row and {
            name: [(k, inner.get(name, lambda v: v)(v)) for k, v in value.items()]
            if name in maps and value is not None
            else value
            for name, value in row.items()
        }

    return pa.RecordBatch.from_arrays(
        [pa.array([arrow(row) for row in users], USER), pa.array(items, ITEM)], ["user", "item"]
    )


def in_job(entry: dict[str, Any], rows: pa.RecordBatch) -> list[Any]:
    """What the job makes of rows, with maps as dicts."""
    step = PairValues.of({"f": Feature.model_validate({"dtype": "float32", **entry})}, from_arrow_schema(rows.schema))
    made = step(rows).column(PAIRS)
    assert from_arrow_schema(made.type) == step.kinds
    values = made.field("f").to_pylist()
    return [dict(value) if pa.types.is_map(made.field("f").type) and value is not None else value for value in values]


def in_serving(entry: dict[str, Any], user: Any, item: Any) -> Any:
    whole = Feature.model_validate({"dtype": "float32", **entry}).model_dump(mode="json", by_alias=True)
    kind = next(iter(entry))
    declared = Declared.of("f", {"dtype": "float32", kind: whole[kind]})
    return source_of(declared, {"timezone": "UTC", "views": {"user": {}, "item": {}}})({"user": user, "item": item})


def said(value: Any) -> str:
    """A value as text, in which NaN is equal to itself; which order a map has is not told."""
    return repr(dict(sorted(value.items())) if isinstance(value, dict) else value)


@pytest.mark.parametrize(("entry", "user", "item", "wanted"), WANTED)
def test_a_value_of_two_sources_is_the_same_in_the_job_and_in_serving(
    entry: dict[str, Any], user: dict[str, Any], item: dict[str, Any], wanted: Any
) -> None:
    user, item = {**USERS, **user}, {**ITEMS, **item}
    assert said(in_job(entry, batch([user], [item]))[0]) == said(wanted)
    if isinstance(wanted, dict):  # serving sorts the entries of a map
        wanted = [wanted[key] for key in sorted(wanted, key=lambda key: (-wanted[key], key))]
    assert said(in_serving(entry, user, item)) == said(wanted)


@pytest.mark.parametrize("entry", [*{repr(entry): entry for entry, *_ in WANTED}.values()])
def test_rows_of_a_batch_do_not_see_each_other(entry: dict[str, Any]) -> None:
    one = random.Random(repr(entry))
    users = [one.choice([None, random_user(one)]) for _ in range(40)]
    items = [one.choice([None, random_item(one)]) for _ in range(40)]
    rows = batch(users, items)
    together = in_job(entry, rows)
    assert in_job(entry, rows.slice(0, 0)) == []
    assert list(map(said, together)) == [said(in_job(entry, rows.slice(n, 1))[0]) for n in range(40)]
    if not any(isinstance(value, dict) for value in together):
        assert list(map(said, together)) == [said(in_serving(entry, *pair)) for pair in zip(users, items, strict=True)]


def random_user(one: random.Random) -> dict[str, Any]:
    texts = ["a", "b", "c", "7:a", "7:b", "8:a", "71:a", "ü", "7", ""]
    number = lambda: one.choice([None, one.uniform(-2, 2), 0.1, 1e308])  # noqa: E731
    row = {
        "weights": {key: number() for key in one.sample(texts, one.randrange(9))},
        "counts": {key: one.randrange(9) for key in one.sample(range(9), one.randrange(9))},
        "pairs": [{"k": one.choice(texts), "v": number()} for _ in range(one.randrange(5))],
        "by_channel": {
            key: {k: number() for k in one.sample(texts, one.randrange(4))}
            for key in one.sample(range(9), one.randrange(9))
        },
        "names": {key: one.choice(texts) for key in one.sample(texts, one.randrange(9))},
        "tags": [one.choice([*texts, None]) for _ in range(one.randrange(6))],
        "ids": [one.randrange(4) for _ in range(one.randrange(6))],
        "vector": [one.choice([0.0, 0.5, -1.25, None]) for _ in range(2)],
        "channel": one.choice(["7", "8", "no"]),
    }
    return {name: None if one.random() < 0.1 else value for name, value in row.items()}


def random_item(one: random.Random) -> dict[str, Any]:
    topics = ["a", "b", "7:a", "ü", "", None]
    row = {
        "topics": [one.choice(topics) for _ in range(one.randrange(6))],
        "topic": one.choice(topics),
        "channel": one.choice([7, 8, 71]),
        "channels": [one.choice([7, 8, None]) for _ in range(one.randrange(4))],
        "tags": [one.choice(topics) for _ in range(one.randrange(4))],
        "id": one.randrange(4),
        "vector": [one.choice([0.0, 0.5, 1e-300, None]) for _ in range(2)],
    }
    return {name: None if one.random() < 0.1 else value for name, value in row.items()}


def test_rows_that_share_a_map_have_the_values_of_copies_of_it() -> None:
    one = random.Random(5)
    users = [random_user(one) for _ in range(5)]
    places = [3, 0, 0, 4, 3, 1, 3]
    items = [random_item(one) for _ in places]
    copied = batch([users[place] for place in places], items)
    stored = batch(users, items[:5]).column("user")
    numbers = pa.array(places, pa.int32())
    fields = [pa.DictionaryArray.from_arrays(numbers, stored.field(name)) for name in ("weights", "by_channel", "tags")]
    user = pa.StructArray.from_arrays(fields, ["weights", "by_channel", "tags"])
    shared = pa.RecordBatch.from_arrays([user, copied.column("item")], ["user", "item"])
    for entry in (
        {"lookup": {"map": "user.weights", "under": "item.channel", "keys": "item.topics", "reduce": "sum"}},
        {"lookup": {"map": "USER.Weights", "under": "item.channel"}},
        {"lookup": {"map": "user.by_channel", "under": "item.channel", "keys": "item.topics"}},
        {"overlap": {"of": "user.tags", "with": "item.tags"}},
    ):
        kinds = from_arrow_schema(copied.schema)
        step = PairValues.of({"f": Feature.model_validate({"dtype": "float32", **entry})}, kinds)
        assert step(shared).column(PAIRS).equals(step(copied).column(PAIRS))


@pytest.mark.thorough
def test_lookups_equal_the_sql_that_they_replace(spark: SparkSession) -> None:
    one = random.Random(11)
    users = [random_user(one) for _ in range(300)]
    items = [random_item(one) for _ in range(300)]
    rows = batch(users, items)
    frame = spark.createDataFrame(pa.Table.from_batches([rows]))
    under = "concat(cast(item.channel as string), ':')"
    replaced = {
        "coalesce(aggregate(transform(item.topics, t -> coalesce(user.weights[t], 0D)), 0D, (s, w) -> s + w), 0D)": {
            "lookup": {"map": "user.weights", "keys": "item.topics", "reduce": "sum"}
        },
        f"coalesce(aggregate(transform(item.topics, t -> coalesce(user.weights[concat({under}, t)], 0D)), 0D, "
        "(s, w) -> s + w), 0D)": {
            "lookup": {"map": "user.weights", "under": "item.channel", "keys": "item.topics", "reduce": "sum"}
        },
        f"map_filter(user.weights, (k, w) -> startswith(k, {under}))": {
            "lookup": {"map": "user.weights", "under": "item.channel"}
        },
        "transform(item.topics, t -> user.by_channel[item.channel][t])": {
            "lookup": {"map": "user.by_channel", "under": "item.channel", "keys": "item.topics"}
        },
        "size(array_intersect(array_compact(user.tags), array_compact(item.tags)))": {
            "overlap": {"of": "user.tags", "with": "item.tags"}
        },
    }
    found = frame.selectExpr(*[f"{sql} as c{n}" for n, sql in enumerate(replaced)]).toArrow()
    for n, (sql, entry) in enumerate(replaced.items()):
        wanted, made = found.column(f"c{n}").to_pylist(), in_job(entry, rows)
        if "coalesce(aggregate" in sql:  # SQL has no difference between no map and no entry
            made = [0.0 if value is None else value for value in made]
        if "size(" in sql:
            wanted = [None if value == -1 else value for value in wanted]
        if "map_filter" in sql:
            wanted = [None if value is None else dict(value) for value in wanted]
            wanted = [None if item["channel"] is None else value for value, item in zip(wanted, items, strict=True)]
        if "by_channel" in sql:  # nor one between no user and no key
            pairs = zip(wanted, users, items, strict=True)
            wanted = [None if None in (u["by_channel"], i["channel"]) else value for value, u, i in pairs]
        assert list(map(said, made)) == list(map(said, wanted)), sql


def test_vectors_of_different_length_end_the_run_with_both_names() -> None:
    entry = {"dot": {"of": "user.vector", "with": "item.vector"}}
    user, item = {**USERS, "vector": [1.0]}, ITEMS
    sentence = (
        "features.f: found 1 numbers in user.vector and 2 numbers in item.vector, expected two vectors of one length."
    )
    with pytest.raises(EncodeError) as caught:
        in_job(entry, batch([USERS, user], [ITEMS, item]))
    assert str(caught.value) == sentence
    with pytest.raises(InputError) as online:
        in_serving(entry, user, item)
    assert str(online.value) == sentence


PLAIN = "of text, whole numbers, booleans or dates"


@pytest.mark.parametrize(
    ("kind", "keys", "said"),
    [
        (
            "lookup",
            {"map": "user.tags", "keys": "item.topic"},
            "map: found array<string>, expected a map, or a list of structs with two fields, a key and a value.",
        ),
        (
            "lookup",
            {"map": "user.weights", "keys": "item.vector"},
            f"keys: found array<double>, expected a key or a list of keys {PLAIN}.",
        ),
        (
            "lookup",
            {"map": "user.weights", "under": "item.topics"},
            f"under: found array<string>, expected a key {PLAIN}.",
        ),
        (
            "lookup",
            {"map": "user.counts", "under": "item.channel"},
            "map: found map<bigint,int>, expected keys of text, which begin with what they lie under, or a map of maps.",
        ),
        (
            "lookup",
            {"map": "user.names", "keys": "item.topics", "reduce": "sum"},
            "map: found map<string,string>, expected values that are numbers for `reduce: sum`.",
        ),
        ("lookup", {"map": "user.none", "keys": "item.topics"}, "map: there is no column 'user.none'."),
        (
            "overlap",
            {"of": "user.weights", "with": "item.tags"},
            f"of: found map<string,double>, expected a value or a list {PLAIN}.",
        ),
        ("dot", {"of": "user.vector", "with": "item.channel"}, "with: found int, expected a list of numbers."),
    ],
)
def test_a_column_of_another_type_is_refused_before_the_run(kind: str, keys: dict[str, str], said: str) -> None:
    with pytest.raises(InputError) as caught:
        in_job({kind: keys}, batch([USERS], [ITEMS]))
    assert str(caught.value) == f"features.f.{kind}.{said}"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"lookup": {"map": "user.weights"}}, "`lookup` needs `keys`, or `under` for all entries under a key"),
        ({"lookup": {"map": "a.b", "under": "c.d", "reduce": "sum"}}, "`lookup.reduce` needs `keys`, whose values"),
        (
            {"lookup": {"map": "a.b", "keys": "c.d"}, "from": "a.b"},
            "give exactly one of `from`, `expr`, `cross`, `lookup`",
        ),
        (
            {"dot": {"of": "a.b", "with": "c.d"}, "at": "a.b"},
            "`dot` makes the value: remove `at`, `date_part` and `bias`",
        ),
        ({"overlap": {"of": "a.b", "with": "c.d"}, "bias": 1}, "`overlap` makes the value: remove"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(entry: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match="Feature") as caught:
        Feature.model_validate({"dtype": "float32", **entry})
    assert problem in str(caught.value)
