"""Batches without TensorFlow: every kind of column, deterministic, whole, and clear about what is wrong."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ContractError, DamagedFile, InputError, UsageError
from ctr_samples.readers import Batch, Ragged, Sparse, iter_batches, load_dataset, steps_per_epoch
from ctr_samples.readers.stream import TakenInTurn
from tests.support.kinds_of_columns import CONTRACTS, rows_for
from tests.support.small_days import CONTRACT, published, rows
from tests.support.tampering import rewrite

DAY = "2019-06-05"


@pytest.fixture(scope="module", params=["none", "gzip", "zlib"])
def compressed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("compressed")
    published(root, compression=request.param)
    return root


def ids(batches: Iterator[Batch]) -> list[int]:
    return [i for batch in batches for i in batch.keys["impression_id"].tolist()]


def read(root: Path, **more: Any) -> Iterator[Batch]:
    return iter_batches(str(root), **{"date": DAY, "split": "train", "batch_size": 32, **more})


def as_lists(column: Any) -> list[Any]:
    """Any column as Python values."""
    if isinstance(column, Sparse):
        return list(zip(column.indices.to_list(), column.values.to_list(), strict=True))
    return column.to_list() if isinstance(column, Ragged) else column.tolist()


def empty_of(spec: FeatureSpec, shape: tuple[int, ...] | None) -> Any:
    """What stands for a feature that a record does not have."""
    if shape is None:
        return []
    if shape:
        return [empty_of(spec, shape[1:]) for _ in range(shape[0])]
    return spec.default if spec.default is not None else {"bytes": b""}.get(spec.dtype, 0)


def test_batches_are_whole_but_the_last_and_hold_each_record_once(compressed: Path) -> None:
    sizes = [len(batch.labels["clicked"]) for batch in read(compressed)]
    assert sizes == [32] * 12 + [16]
    assert ids(read(compressed)) == list(range(400))


@pytest.mark.some(1)
@pytest.mark.parametrize("layout", CONTRACTS)
def test_every_kind_of_column_is_read_back(layout: str, tmp_path: Path) -> None:
    contract = CONTRACTS[layout]
    published(tmp_path, contract, lambda split, first: rows_for(contract, first, 50))
    expected = {name: [] for name in contract.names()}
    for first in range(0, 400, 50):
        for name, column in rows_for(contract, first, 50).to_pydict().items():
            spec = contract[name]
            expected[name] += [empty_of(spec, spec.shape) if value is None else value for value in column]
    if layout == "sparse":
        expected["features"] = list(zip(expected.pop("indices"), expected.pop("values"), strict=True))
    values: dict[str, list[Any]] = {name: [] for name in expected}
    for batch in read(tmp_path, batch_size=30):
        columns = {**batch.features, **batch.labels, **batch.keys}
        if batch.weight is not None:
            columns["sample_weight"] = batch.weight
        for name, column in columns.items():
            values[name] += as_lists(column)
    assert values == expected


def test_columns_have_the_types_and_shapes_of_the_contract(tmp_path: Path) -> None:
    contract = CONTRACTS["sequence"]
    published(tmp_path, contract, lambda split, first: rows_for(contract, first, 50))
    batch = next(read(tmp_path, batch_size=5))
    shapes = {name: (c.dtype.name, c.shape) for name, c in batch.features.items() if not isinstance(c, Ragged)}
    assert shapes == {
        "number": ("float32", (5,)),
        "vector": ("float32", (5, 3)),
        "matrix": ("float32", (5, 2, 2)),
        "id": ("int64", (5,)),
        "text": ("object", (5,)),
        "texts": ("object", (5, 2)),
        "raw": ("float64", (5, 3)),
        "raw_or_not": ("int64", (5, 3)),
        "tensor": ("float32", (5, 2, 2)),
    }
    assert batch.features["vectors"].values.shape == (6, 2)
    assert batch.features["ids"].row_splits.dtype == np.int64
    assert isinstance(batch.features["lists"].values, Ragged)
    batch.features["number"][0] = 5  # a batch belongs to whoever reads it


@pytest.mark.parametrize("shuffle", [False, True, 64])
def test_batches_do_not_depend_on_the_number_of_threads(samples: Path, shuffle: bool | int) -> None:
    one, many = (ids(read(samples, shuffle=shuffle, seed=4, epochs=3, threads=n)) for n in (1, 5))
    assert one == many
    assert sorted(one) == sorted([*range(400)] * 3)


def test_blocks_of_a_lane_are_read_in_their_order_whichever_thread_comes_first() -> None:
    class Recorded:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def read(self, records: int) -> list[Any]:
            self.seen.append(records)
            return []

    recorded = Recorded()
    lane = TakenInTurn(recorded)  # type: ignore[arg-type]
    turns = [lane.turn() for _ in range(4)]
    threads = [threading.Thread(target=lane.read, args=(turn, turn)) for turn in reversed(turns)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert recorded.seen == [0, 1, 2, 3]
    assert lane.is_done


def test_a_seed_gives_an_order_and_each_epoch_another(samples: Path) -> None:
    first = ids(read(samples, shuffle=64, seed=1))
    both = ids(read(samples, shuffle=64, seed=1, epochs=2))
    assert both[:400] == first != list(range(400))
    assert both[400:] != first
    assert ids(read(samples, shuffle=64, seed=2)) != first


@pytest.mark.parametrize("more", [{}, {"shuffle": 64, "seed": 3}, {"shuffle": True, "shard": (1, 2)}])
def test_a_reader_that_goes_on_sees_what_would_have_come(samples: Path, more: dict[str, Any]) -> None:
    whole = [batch.keys["impression_id"].tolist() for batch in read(samples, epochs=2, **more)]
    for skip in (1, 5, 13, 14, 25):
        rest = [batch.keys["impression_id"].tolist() for batch in read(samples, epochs=2, skip=skip, **more)]
        assert rest == whole[skip:]


def test_without_the_remainder_every_worker_has_the_same_number_of_whole_batches(samples: Path) -> None:
    for worker in range(3):
        batches = list(read(samples, shard=(worker, 3), batch_size=19, drop_remainder=True, shuffle=True))
        assert [len(batch.labels["clicked"]) for batch in batches] == [19] * 7


def test_several_days_are_read_one_after_the_other(tmp_path: Path) -> None:
    for day, shift in (("2019-06-05", 0), ("2019-06-06", 1000)):
        published(tmp_path, CONTRACT, lambda split, first, s=shift: rows(first + s, 50), day=day)
    in_order = ids(read(tmp_path, date=None, dates=["2019-06-05", "2019-06-06"]))
    assert in_order == [*range(400), *range(1000, 1400)]
    assert sorted(ids(read(tmp_path, date=None, dates=["2019-06-05", "2019-06-06"], shuffle=True))) == in_order


def test_only_the_columns_that_are_asked_for_are_decoded(samples: Path) -> None:
    batch = next(read(samples, columns=["city"]))
    assert (set(batch.features), set(batch.labels), set(batch.keys)) == ({"city"}, {"clicked"}, {"impression_id"})
    assert set(next(read(samples, columns=[])).features) == set()
    with pytest.raises(InputError, match="There is no feature 'town'; the samples have number, vector, city, name"):
        read(samples, columns=["town"])


@pytest.mark.thorough
def test_who_stops_early_leaves_no_thread_and_no_open_file(samples: Path) -> None:
    batches = read(samples, shuffle=32, epochs=None, threads=3)
    for _ in range(5):
        next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert not [t for t in threading.enumerate() if t.name.startswith("ctr-samples-reader")]
    gc.collect()  # a file that is open still would warn


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"split": "test"}, InputError, "has no split 'test' on 2019-06-05; it has train, eval"),
        ({"date": "2019-06-09"}, InputError, "has no samples of 2019-06-09; it has 2019-06-05"),
        ({"date": "today"}, UsageError, "The date is 'today'"),
        ({"date": None}, UsageError, "Give either `date`, such as"),
        ({"dates": [DAY]}, UsageError, "Give either `date`, such as"),
        ({"date": None, "dates": [DAY, DAY]}, UsageError, "one or more different days"),
        (
            {"date": None, "dates": [DAY, f"{DAY}T07"]},
            UsageError,
            "2019-06-05T07 lies in 2019-06-05, so its samples would",
        ),
        (
            {"date": None, "dates": ["all", DAY]},
            UsageError,
            "2019-06-05 lies in all, so its samples would be read twice",
        ),
        ({"date": None, "dates": DAY}, UsageError, "one or more different days"),
        ({"date": None, "dates": []}, UsageError, "one or more different days"),
        ({"date": 20190605}, UsageError, "The date is 20190605; expected a day such as '2019-11-26' or datetime.date"),
        ({"date": datetime(2019, 6, 5)}, UsageError, "The date is datetime.datetime"),
        ({"batch_size": 0}, UsageError, "`batch_size` is 0; expected a whole number, 1 or more"),
        ({"batch_size": "4"}, UsageError, "`batch_size` is '4'; expected a whole number, 1 or more"),
        ({"epochs": "2"}, UsageError, "`epochs` is '2'; expected a whole number, 1 or more, or None"),
        ({"shard": 3}, UsageError, r"`shard` is 3; expected \(index, count\)"),
        ({"shard": ("0", 2)}, UsageError, r"`shard` is \('0', 2\); expected \(index, count\)"),
        ({"shard": (0, 1, 2)}, UsageError, r"expected \(index, count\)"),
        ({"shard": (2, 2)}, UsageError, r"`shard` is \(2, 2\); expected \(index, count\)"),
        ({"skip": -1}, UsageError, "`skip` is -1; expected a whole number, 0 or more"),
        ({"as_": "pandas"}, UsageError, "`as_` is 'pandas'; expected 'numpy' or 'torch'"),
        ({"columns": "city"}, UsageError, "`columns` is 'city'; expected a list"),
        ({"columns": [3]}, UsageError, r"`columns` is \[3\]; expected a list"),
        ({"split": ["train"]}, UsageError, r"`split` is \['train'\]; expected the name of a split"),
        ({"batch_size": True}, UsageError, "`batch_size` is True; expected a whole number"),
    ],
)
def test_what_cannot_be_read_is_told_at_once(samples: Path, more: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        read(samples, **more)


@pytest.mark.parametrize("path", [3, None, b"out", ["out"]])
def test_what_is_no_path_is_told(path: Any) -> None:
    functions: list[Any] = [iter_batches, load_dataset, steps_per_epoch]
    for function in functions:
        with pytest.raises(UsageError, match="`path` is .*; expected a path or URL, as text or as pathlib.Path."):
            function(path, date=DAY, split="train", batch_size=4)


def test_days_of_different_contracts_are_not_mixed(tmp_path: Path) -> None:
    published(tmp_path)
    other = ExampleContract((FeatureSpec("number", "float32"), *CONTRACT.features[1:]))
    published(tmp_path, other, lambda split, first: rows(first, 50), day="2019-06-06")
    with pytest.raises(
        ContractError, match=r"2019-06-05 and 2019-06-06 with different contracts \(feature 'number' differs"
    ):
        read(tmp_path, date=None, dates=["2019-06-05", "2019-06-06"])


def shard_of(root: Path, place: int) -> Path:
    manifest = json.loads((root / f"dt={DAY}/manifests/00000001.json").read_text())
    return root / [s["path"] for s in manifest["shards"] if s["split"] == "train"][place]


def test_a_shard_that_is_missing_or_cut_is_named_before_anything_is_read(tmp_path: Path) -> None:
    published(tmp_path)
    shard = shard_of(tmp_path, -1)
    content = shard.read_bytes()
    shard.write_bytes(content[:-3])
    with pytest.raises(DamagedFile, match=f"{shard} has {len(content) - 3} bytes, but its task wrote {len(content)}"):
        read(tmp_path)
    shard.unlink()
    with pytest.raises(DamagedFile, match=f"{shard} is missing, though a task wrote it"):
        read(tmp_path)


@pytest.mark.parametrize("place", [9, 200, -2])
def test_a_flipped_bit_is_found_when_its_record_is_read(tmp_path: Path, place: int) -> None:
    published(tmp_path)
    shard = shard_of(tmp_path, 1)
    content = bytearray(shard.read_bytes())
    content[place] ^= 4
    shard.write_bytes(content)
    with pytest.raises(DamagedFile, match=f"{shard} is damaged after [0-9]+ records: a record's"):
        ids(read(tmp_path))


def with_records(more: int) -> Callable[[dict[str, Any]], None]:
    """The first shard is said to have so many more records, and so is the day."""

    def change(document: dict[str, Any]) -> None:
        document["shards"][0]["records"] += more
        for count in ("impressions", "samples"):
            document["accounting"][count] += more

    return change


def test_a_shard_with_other_records_than_the_manifest_says_is_refused(tmp_path: Path) -> None:
    published(tmp_path)
    path = tmp_path / f"dt={DAY}/manifests/00000001.json"
    for change, message in ((1, "it ends there, but the manifest says"), (-1, "has data after its [0-9]+ records")):
        rewrite(path, with_records(change))
        with pytest.raises(DamagedFile, match=message):
            ids(read(tmp_path))
        rewrite(path, with_records(-change))


@pytest.mark.parametrize(
    "days",
    [
        {"date": date(2019, 6, 5)},
        {"date": "all"},
        {"date": None, "dates": [date(2019, 6, 5)]},
        {"date": None, "dates": ["all"]},
    ],
)
def test_days_are_text_or_dates_and_all_means_all_that_are_published(samples: Path, days: dict[str, Any]) -> None:
    assert ids(read(samples, **days)) == ids(read(samples))


def test_without_torch_it_says_what_to_install(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match="`as_='torch'` needs torch, which is not installed: pip install torch"):
        read(samples, as_="torch")


def test_batches_need_no_tensorflow(samples: Path) -> None:
    program = (
        "import sys; from ctr_samples.readers import iter_batches; "
        f"next(iter_batches({str(samples)!r}, date='2019-06-05', split='train', batch_size=8)); "
        "print([name for name in ('tensorflow', 'numba', 'pandas', 'torch') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
