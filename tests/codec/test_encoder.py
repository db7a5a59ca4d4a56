"""What each type becomes on the wire, what is refused, and with what words."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from ctr_samples.codec import ExampleDecoder, ExampleEncoder
from ctr_samples.codec.reference import ReferenceEncoder
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ContractError, EncodeError
from tests.codec.framing import messages_of

F = FeatureSpec
VECTOR = pa.struct(
    {"type": pa.int8(), "size": pa.int32(), "indices": pa.list_(pa.int32()), "values": pa.list_(pa.float64())}
)


def written(specs: list[FeatureSpec], batch: pa.RecordBatch | dict[str, Any]) -> list[dict[str, list[Any]]]:
    """What protobuf finds in the records, once the bytes are known to be the reference engine's."""
    batch = batch if isinstance(batch, pa.RecordBatch) else pa.RecordBatch.from_pydict(batch)
    contract = ExampleContract(tuple(specs))
    encoded = ExampleEncoder(contract).encode(batch)
    assert encoded.buffer.tobytes() == ReferenceEncoder(contract).encode(batch).buffer.tobytes()
    rows = []
    for message in messages_of(encoded):
        features = tf.train.Example.FromString(message).features.feature
        rows.append({k: list(getattr(f, f.WhichOneof("kind")).value) for k, f in features.items()})
    return rows


def refusal(specs: list[FeatureSpec], batch: dict[str, Any], record: str = "example") -> str:
    with pytest.raises(ContractError) as raised:
        ExampleEncoder(ExampleContract(tuple(specs), record)).encode(  # type: ignore[arg-type]
            pa.RecordBatch.from_pydict(batch)
        )
    return str(raised.value)


def value_refusal(specs: list[FeatureSpec], batch: dict[str, Any]) -> str:
    with pytest.raises(EncodeError) as raised:
        ExampleEncoder(ExampleContract(tuple(specs))).encode(pa.RecordBatch.from_pydict(batch))
    return str(raised.value)


def test_three_rows_have_exactly_these_bytes() -> None:
    batch = pa.RecordBatch.from_pydict({"n": pa.array([1, -1, None]), "f": pa.array([0.5, 1.0, 2.0], pa.float32())})
    encoded = ExampleEncoder(ExampleContract((F("n", "int64"), F("f", "float32")))).encode(batch)
    assert messages_of(encoded) == [
        bytes.fromhex("0a1b0a0d0a0166120812060a040000003f0a0a0a016e12051a030a0101"),
        bytes.fromhex("0a240a0d0a0166120812060a040000803f0a130a016e120e1a0c0a0a" + "ff" * 9 + "01"),
        bytes.fromhex("0a0f0a0d0a0166120812060a0400000040"),
    ]


def test_a_null_row_leaves_the_key_out_and_an_empty_list_does_not() -> None:
    lists = pa.array([[1], [], None], pa.list_(pa.int64()))
    assert written([F("a", "int64", None)], {"a": lists}) == [{"a": [1]}, {"a": []}, {}]


def test_integers_of_all_widths_and_booleans_are_int64() -> None:
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    for kind in kinds:
        top = 2 ** (kind.bit_width - (1 if pa.types.is_signed_integer(kind) or kind == pa.uint64() else 0)) - 1
        low = -top - 1 if pa.types.is_signed_integer(kind) else 0
        column = pa.array([low, top, None], kind)
        assert written([F("a", "int64")], {"a": column}) == [{"a": [low]}, {"a": [top]}, {}], kind
    assert written([F("a", "int64")], {"a": pa.array([True, False, None])}) == [{"a": [1]}, {"a": [0]}, {}]


def test_floats_of_all_widths_and_decimals_are_float() -> None:
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        column = pa.array(np.array([0.5, -0.0, math.inf]), pa.float64()).cast(kind)
        rows = written([F("a", "float32")], {"a": column})
        assert rows == [{"a": [0.5]}, {"a": [0.0]}, {"a": [math.inf]}]
        assert math.copysign(1, rows[1]["a"][0]) == -1
    money = [decimal.Decimal("1.10"), None, decimal.Decimal("-99999.99")]
    assert written([F("a", "float32")], {"a": pa.array(money, pa.decimal128(9, 2))}) == [
        {"a": [np.float32(1.1)]},
        {},
        {"a": [np.float32(-99999.99)]},
    ]


def test_text_and_bytes_in_every_layout_are_bytes() -> None:
    texts = ["a", "", None, "é" * 20]
    expected: list[dict[str, Any]] = [{"a": [b"a"]}, {"a": [b""]}, {}, {"a": ["é".encode() * 20]}]
    kinds = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]
    for kind in [*kinds, pa.dictionary(pa.int8(), pa.string())]:
        encoded = [t if t is None or "string" in str(kind) else t.encode() for t in texts]
        assert written([F("a", "bytes")], {"a": pa.array(encoded, kind)}) == expected, kind


def test_dates_and_timestamps_count_in_the_declared_unit_and_round_towards_the_past() -> None:
    moment = dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)
    column = pa.array([moment, None], pa.timestamp("us"))
    for unit, expected in (("D", -1), ("s", -1), ("ms", -1), ("us", -1000), ("ns", -1_000_000)):
        assert written([F("t", "int64", unit=unit)], {"t": column}) == [{"t": [expected]}, {}]  # type: ignore[arg-type]
    days = pa.array([dt.date(1970, 1, 2)])
    assert written([F("t", "int64", unit="s")], {"t": days}) == [{"t": [86_400]}]
    assert written([F("t", "int64", unit="D")], {"t": days.cast(pa.date64())}) == [{"t": [1]}]


def test_structs_maps_and_nested_lists_come_apart() -> None:
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([{"id": 1, "geo": {"city": "x"}}, None]),
            pa.array([[("k", 1.0), ("l", 2.0)], None], pa.map_(pa.string(), pa.float64())),
            pa.array([[[1, 2], [], [3]], None], pa.list_(pa.list_(pa.int64()))),
        ],
        ["user", "weights", "history"],
    )
    specs = [
        F("user.id", "int64"),
        F("user.geo.city", "bytes"),
        F("weights.keys", "bytes", None),
        F("weights.values", "float32", None),
        F("history.values", "int64", None),
        F("history.row_lengths", "int64", None),
    ]
    assert written(specs, batch) == [
        {
            "user.id": [1],
            "user.geo.city": [b"x"],
            "weights.keys": [b"k", b"l"],
            "weights.values": [1.0, 2.0],
            "history.values": [1, 2, 3],
            "history.row_lengths": [2, 0, 1],
        },
        {},
    ]
    assert written(specs, batch.slice(1)) == [{}]


def test_vectors_of_spark_are_written_dense_or_sparse_as_the_contract_says() -> None:
    column = pa.array(
        [
            {"type": 0, "size": 4, "indices": [1, 3], "values": [1.0, 2.0]},
            {"type": 1, "size": None, "indices": None, "values": [5.0, 6.0, 7.0, 8.0]},
            None,
        ],
        VECTOR,
    )
    dense: list[dict[str, Any]] = [{"v": [0, 1, 0, 2]}, {"v": [5, 6, 7, 8]}, {}]
    assert written([F("v", "float32", (4,))], {"v": column}) == dense
    assert written([F("v.indices", "int64", None), F("v.values", "float32", None)], {"v": column}) == [
        {"v.indices": [1, 3], "v.values": [1, 2]},
        {"v.indices": [0, 1, 2, 3], "v.values": [5, 6, 7, 8]},
        {},
    ]


def test_tensors_are_flat_lists_or_one_value_that_tensorflow_parses() -> None:
    nested = pa.array([[[1.0, 2.0], [3.0, 4.0]]], pa.list_(pa.list_(pa.float32())))
    assert written([F("t", "float32", (2, 2))], {"t": nested}) == [{"t": [1, 2, 3, 4]}]
    (row,) = written([F("t", "float32", (2, 2), encoding="tensor")], {"t": nested})
    assert tf.io.parse_tensor(row["t"][0], tf.float32).numpy().tolist() == [[1, 2], [3, 4]]
    (row,) = written([F("t", "float32", (2, 2), encoding="raw")], {"t": nested})
    assert tf.io.decode_raw(row["t"][0], tf.float32).numpy().tolist() == [1, 2, 3, 4]


def test_tensors_of_three_dimensions_keep_their_order() -> None:
    values = np.arange(24).reshape(2, 2, 3, 2)
    kind = pa.list_(pa.list_(pa.list_(pa.int64(), 2)), 2)
    contract = ExampleContract((F("t", "int64", (2, 3, 2)),))
    batch = pa.RecordBatch.from_pydict({"t": pa.array(values.tolist(), kind)})
    assert written(list(contract.features), batch) == [{"t": list(range(12))}, {"t": list(range(12, 24))}]
    decoded = ExampleDecoder(contract).decode(ExampleEncoder(contract).encode(batch).buffer)
    assert decoded["t"].to_pylist() == values.tolist()
    ragged = values.tolist()
    ragged[1][0] = [[1, 2], [3, 4], [5], [6]]
    assert "row 1 of the batch" in value_refusal([F("t", "int64", (2, 3, 2))], {"t": pa.array(ragged)})


def test_the_reference_engine_refuses_what_the_encoder_refuses() -> None:
    for spec, column in (
        (F("a", "int64", nulls="fail"), pa.array([None, 1])),
        (F("a", "int64", None), pa.array([[None, 1]])),
        (F("a", "int64"), pa.array([2**63], pa.uint64())),
        (F("a", "float32"), pa.array([3.5e38])),
        (F("a", "int64", (2,)), pa.array([[1]])),
        (F("a", "float32", role="label"), pa.array([math.nan])),
    ):
        with pytest.raises(EncodeError, match="'a', row 0"):
            ReferenceEncoder(ExampleContract((spec,))).encode(pa.RecordBatch.from_pydict({"a": column}))


def test_nulls_become_defaults_and_nulls_inside_lists_are_filled() -> None:
    specs = [
        F("a", "int64", nulls="default", default=-1),
        F("b", "float32", (2,), nulls="default", default=0.5),
        F("c", "bytes", None, nulls="default", default="none", fill="gap"),
    ]
    batch = {
        "a": pa.array([None, 1]),
        "b": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
        "c": pa.array([None, ["x", None]]),
    }
    assert written(specs, batch) == [
        {"a": [-1], "b": [1.0, 2.0], "c": [b"none"]},
        {"a": [1], "b": [0.5, 0.5], "c": [b"x", b"gap"]},
    ]


def test_what_null_lists_cover_is_never_written() -> None:
    """Arrow may keep values under a null list; a fixed-size list always does."""
    hidden = pa.ListArray.from_arrays(pa.array([0, 2, 4]), pa.array([1, 2, None, 4]), mask=pa.array([False, True]))
    assert written([F("a", "int64", None)], {"a": hidden}) == [{"a": [1, 2]}, {}]
    fixed = pa.FixedSizeListArray.from_arrays(pa.array([1e300, 1.0, 2.0, 3.0]), 2, mask=pa.array([True, False]))
    assert written([F("a", "float32", (2,))], {"a": fixed}) == [{}, {"a": [2.0, 3.0]}]


def test_keys_are_sorted_as_protobuf_sorts_them() -> None:
    names = ["C1", "C10", "C2", "b", "é", "C"]
    written([F(n, "int64") for n in names], {n: pa.array([1]) for n in names})


def test_batches_without_rows_or_without_columns_are_right() -> None:
    contract = ExampleContract((F("a", "int64"),))
    empty = ExampleEncoder(contract).encode(pa.RecordBatch.from_pydict({"a": pa.array([], pa.int64())}))
    assert (len(empty), empty.buffer.size, empty.offsets.tolist()) == (0, 0, [0])
    bare = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    assert messages_of(ExampleEncoder(ExampleContract(())).encode(bare)) == [b"\x0a\x00", b"\x0a\x00"]


def test_byte_arrays_are_written_as_they_are() -> None:
    contract = ExampleContract((F("payload", "bytes"),), "byte_array")
    encoded = ExampleEncoder(contract).encode(pa.RecordBatch.from_pydict({"payload": ["x", "", "z" * 500]}))
    assert messages_of(encoded) == [b"x", b"", b"z" * 500]
    with pytest.raises(EncodeError, match="row 1 of the batch: the value is null"):
        ExampleEncoder(contract).encode(pa.RecordBatch.from_pydict({"payload": ["x", None]}))


def test_a_buffer_that_was_guessed_too_small_grows() -> None:
    numbers = pa.array([[-1] * 5000, [1]] * 50)
    rows = written([F("a", "int64", None)], {"a": numbers})
    assert rows[98] == {"a": [-1] * 5000}


@pytest.mark.parametrize(
    ("specs", "batch", "words"),
    [
        ([F("a", "int64")], {"a": pa.array([1.5])}, ["'a'", "double", "feature of type int64", "cast"]),
        ([F("a", "float32")], {"a": pa.array([1])}, ["'a'", "int64", "float16, float32, float64 or decimal"]),
        ([F("a", "int64")], {"a": pa.array([dt.date(2019, 6, 5)])}, ["'a'", "date32", "unit"]),
        ([F("a", "int64")], {"a": pa.array([None])}, ["'a'", "null", "cast"]),
        ([F("a", "int64")], {"b": pa.array([1])}, ["'b'", "not in the contract", "drop the column"]),
        ([F("a", "int64"), F("b", "int64")], {"a": pa.array([1])}, ["'b'", "missing", "add the column"]),
        ([F("a", "int64")], {"a": pa.array([[1]])}, ["'a'", "list", "a scalar"]),
        ([F("a", "int64", None)], {"a": pa.array([[[1]]])}, ["'a'", "list of any length"]),
        ([F("a", "int64", (3,))], {"a": pa.array([[1, 2]], pa.list_(pa.int64(), 2))}, ["2 values", "[3]"]),
        ([F("a", "int64")], {"a": pa.array([{"x": 1}])}, ["'a'", "struct"]),
        ([F("a", "int64")], {"a": pa.array([dt.timedelta(1)])}, ["'a'", "duration"]),
        ([F("a.x", "int64")], {"a": pa.array([{"x": 1, "y": 2}])}, ["'a'", "'a.y'", "not in the contract"]),
        ([F("a", "int64", sequence=True)], {"a": pa.array([[1]])}, ["'a'", "sequence_example"]),
        ([F("a", "bytes", encoding="raw")], {"a": pa.array(["x"])}, ["'a'", "encoding 'raw'"]),
        ([F("a", "int64", nulls="default", default="x")], {"a": pa.array([1])}, ["default", "'a'", "'x'"]),
        ([F("a", "float32", fill=1e300)], {"a": pa.array([1.0])}, ["fill", "'a'", "1e+300"]),
    ],
)
def test_a_batch_that_does_not_suit_the_contract_is_refused(
    specs: list[FeatureSpec], batch: dict[str, Any], words: list[str]
) -> None:
    message = refusal(specs, batch)
    assert all(word in message for word in words), message


def test_a_byte_array_contract_has_one_bytes_feature() -> None:
    assert "one scalar bytes feature" in refusal([F("a", "int64")], {"a": pa.array([1])}, "byte_array")


@pytest.mark.parametrize(
    ("spec", "column", "words"),
    [
        (F("a", "int64", nulls="fail"), pa.array([1, None]), ["'a'", "row 1", "null"]),
        (F("a", "int64", None), pa.array([[1], [2, None]]), ["'a'", "row 1", "null inside a list", "fill"]),
        (F("a", "int64"), pa.array([0, 2**63], pa.uint64()), ["'a'", "row 1", str(2**63), "does not fit"]),
        (F("a", "float32"), pa.array([1.0, 3.5e38]), ["'a'", "row 1", "3.5e+38", "infinite"]),
        (F("a", "float32", None), pa.array([[], [1.0], [2.0, -1e39]]), ["'a'", "row 2", "-1e+39"]),
        (F("a", "int64", (2,)), pa.array([[1, 2], None, [3]]), ["'a'", "row 2", "1 values", "needs 2"]),
        (F("a", "int64", (2, 2)), pa.array([[[1, 2], [3, 4]], [[1], [2, 3, 4]]]), ["'a'", "row 1", "[2, 2]"]),
        (F("a", "float32", role="label"), pa.array([0.0, math.nan]), ["'a'", "row 1", "nan", "label"]),
        (F("a", "float32", role="weight"), pa.array([math.inf]), ["'a'", "row 0", "inf", "weight"]),
        (F("a", "float32", nonfinite=False), pa.array([math.nan]), ["'a'", "row 0", "nonfinite"]),
        (F("a", "int64", unit="ns"), pa.array([2**62], pa.timestamp("s")), ["'a'", "row 0", "does not fit"]),
        (F("a", "int64", (2, 2)), pa.array([[[1, 2], None]]), ["'a'", "row 0", "null list inside a list"]),
        (F("a", "int64", (2,)), pa.array([[1, 2], [3, 2**63]], pa.list_(pa.uint64())), ["row 1", str(2**63)]),
    ],
)
def test_a_value_that_breaks_the_contract_is_refused_by_column_row_and_value(
    spec: FeatureSpec, column: pa.Array, words: list[str]
) -> None:
    message = value_refusal([spec], {"a": column})
    assert all(word in message for word in words), message


def test_the_row_is_counted_within_a_slice() -> None:
    batch = pa.RecordBatch.from_pydict({"a": pa.array([None, 1, 2, None])}).slice(1)
    with pytest.raises(EncodeError, match="row 2 of the batch"):
        ExampleEncoder(ExampleContract((F("a", "int64", nulls="fail"),))).encode(batch)


def test_values_that_float32_rounds_but_holds_are_written() -> None:
    largest = float(np.finfo(np.float32).max)
    assert written([F("a", "float32")], {"a": pa.array([largest, 0.1])}) == [{"a": [largest]}, {"a": [np.float32(0.1)]}]


def test_null_rows_may_hide_values_that_could_not_be_written() -> None:
    column = pa.Array.from_buffers(
        pa.float64(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([1e300, 2.0]).tobytes())]
    )
    assert written([F("a", "float32")], {"a": column}) == [{}, {"a": [2.0]}]


def test_encoders_pickle_and_plan_anew_for_each_schema() -> None:
    encoder = ExampleEncoder(ExampleContract((F("a", "int64"),)))
    wide = pa.RecordBatch.from_pydict({"a": pa.array([1, 2])})
    narrow = pa.RecordBatch.from_pydict({"a": pa.array([1, 2], pa.int8())})
    copy = pickle.loads(pickle.dumps(encoder))
    expected = encoder.encode(wide).buffer.tobytes()
    assert copy.encode(narrow).buffer.tobytes() == encoder.encode(narrow).buffer.tobytes() == expected
    assert pickle.loads(pickle.dumps(encoder.encode(wide))).buffer.tobytes() == expected


def test_one_encoder_and_one_decoder_serve_several_threads() -> None:
    contract = ExampleContract((F("a", "int64", None), F("s", "bytes")))
    encoder, decoder = ExampleEncoder(contract), ExampleDecoder(contract)
    batches = [
        pa.RecordBatch.from_pydict({"a": pa.array([[i] * (i % 7)] * 500, pa.list_(pa.int64())), "s": [b"x" * i] * 500})
        for i in range(40)
    ]
    with ThreadPoolExecutor(4) as pool:
        for batch, back in zip(
            batches, pool.map(lambda b: decoder.decode(encoder.encode(b).buffer), batches), strict=True
        ):
            assert back.equals(batch)


def test_errors_cross_processes() -> None:
    error = pickle.loads(pickle.dumps(EncodeError("Feature 'a', row 1")))
    assert (type(error), str(error)) == (EncodeError, "Feature 'a', row 1")
