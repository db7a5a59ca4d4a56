"""Options as users of other connectors write them, and what is said about those that are wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ctr_samples.errors import UsageError
from ctr_samples.tfrecord.options import Options, parse_options


def test_without_options_the_data_decide_and_shards_hold_128_mib() -> None:
    assert parse_options({"path": "/x"}) == Options(paths=("/x",), shard_size=134_217_728)


def test_names_of_options_do_not_depend_on_case() -> None:
    given = {"PATH": "/x", "recordtype": "SequenceExample", "SHARDSIZE": "64MiB", "Split": "eval"}
    expected = Options(paths=("/x",), record_type="sequence_example", shard_size=64 * 2**20, split="eval")
    assert parse_options(given) == expected


@pytest.mark.parametrize(
    ("option", "field", "values"),
    [
        (
            "recordType",
            "record_type",
            {"Example": "example", "sequenceExample": "sequence_example", "ByteArray": "byte_array"},
        ),
        (
            "codec",
            "compression",
            {
                "org.apache.hadoop.io.compress.GzipCodec": "gzip",
                "org.apache.hadoop.io.compress.DefaultCodec": "zlib",
                "org.apache.hadoop.io.compress.DeflateCodec": "zlib",
                "": "none",
                "gzip": "gzip",
            },
        ),
        (
            "compression",
            "compression",
            {"GZIP": "gzip", "deflate": "zlib", "zlib": "zlib", "uncompressed": "none", "none": "none"},
        ),
        ("shardSize", "shard_size", {"1000": 1000, "128MiB": 2**27, "1 KB": 1000}),
    ],
)
def test_values_have_the_names_of_spark_tfrecord_and_hadoop_and_sizes_have_units(
    option: str, field: str, values: dict[str, Any]
) -> None:
    for text, expected in values.items():
        assert getattr(parse_options({"path": "/x", option: text}), field) == expected


def test_load_may_name_several_paths_and_save_must_name_one() -> None:
    options = parse_options({"paths": json.dumps(["/x", "/y"])})
    assert options.paths == ("/x", "/y")
    with pytest.raises(UsageError, match="writes to one path; found"):
        _ = options.path


def test_options_of_spark_itself_are_left_alone() -> None:
    given = {"path": "/x", "mergeSchema": "true", "header": "true", "inferSchema": "true", "checkpointLocation": "/c"}
    assert parse_options(given) == Options(paths=("/x",), checkpoint="/c")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "given no path; use load\\(path\\)"),
        ({"path": ""}, "given no path"),
        (
            {"path": "/x", "location": "/x", "provider": "tfrecord", "owner": "me"},
            "^For a table of the catalog .CREATE TABLE",
        ),
        (
            {"path": "/x", "samplingRatio": "0"},
            "samplingRatio is '0'; expected a share of the files, above 0 and up to 1",
        ),
        ({"path": "/x", "samplingRatio": "half"}, "samplingRatio is 'half'; expected a share"),
        ({"path": "/x", "maxRecordsPerFile": "many"}, "maxRecordsPerFile is 'many'; expected a whole number"),
        ({"path": "/x", "ignoreCorruptFiles": "1"}, "ignoreCorruptFiles is '1'; expected true or false"),
        (
            {"path": "/x", "partitionOverwriteMode": "both"},
            "partitionOverwriteMode is 'both'; expected static or dynamic",
        ),
        ({"path": "/x", "maxPartitionBytes": "0"}, "maxPartitionBytes is '0'; expected at least one byte"),
        ({"path": "/x", "recordTyp": "Example"}, "no option 'recordtyp'; did you mean 'recordType'\\?"),
        ({"path": "/x", "shard_size": "1MB"}, "did you mean 'shardSize'\\?"),
        ({"path": "/x", "recordType": "Text"}, "recordType is 'Text'; expected Example, SequenceExample or ByteArray"),
        ({"path": "/x", "codec": "org.apache.hadoop.io.compress.SnappyCodec"}, "TensorFlow reads gzip, zlib and unc"),
        ({"path": "/x", "codec": "gzip", "compression": "none"}, "codec and compression disagree"),
        ({"path": "/x", "shardSize": "big"}, "shardSize is 'big'; expected a size such as 64MiB"),
        ({"path": "/x", "shardSize": "\u00b2"}, "shardSize is '\u00b2'; expected a size such as 64MiB"),
        ({"path": "/x", "shardSize": "0"}, "shardSize is '0'; expected at least one byte"),
        ({"path": "/x", "recursiveFileLookup": "yes"}, "recursiveFileLookup is 'yes'; expected true or false"),
        ({"path": "/x", "modifiedAfter": "2020-01-01"}, "does not know the option 'modifiedAfter'; choose files by"),
    ],
)
def test_an_option_that_cannot_be_used_is_named_with_what_is_possible(given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_options(given)
