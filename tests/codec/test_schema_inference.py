"""What records have, inferred by reading them."""

from __future__ import annotations

import pickle
import random

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from ctr_samples.codec import ExampleDecoder, ExampleEncoder, SchemaSurvey, infer_contract
from ctr_samples.contract import ExampleContract, FeatureSpec, RecordType
from ctr_samples.errors import ContractError, DamagedFile
from tests.codec.framing import chunk, frame
from tests.codec.random_batches import samples
from tests.support.tensorflow_files import example, sequence_example
from tests.support.wire_messages import odd_message


def inferred(*messages: bytes, record: RecordType = "example") -> tuple[FeatureSpec, ...]:
    return infer_contract([chunk(*messages)], record).features


def test_one_value_in_every_record_is_a_scalar() -> None:
    assert inferred(example(n=[1], f=[0.5], s=[b"x"]), example(n=[2], f=[1.5], s=[b""])) == (
        FeatureSpec("f", "float32"),
        FeatureSpec("n", "int64"),
        FeatureSpec("s", "bytes"),
    )


def test_a_key_that_some_records_lack_may_still_be_a_scalar() -> None:
    assert inferred(example(), example(n=[1])) == (FeatureSpec("n", "int64"),)


@pytest.mark.parametrize("other", [[], [1, 2]])
def test_another_number_of_values_anywhere_makes_a_list(other: list[int]) -> None:
    assert inferred(example(n=[1]), example(n=other)) == (FeatureSpec("n", "int64", None),)


def test_a_key_without_a_kind_is_passed_over() -> None:
    bare = tf.train.Example(features=tf.train.Features(feature={"n": tf.train.Feature()})).SerializeToString()
    assert inferred(bare) == ()
    assert inferred(bare, example(n=[1])) == (FeatureSpec("n", "int64"),)


def test_keys_with_values_of_several_kinds_are_named() -> None:
    with pytest.raises(ContractError, match=r"'n' \(float32 and int64\), 's' \(bytes and int64\)"):
        inferred(example(n=[1], s=[2], t=[3]), example(n=[1.5], s=[b"x"], t=[4]))


def test_sequences_are_told_from_the_context() -> None:
    message = sequence_example({"user": [1]}, {"clicks": [[1], [2]], "words": [[b"a", b"b"]]})
    assert inferred(message, record="sequence_example") == (
        FeatureSpec("clicks", "int64", (), sequence=True),
        FeatureSpec("user", "int64"),
        FeatureSpec("words", "bytes", None, sequence=True),
    )


def test_plain_bytes_have_one_feature() -> None:
    contract = infer_contract([chunk(b"anything")], "byte_array")
    assert contract == ExampleContract((FeatureSpec("byteArray", "bytes"),), "byte_array")


def test_surveys_of_several_files_come_together() -> None:
    surveys = []
    for message in (example(n=[1], a=[1]), example(n=[1, 2], b=[0.5])):
        survey = SchemaSurvey()
        survey.add(chunk(message))
        surveys.append(pickle.loads(pickle.dumps(survey)))
    surveys[0].merge(surveys[1])
    assert surveys[0].contract().features == (
        FeatureSpec("a", "int64"),
        FeatureSpec("b", "float32"),
        FeatureSpec("n", "int64", None),
    )


def test_bytes_that_are_no_message_are_damage_at_their_place_in_the_file() -> None:
    with pytest.raises(DamagedFile, match="Record 1 at byte .* not a well-formed message"):
        inferred(example(n=[1]), b"\x0a\xff\xff")
    survey = SchemaSurvey()
    survey.add(chunk(example(n=[1]), example(n=[2])))
    size = len(frame(example(n=[1])))
    with pytest.raises(DamagedFile, match=f"Record 3 at byte {3 * size} has valid checksums but"):
        survey.add(chunk(example(n=[3]), b"\x0a\xff\xff"))


def test_a_key_that_is_no_utf8_is_damage_of_the_first_record_that_has_it() -> None:
    survey = SchemaSurvey()
    survey.add(chunk(example(n=[1])))
    size = len(frame(example(n=[1])))
    wrong = example(n=[1]).replace(b"n", b"\xff")
    for records in ([wrong], [example(n=[1]), wrong, wrong], [example(n=[1])] * 2 + [wrong]):
        at = records.index(wrong) + 1
        with pytest.raises(
            DamagedFile, match=rf"^Record {at} at byte {at * size} has a key that is not UTF-8, b'\\xff'"
        ):
            survey.add(chunk(*records))


def test_what_sound_records_before_a_malformed_one_have_is_known() -> None:
    survey = SchemaSurvey()
    with pytest.raises(DamagedFile, match="Record 1 at byte"):
        survey.add(chunk(example(n=[1]), example(m=[1]) + b"\x0a\xff"))
    assert survey.names() == ["n"]


def not_text(*values: bytes) -> bool:
    survey = SchemaSurvey()
    survey.add(chunk(example(s=[b"text"]), example(s=list(values)), example(s=[b"more"])))
    return survey.binary_names() == {"s"}


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"plain, and longer than eight bytes",
        "é".encode(),
        "1234567é".encode(),
        "日本語 text".encode(),
        "\U0001f600".encode(),
        "\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff".encode(),
    ],
)
def test_utf8_is_text(value: bytes) -> None:
    assert not not_text(value)


@pytest.mark.parametrize(
    "value",
    [
        b"\xff",
        b"\x80",
        b"12345678\x80",
        b"\xc3",
        b"\xe3\x81",
        b"\xf0\x9f\x98",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xc3\x28",
        b"\xe3\x81\x28",
    ],
)
def test_bytes_that_are_no_utf8_are_no_text_wherever_they_are_found(value: bytes) -> None:
    assert not_text(value)
    assert not_text(b"text", value, b"text")


@pytest.mark.thorough
@given(value=st.binary(max_size=24) | st.text(max_size=8).map(str.encode))
def test_what_is_text_is_what_python_decodes(value: bytes) -> None:
    try:
        value.decode()
        assert not not_text(value)
    except UnicodeDecodeError:
        assert not_text(value)


def test_what_is_no_text_in_one_file_is_none_in_all() -> None:
    surveys = [SchemaSurvey(), SchemaSurvey()]
    surveys[0].add(chunk(example(s=[b"a"], t=[b"b"])))
    surveys[1].add(chunk(example(s=[b"\xff"], t=[b"b"])))
    surveys[0].merge(pickle.loads(pickle.dumps(surveys[1])))
    assert surveys[0].binary_names() == {"s"}


def test_keys_without_a_single_type_hold_up_only_those_who_want_them() -> None:
    survey = SchemaSurvey("sequence_example")
    survey.add(chunk(sequence_example({}, {"c": [[1]]})))
    survey.add(chunk(example(a=[1], b=[1], c=[1])))
    survey.add(chunk(example(a=[2], b=[0.5])))
    assert survey.names() == ["a", "b", "c"]
    assert survey.contract(["a", "x"]).names() == ["a"]
    with pytest.raises(
        ContractError, match=r"under 'b' \(float32 and int64\), 'c' \(in the context of some records and in"
    ):
        survey.contract()


@pytest.mark.thorough
@given(sample=samples())
def test_the_contract_that_is_found_reads_the_records(sample: tuple[ExampleContract, object]) -> None:
    contract, batch = sample
    encoded = ExampleEncoder(contract).encode(batch)
    inferred = infer_contract([encoded])
    decoded = ExampleDecoder(inferred).decode(encoded.buffer)
    assert ExampleEncoder(inferred).encode(decoded).buffer.tobytes() == encoded.buffer.tobytes()


@given(seed=st.integers(0, 2**64 - 1))
def test_odd_messages_are_surveyed_as_protobuf_reads_them(seed: int) -> None:
    message = odd_message(seed)
    survey = SchemaSurvey()
    survey.add(chunk(message))
    kinds = {"bytes_list": 1, "float_list": 2, "int64_list": 3}
    for name, value in tf.train.Example.FromString(message).features.feature.items():
        kind = value.WhichOneof("kind")
        assert kind is None or survey.seen[name].kinds >> kinds[kind] & 1


def test_keys_are_found_whatever_their_number_and_order() -> None:
    """Doubling the room makes the chains of keys anew; a shuffled record finds none of them by its place."""
    names = [f"feature {number}" for number in range(3000)]
    shuffled = random.Random(1).sample(names, len(names))
    survey = SchemaSurvey()
    survey.add(chunk(example(**{name: [1] for name in names}), example(**{name: [1, 2] for name in shuffled})))
    assert survey.names() == sorted(names)
    assert {(seen.fewest, seen.most) for seen in survey.seen.values()} == {(1, 2)}
