"""Manifests that were changed: whoever reads one says so in a sentence, whatever was changed, sealed again or not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctr_samples.config import Quality
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ContractError, CtrSamplesError, DamagedFile
from ctr_samples.job.gate import last_before, measured_of, pass_gate
from ctr_samples.job.summary import run_summary
from ctr_samples.quality.measure.collecting import Wanted
from ctr_samples.quality.measure.merging import Measures
from ctr_samples.readers import iter_batches
from ctr_samples.records.write import shard_writer
from ctr_samples.shards import Table, TableWrite, open_storage, publish, require_manifest
from ctr_samples.shards.sealed import sealed
from ctr_samples.tfrecord.catalog import find
from ctr_samples.tfrecord.options import Options
from tests.support.command_line import invoke
from tests.support.manifests import RUN, manifest
from tests.support.tampering import resealed

CONTRACT = ExampleContract(
    (
        FeatureSpec("vector", "float32", (2,), nulls="fail"),
        FeatureSpec("city", "int64", nulls="default", default=0, buckets=4),
        FeatureSpec("clicked", "int64", role="label", nulls="fail"),
    )
)
DAYS = ("2019-06-05", "2019-06-06")
CHANGED = "dt=2019-06-06/manifests/00000001.json"


def written(root: Path, directory: str) -> tuple[Any, ...]:
    with shard_writer(open_storage(root), directory, CONTRACT) as writer:
        for split in ("eval", "train"):
            columns = {"vector": [[0.5, 1.0]] * 4, "city": [1, 2, 3, 0], "clicked": [0, 1, 0, 1]}
            types = {"vector": pa.list_(pa.float32()), "city": pa.int64(), "clicked": pa.int64()}
            writer.write(pa.RecordBatch.from_pydict({k: pa.array(v, types[k]) for k, v in columns.items()}), split)
    return writer.close().shards


def published(root: Path, day: str) -> None:
    flips = {"against": 1, "flipped_to_1": 1, "flipped_to_0": 0, "new": 2, "gone": 0}
    found = {"check": "rows", "subject": "", "severity": "warn", "sentence": "Few."}
    of_day = manifest(
        CONTRACT,
        run_date=day,
        created_at="2019-06-07T02:00:00+00:00",
        config={"name": "tiny", "features": {"city": {"from": "user.city"}}},
        inputs={"shown": {"files": 1, "lines": 9, "malformed": 1, "missing_days": ["2019-06-04"]}},
        shards=written(root, f"dt={day}/data/{RUN}"),
        accounting={"impressions": 10, "samples": 8, "repeated": 2},
        views={"user": {"matched": 6, "match_rate": 0.75}},
        labels={"clicked": {"actions": 5, "orphans": 1, "delays": {"10s": 4}, "flips": flips}},
        label_mature=False,
        versions={"ctr_samples": "0.1.0"},
        seconds=2.5,
        plan=("user: union",),
        sampling={"rate": 0.5, "salt": "s"},
        quality={"verdict": "warned", "found": [found], "accepted": []},
    )
    measured = measured_of(of_day, Measures.of(()), Wanted(CONTRACT))
    pass_gate(open_storage(root), of_day, measured, Quality())
    publish(open_storage(root), of_day)


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days, of which tests change the manifest of the second."""
    root = tmp_path_factory.mktemp("output")
    for day in DAYS:
        published(root, day)
    return root


@pytest.fixture(scope="module")
def whole(output: Path) -> dict[str, Any]:
    """What the second day's manifest said when it was published."""
    found: dict[str, Any] = json.loads((output / CHANGED).read_text())
    return found


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with one write, of which tests change the manifest."""
    root = tmp_path_factory.mktemp("table")
    schema = {"type": "struct", "fields": [{"name": "city", "type": "long", "nullable": True, "metadata": {}}]}
    contract = CONTRACT.to_dict()
    shards = written(root, "")
    Table(open_storage(root)).commit(
        TableWrite(RUN, "append", "example", shards, schema, contract, stream=("s", 1), versions={"x": "1"})
    )
    return root


def verify(root: Path) -> str:
    """What ``ctr-samples verify`` says, in one line."""
    result = invoke("verify", str(root))
    assert result.exit_code in (0, 3), result.stderr
    return " ".join(result.stderr.split())


def change(document: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**copy.deepcopy(document), **fields}


# What a person might do to a manifest by hand.


def drop_a_shard(document: dict[str, Any]) -> None:
    del document["shards"][0]


def list_a_shard_twice(document: dict[str, Any]) -> None:
    document["shards"].append(document["shards"][0])


def list_a_shard_instead_of_another(document: dict[str, Any]) -> None:
    document["shards"][1] = document["shards"][0]


def say_other_samples(document: dict[str, Any]) -> None:
    document["accounting"]["samples"] = 7


def say_other_impressions(document: dict[str, Any]) -> None:
    document["accounting"]["impressions"] = 11


def forget_what_was_dropped(document: dict[str, Any]) -> None:
    del document["accounting"]["repeated"]


def move_a_shard_to_another_split(document: dict[str, Any]) -> None:
    document["shards"][0]["split"] = "train"


def say_another_partition(document: dict[str, Any]) -> None:
    document["shards"][0]["partition"] = 1


def say_another_day(document: dict[str, Any]) -> None:
    document["run_date"] = "2019-06-05"


def say_another_run(document: dict[str, Any]) -> None:
    document["run_id"] = "20190606T020000-bbbbbbbb"


def say_another_fingerprint(document: dict[str, Any]) -> None:
    document["contract"]["fingerprint"] = "0" * 16


def say_no_fingerprint(document: dict[str, Any]) -> None:
    del document["contract"]["fingerprint"]


def say_another_contract(document: dict[str, Any]) -> None:
    document["contract"]["features"][1]["buckets"] = 5


def say_no_records(document: dict[str, Any]) -> None:
    document["shards"][0]["records"] = 0
    document["accounting"].update(samples=4, impressions=6)


def say_another_compression(document: dict[str, Any]) -> None:
    document["compression"] = "gzip"


def say_other_labels(document: dict[str, Any]) -> None:
    document["shards"][0]["label_sums"] = {"liked": 2}


def say_more_matches_than_samples(document: dict[str, Any]) -> None:
    document["views"]["user"]["matched"] = 9


TAMPERINGS = [
    (drop_a_shard, "the accounting has 8 samples, but the shards hold 4"),
    (list_a_shard_twice, "the accounting has 8 samples, but the shards hold 12"),
    (list_a_shard_instead_of_another, "it lists dt=2019-06-06/data/20190606T020000-aaaaaaaa/"),
    (say_other_samples, "the accounting has 7 samples, but the shards hold 8"),
    (say_other_impressions, "the accounting has 11 impressions, but samples and drops add up to 10"),
    (forget_what_was_dropped, "the accounting has 10 impressions, but samples and drops add up to 8"),
    (move_a_shard_to_another_split, "is not where a task puts a shard of split 'train'"),
    (say_another_partition, "was not written by the task of partition 1"),
    (say_another_day, "is not where a task puts a shard of split"),
    (say_another_run, "is not where a task puts a shard of split"),
    (say_another_fingerprint, "its contract has the fingerprint"),
    (say_no_fingerprint, "its contract has the fingerprint None, but hashes to"),
    (say_another_contract, "its contract has the fingerprint"),
    (say_no_records, "shards[0].records is 0, expected a number from 1 to"),
    (say_another_compression, "the compression is gzip, but"),
    (say_other_labels, "the contract has the labels ['clicked']"),
    (say_more_matches_than_samples, "view user matched 9 of 8 samples"),
]


@pytest.mark.parametrize(("tamper", "said"), TAMPERINGS, ids=[tamper.__name__ for tamper, _ in TAMPERINGS])
def test_a_manifest_that_was_tampered_with_does_not_pass_even_if_its_checksum_fits(
    output: Path, whole: dict[str, Any], tamper: Callable[[dict[str, Any]], None], said: str
) -> None:
    document = copy.deepcopy(whole)
    tamper(document)
    for content, expected in ((json.dumps(document).encode(), ""), (sealed(document), said)):
        (output / CHANGED).write_bytes(content)
        assert expected in verify(output)
        assert "Intact" not in verify(output)
        with pytest.raises(DamagedFile):
            iter_batches(str(output), date=DAYS[1], split="train", batch_size=3)


def test_a_manifest_that_was_changed_is_told_by_its_checksum(output: Path, whole: dict[str, Any]) -> None:
    (output / CHANGED).write_text(json.dumps(change(whole, seconds=3.5)))
    assert "was changed after it was written: its checksum is" in verify(output)
    (output / CHANGED).write_text(json.dumps(change(whole, checksum="")))
    assert "was changed after it was written: its checksum is ''" in verify(output)
    (output / CHANGED).write_text(json.dumps(dict(reversed(whole.items()))))  # the order of keys says nothing
    assert verify(output).startswith("Intact")


def test_a_manifest_of_an_older_release_is_read_and_said_to_have_no_checksum(
    output: Path, whole: dict[str, Any]
) -> None:
    older = {key: value for key, value in whole.items() if key not in ("checksum", "rollback")}
    (output / CHANGED).write_text(json.dumps(older))
    assert "Intact" in verify(output)
    assert "The manifest has no checksum of its own because an older release wrote it" in verify(output)
    (output / CHANGED).write_bytes(sealed(older))
    assert "no checksum" not in verify(output)


def test_a_key_that_stands_there_twice_is_refused(output: Path, whole: dict[str, Any]) -> None:
    text = json.dumps(whole).replace('"accounting": {', '"accounting": {"samples": 9, ', 1)
    (output / CHANGED).write_text(text)
    assert "the key 'samples' occurs twice" in verify(output)


@pytest.mark.parametrize("shape", [[2**31], [2**31 - 1], [2**63 - 1], [2**40, 0], [65536, 65536], [-1], [1.5], ["2"]])
def test_a_shape_that_no_record_can_have_is_refused_before_anything_is_read(
    output: Path, whole: dict[str, Any], shape: list[Any]
) -> None:
    document = copy.deepcopy(whole)
    document["contract"]["features"][0]["shape"] = shape
    try:
        content = resealed(document)
    except ContractError:
        content = sealed(document)
    (output / CHANGED).write_bytes(content)
    with pytest.raises(DamagedFile, match=r"contract that cannot be read|too few for 4 times"):
        iter_batches(str(output), date=DAYS[1], split="train", batch_size=3)


# What nobody would think of.

DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]
TEXTS = [
    "",
    "x",
    "\ud800",
    "../..",
    "2019-06-05",
    "[/nope]",
    "float64",
    "raw",
    "sparse",
    "sequence_example",
    "omit",
    "label",
]
NUMBERS = [-1, 0, 1, 3, 2**31, 2**63, 10**400, 0.5, float("nan"), float("inf"), True, None]
OTHERS: list[Any] = [*TEXTS, *NUMBERS, [], {}, [1], [None], {"a": 1}, DEEP]


class Absent:
    """Takes the place of a key that is deleted."""


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where each value of a document stands."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*place, key)
        yield from places(value[key], (*place, key))


def with_other(document: dict[str, Any], place: tuple[Any, ...], other: Any) -> dict[str, Any]:
    made = copy.deepcopy(document)
    inside = made
    for key in place[:-1]:
        inside = inside[key]
    if other is Absent:
        del inside[place[-1]]
    else:
        inside[place[-1]] = other
    return made


def content_of(document: dict[str, Any], how: str) -> bytes:
    """The bytes of a document: as it is, or with a checksum that fits, or with a contract's fingerprint that fits too."""
    try:
        if how == "resealed":
            return resealed(document)
        return sealed(document) if how == "sealed" else json.dumps(document).encode()
    except (CtrSamplesError, AttributeError, KeyError, TypeError, ValueError, RecursionError):  # it cannot be sealed
        return json.dumps(document).encode()


def command(*arguments: str) -> None:
    """Run a command; raises what it did not expect."""
    result = invoke(*arguments, "--debug")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception


def readers_of(root: Path) -> list[Callable[[], object]]:
    """Everyone who reads the manifests of a day."""
    storage, day = open_storage(root), date(2019, 6, 6)
    comparison = ["compare", str(root), *DAYS, "--output", str(root.parent / "page.html")]
    return [
        *(lambda name=name: command(name, str(root)) for name in ("verify", "paths", "history", "show", "report")),
        lambda: command("clean", str(root), "--dry-run"),
        lambda: command(*comparison),
        lambda: list(iter_batches(str(root), date=DAYS[1], split="train", batch_size=3)),
        lambda: find(Options((str(root / "dt=2019-06-06"),))),
        lambda: last_before(storage, date(2019, 6, 7)),
        lambda: run_summary(require_manifest(storage, day), storage, published=False),
    ]


@pytest.mark.parametrize("how", ["changed", "sealed", "resealed"])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_was_changed_every_reader_works_or_says_what_is_wrong(
    output: Path, whole: dict[str, Any], how: str, data: st.DataObject
) -> None:
    where = [place for place in places(whole) if how != "resealed" or place[0] == "contract"]
    place = data.draw(st.sampled_from(where))
    other = data.draw(st.sampled_from([*OTHERS, Absent]))
    (output / CHANGED).write_bytes(content_of(with_other(whole, place, other), how))
    for read in readers_of(output):
        with suppress(CtrSamplesError):
            read()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_was_changed_in_the_manifest_of_a_table_every_reader_works_or_says_what_is_wrong(
    table: Path, data: st.DataObject
) -> None:
    path = table / "_manifests/00000001.json"
    kept = table.parent / "whole.json"
    if not kept.exists():
        kept.write_bytes(path.read_bytes())
    whole = json.loads(kept.read_text())
    place = data.draw(st.sampled_from(list(places(whole))))
    other = data.draw(st.sampled_from([*OTHERS, Absent]))
    path.write_bytes(content_of(with_other(whole, place, other), data.draw(st.sampled_from(["changed", "sealed"]))))
    for read in [
        *(lambda name=name: command(name, str(table)) for name in ("verify", "paths", "history", "show")),
        lambda: command("clean", str(table), "--dry-run"),
        lambda: find(Options((str(table),))),
        lambda: Table(open_storage(table)).check_writable(RUN),
    ]:
        with suppress(CtrSamplesError):
            read()
