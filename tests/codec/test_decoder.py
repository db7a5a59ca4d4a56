"""Reading records: what protobuf allows, what the contract demands, and nothing that is only claimed."""

from __future__ import annotations

import math
import pickle
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings
from hypothesis import strategies as st

from ctr_samples.codec import ExampleDecoder, ExampleEncoder
from ctr_samples.codec.decoder import Messages, byte_arrays
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ContractError, DamagedFile
from tests.codec.framing import chunk, frame
from tests.support.tensorflow_files import example, sequence_example
from tests.support.wire_messages import altered, delimited, odd_message, varint

ANY = ExampleContract(
    (FeatureSpec("a", "int64", None), FeatureSpec("b", "float32", None), FeatureSpec("c", "bytes", None))
)
KINDS = {"a": "int64_list", "b": "float_list", "c": "bytes_list"}


def read(contract: ExampleContract, *messages: bytes, strict: bool = True) -> list[dict[str, Any]]:
    batch = ExampleDecoder(contract, strict=strict).decode(b"".join(map(frame, messages)))
    batch.validate(full=True)
    return batch.to_pylist()


def as_protobuf_reads(message: bytes) -> dict[str, Any]:
    parsed = tf.train.Example.FromString(message).features.feature
    values = {}
    for name, kind in KINDS.items():
        fits = name in parsed and parsed[name].WhichOneof("kind") == kind
        values[name] = list(getattr(parsed[name], kind).value) if fits else None
    return values


SEEDS = st.integers(0, 2**64 - 1)


@given(seed=SEEDS)
@settings(max_examples=4 * settings.default.max_examples)
def test_odd_but_valid_messages_read_as_protobuf_reads_them(seed: int) -> None:
    message = odd_message(seed)
    assert read(ANY, message, strict=False) == [as_protobuf_reads(message)]


@given(seed=SEEDS)
@settings(max_examples=4 * settings.default.max_examples)
def test_altered_messages_read_as_protobuf_reads_them_or_not_at_all(seed: int) -> None:
    message = altered(odd_message(seed), seed)
    reads_as_protobuf_or_not_at_all(message)


def reads_as_protobuf_or_not_at_all(message: bytes) -> None:
    try:
        expected = as_protobuf_reads(message)
    except (DecodeError, UnicodeDecodeError):
        expected = None
    try:
        rows = read(ANY, message, strict=False)
    except DamagedFile:
        # Field number 0 is malformed by the specification, but Python's protobuf passes over it.
        assert expected is None or b"\0" in message
    else:
        # What we pass over, such as the values of other keys, we do not judge; nor what protobuf sets aside.
        assert expected is None or sets_aside_entries(message) or _same(rows[0], expected)


def sets_aside_entries(message: bytes) -> bool:
    """Whether a map entry had unknown fields: Python's protobuf then treats the whole entry as unknown."""
    return any(field.field_number == 1 for field in UnknownFieldSet(tf.train.Example.FromString(message).features))


ORDINARY = ExampleContract(
    (
        FeatureSpec("a", "int64"),
        FeatureSpec("b", "float32", (2,)),
        FeatureSpec("c", "bytes"),
        FeatureSpec("d", "int64", None),
        FeatureSpec("e", "int64", (20,)),
        FeatureSpec("f", "bytes", None),
        FeatureSpec("long_name_of_a_list", "float32", None),
    )
)


def ordinary_row(choice: random.Random) -> dict[str, Any]:
    """Values for the features of ORDINARY, some of them absent."""

    def integers(count: int) -> list[int]:
        return [choice.randrange(-(2**63), 2**63) >> choice.randrange(64) for _ in range(count)]

    def floats(count: int) -> list[float]:
        return [float(choice.randrange(100)) for _ in range(count)]

    def texts(count: int) -> list[bytes]:
        return [choice.randbytes(choice.randrange(40)) for _ in range(count)]

    row = {"a": integers(1), "b": floats(2), "c": texts(1), "d": integers(choice.randrange(30)), "e": integers(20)}
    row.update({"f": texts(choice.randrange(4)), "long_name_of_a_list": floats(choice.randrange(60))})
    return {name: values for name, values in row.items() if choice.random() < 0.9}


def entries(row: dict[str, Any], kinds: dict[str, str]) -> list[bytes]:
    lists = {"int64": "int64_list", "float32": "float_list", "bytes": "bytes_list"}
    messages = {n: tf.train.Feature() for n in row}
    for name, message in messages.items():
        values = getattr(message, lists[kinds[name]])
        values.SetInParent()
        values.value.extend(row[name])
    return [delimited(1, delimited(1, n.encode()) + delimited(2, m.SerializeToString())) for n, m in messages.items()]


@pytest.mark.thorough
@given(seed=SEEDS)
def test_records_read_alike_whether_or_not_their_keys_are_in_order(seed: int) -> None:
    choice = random.Random(seed)
    kinds = {f.name: f.dtype for f in ORDINARY.features}
    rows = [ordinary_row(choice) for _ in range(40)]
    in_order = [delimited(1, b"".join(entries(row, kinds))) for row in rows]
    backwards = [delimited(1, b"".join(reversed(entries(row, kinds)))) for row in rows]
    mixed = [choice.choice(pair) for pair in zip(in_order, backwards, strict=True)]
    scalars = ("a", "c")
    expected = [{n: row[n][0] if n in row and n in scalars else row.get(n) for n in ORDINARY.names()} for row in rows]
    assert read(ORDINARY, *in_order) == read(ORDINARY, *backwards) == read(ORDINARY, *mixed) == expected


@given(seed=SEEDS)
@settings(max_examples=4 * settings.default.max_examples)
def test_altered_ordinary_messages_read_as_protobuf_reads_them_or_not_at_all(seed: int) -> None:
    choice = random.Random(seed)
    row = {"a": [choice.randrange(300) for _ in range(3)], "b": [1.5, 2.5], "c": [choice.randbytes(5), b"x"]}
    message = altered(example(**row), seed)
    reads_as_protobuf_or_not_at_all(message)


NUMBERS = ExampleContract((FeatureSpec("n", "int64"), FeatureSpec("x", "float32")))


@given(seed=SEEDS)
@settings(max_examples=4 * settings.default.max_examples)
def test_altered_numbers_are_read_alike_the_quick_and_the_thorough_way(seed: int) -> None:
    choice = random.Random(seed)
    number = choice.randrange(-(2**63), 2**63) >> choice.randrange(64)
    message = altered(example(n=[number], x=[choice.random()]), seed)
    strange = [b""] * 16  # so many that the quick way is not tried again
    assert outcome(NUMBERS, message) == outcome(NUMBERS, *strange, message)


def outcome(contract: ExampleContract, *messages: bytes) -> str:
    """How the last of the messages is read, or that it is damaged."""
    try:
        return repr(read(contract, *messages, strict=False)[-1])
    except DamagedFile:
        return "damaged"


def _same(row: dict[str, Any], expected: dict[str, Any]) -> bool:
    def shown(value: Any) -> Any:
        return "nan" if isinstance(value, float) and math.isnan(value) else value

    return {k: v and list(map(shown, v)) for k, v in row.items()} == {
        k: v and list(map(shown, v)) for k, v in expected.items()
    }


def with_list(of_a: bytes) -> bytes:
    """An Example whose feature a has this list of integers."""
    return delimited(1, delimited(1, delimited(1, b"a") + delimited(2, delimited(3, of_a))))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(with_list(b"\x08\x05\x08" + varint(2**64 - 1)), [5, -1], id="not packed"),
        # tf.io.parse_example reads the first chunk only.
        pytest.param(with_list(delimited(1, b"\x01\x02") + delimited(1, b"\x03")), [1, 2, 3], id="in two chunks"),
        pytest.param(example(a=[1, 2, 3]) + example(a=[4]), [4], id="the last of two equal keys"),
        pytest.param(delimited(1, delimited(1, delimited(1, b"a") + delimited(2, b""))), None, id="without a kind"),
        pytest.param(example(a=[]), [], id="empty"),
    ],
)
def test_a_list_is_read_in_each_form_that_protobuf_allows(message: bytes, expected: list[int] | None) -> None:
    assert read(ANY, message) == [{"a": expected, "b": None, "c": None}]


def test_the_last_of_two_equal_sequences_counts() -> None:
    contract = ExampleContract((FeatureSpec("s", "int64", None, sequence=True),), "sequence_example")
    twice = sequence_example({}, {"s": [[1, 2], [3]]}) + sequence_example({}, {"s": [[4]]})
    assert read(contract, twice, sequence_example({}, {"s": [[5]]})) == [{"s": [[4]]}, {"s": [[5]]}]


def test_other_keys_are_passed_over() -> None:
    contract = ExampleContract((FeatureSpec("m", "int64"),))
    assert read(contract, example(a=[1], m=[2], z=[b"x"] * 50)) == [{"m": 2}]


def test_features_come_in_the_declared_order_whatever_order_they_are_written_in() -> None:
    contract = ExampleContract(tuple(FeatureSpec(n, "int64") for n in ("z", "a1", "a", "a10")))
    batch = ExampleDecoder(contract).decode(frame(example(a=[1], a1=[2], a10=[3], z=[4])))
    assert batch.schema == ExampleDecoder(contract).schema
    assert batch.to_pylist() == [{"z": 4, "a1": 2, "a": 1, "a10": 3}]
    backwards = b"".join(example(**{n: [i]}) for i, n in enumerate(["z", "a10", "a1", "a"]))
    assert read(contract, backwards) == [{"z": 0, "a10": 1, "a1": 2, "a": 3}]


def test_no_records_give_no_rows() -> None:
    batch = ExampleDecoder(ANY).decode(b"")
    assert batch.num_rows == 0
    assert batch.schema == ExampleDecoder(ANY).schema


def test_a_contract_without_features_gives_rows_all_the_same() -> None:
    assert ExampleDecoder(ExampleContract(())).decode(frame(example(a=[1])) * 3).num_rows == 3


def test_an_absent_feature_is_its_default() -> None:
    contract = ExampleContract(
        (
            FeatureSpec("n", "int64", nulls="default", default=-1),
            FeatureSpec("v", "float32", (2,), nulls="default", default=0.5),
            FeatureSpec("s", "bytes", None, nulls="default", default="none"),
        )
    )
    assert read(contract, example(), example(n=[3])) == [
        {"n": -1, "v": [0.5, 0.5], "s": [b"none"]},
        {"n": 3, "v": [0.5, 0.5], "s": [b"none"]},
    ]


def test_arrow_types_follow_the_contract() -> None:
    contract = ExampleContract(
        (
            FeatureSpec("scalar", "int64"),
            FeatureSpec("list", "float32", None),
            FeatureSpec("vector", "float32", (3,)),
            FeatureSpec("matrix", "bytes", (2, 3)),
            FeatureSpec("steps", "int64", (), sequence=True),
            FeatureSpec("windows", "int64", (2,), sequence=True),
        ),
        "sequence_example",
    )
    assert [f.type for f in ExampleDecoder(contract).schema] == [
        pa.int64(),
        pa.list_(pa.float32()),
        pa.list_(pa.float32(), 3),
        pa.list_(pa.list_(pa.binary(), 3), 2),
        pa.list_(pa.int64()),
        pa.list_(pa.list_(pa.int64(), 2)),
    ]


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (example(n=[1.5]), "feature 'n' holds float32 values, but the contract has int64 of shape []"),
        (example(n=[1, 2]), "feature 'n' holds 2 values, but the contract has int64 of shape []"),
        (example(n=[]), "feature 'n' holds 0 values"),
        (example(), "feature 'n' is absent, but the contract requires it"),
    ],
)
def test_a_record_that_does_not_fit_is_refused_and_named(message: bytes, problem: str) -> None:
    contract = ExampleContract((FeatureSpec("n", "int64", nulls="fail"),))
    with pytest.raises(ContractError, match="Record 1 of the buffer") as raised:
        read(contract, example(n=[0]), message)
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("name", "packed", "wrong"),
    [
        ("n", b"\x01\x02", ContractError),
        ("n", b"\x80", DamagedFile),
        ("n", b"\x80" * 10, DamagedFile),
        ("x", bytes(8), ContractError),
        ("x", bytes(3), DamagedFile),
        ("x", bytes(5), DamagedFile),
    ],
)
def test_one_number_is_refused_where_its_bytes_are_too_few_or_too_many(
    name: str, packed: bytes, wrong: type[Exception]
) -> None:
    kind = 3 if name == "n" else 2
    message = delimited(
        1, delimited(1, delimited(1, name.encode()) + delimited(2, delimited(kind, delimited(1, packed))))
    )
    with pytest.raises(wrong):
        read(NUMBERS, message)


@pytest.mark.parametrize("message", [example(n=[1.5]), example(n=[1, 2]), example(n=[]), example()])
def test_a_record_that_does_not_fit_is_null_when_not_strict(message: bytes) -> None:
    contract = ExampleContract((FeatureSpec("n", "int64", nulls="fail"),))
    assert read(contract, example(n=[7]), message, example(n=[8]), strict=False) == [{"n": 7}, {"n": None}, {"n": 8}]


def test_sequences_agree_with_tensorflows_parser() -> None:
    contract = ExampleContract(
        (
            FeatureSpec("user", "int64"),
            FeatureSpec("clicks", "int64", (), sequence=True),
            FeatureSpec("words", "bytes", None, sequence=True),
        ),
        "sequence_example",
    )
    message = sequence_example({"user": [7]}, {"clicks": [[5], [6]], "words": [[b"x", b"yy"], None, [b"z"]]})
    context, sequences = tf.io.parse_single_sequence_example(
        message,
        {"user": tf.io.FixedLenFeature([], tf.int64)},
        {"clicks": tf.io.FixedLenSequenceFeature([], tf.int64), "words": tf.io.RaggedFeature(tf.string)},
    )
    expected = {
        "user": int(context["user"]),
        "clicks": sequences["clicks"].numpy().tolist(),
        "words": sequences["words"].to_list(),
    }
    assert read(contract, message) == [expected]
    assert expected["words"] == [[b"x", b"yy"], [], [b"z"]]


@pytest.mark.parametrize(
    "claimed",
    [2**31, 2**40, 2**60, 2**63 - 1, 2**63, 2**64 - 1],
    ids=["2^31", "2^40", "2^60", "2^63-1", "2^63", "2^64-1"],
)
@pytest.mark.parametrize("depth", range(5))
def test_a_length_beyond_the_message_is_damage_at_every_depth(claimed: int, depth: int) -> None:
    """Depths: features, entry, value, list, packed numbers. TensorFlow's own reader crashes on such record lengths."""
    tags = [0x0A, 0x0A, 0x12, 0x1A, 0x0A]
    message = bytes([tags[depth]]) + varint(claimed) + b"xyz"
    for level in reversed(range(depth)):
        key = delimited(1, b"a") if level == 1 else b""
        message = (
            key + bytes([tags[level]]) + varint(len(message)) + message
            if level != 1
            else (bytes([tags[1]]) + varint(len(key + message)) + key + message)
        )
    with pytest.raises(DamagedFile, match="not a well-formed message"):
        read(ANY, message)


def test_groups_deeper_than_any_writer_nests_them_are_damage() -> None:
    with pytest.raises(DamagedFile):
        read(ANY, b"\x7b" * 100 + b"\x7c" * 100)


def test_tensors_that_tensorflow_serialized_are_read_and_those_of_another_shape_are_damage() -> None:
    contract = ExampleContract((FeatureSpec("t", "float32", (2, 2), encoding="tensor"),))
    square, flat = (
        tf.io.serialize_tensor(tf.constant(t)).numpy() for t in ([[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0, 3.0, 4.0])
    )
    assert read(contract, example(t=[square])) == [{"t": [[1.0, 2.0], [3.0, 4.0]]}]
    with pytest.raises(DamagedFile, match="'t'"):
        read(contract, example(t=[flat]))


def test_columns_grow_from_record_to_record() -> None:
    sizes = [0, 1, 5000, 3, 0, 100_000]
    contract = ExampleContract((FeatureSpec("a", "int64", None), FeatureSpec("c", "bytes", None)))
    rows = [{"a": list(range(n)), "c": [b"x" * n]} for n in sizes]
    assert read(contract, *[example(**row) for row in rows]) == rows


def test_records_of_several_buffers_are_read_in_any_order() -> None:
    runs = [chunk(example(n=[10]), example(n=[11])), chunk(example(n=[12]), example(n=[13]))]
    decoder = ExampleDecoder(ExampleContract((FeatureSpec("n", "int64"),)))
    for order, expected in ((None, [10, 11, 12, 13]), (np.array([3, 0, 2]), [13, 10, 12])):
        (column,) = decoder.read(Messages(runs, order)).columns
        assert column.content.tolist() == expected


def test_a_record_that_does_not_fit_is_named_by_its_place_in_its_own_buffer() -> None:
    runs = [chunk(example(n=[10])), chunk(example(n=[11]), example(n=[1, 2]))]
    decoder = ExampleDecoder(ExampleContract((FeatureSpec("n", "int64"),)))
    with pytest.raises(ContractError, match=f"Record 1 of the buffer, at byte {len(frame(example(n=[11])))}, "):
        decoder.read(Messages(runs, np.array([0, 2, 1])))


def test_plain_bytes_of_several_buffers_are_joined_in_any_order() -> None:
    limits, content = byte_arrays(Messages([chunk(b"ab", b""), chunk(b"c")], np.array([2, 1, 0])))
    assert (limits.tolist(), content.tobytes()) == ([0, 1, 1, 3], b"cab")


def test_decoders_pickle() -> None:
    decoder = pickle.loads(pickle.dumps(ExampleDecoder(ANY, strict=False)))
    assert decoder.strict is False
    assert decoder.decode(frame(example(a=[1]))).to_pylist() == [{"a": [1], "b": None, "c": None}]


def test_records_of_plain_bytes_come_back() -> None:
    contract = ExampleContract((FeatureSpec("payload", "bytes", nulls="fail"),), "byte_array")
    batch = pa.RecordBatch.from_pydict({"payload": [b"x", b"", b"z" * 1000]})
    assert ExampleDecoder(contract).decode(ExampleEncoder(contract).encode(batch).buffer).equals(batch)
