"""The native path and TensorFlow's own reader and parser give equal batches, of every kind of column and in every order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ctr_samples.errors import ContractError, DamagedFile, UsageError
from ctr_samples.readers import load_dataset, steps_per_epoch
from tests.support.kinds_of_columns import CONTRACTS, rows_for
from tests.support.marks import slow_except
from tests.support.small_days import published
from tests.support.tampering import keep_only, resealed, rewrite

DAY = "2019-06-05"


def load(root: Path, **more: Any) -> Any:
    return load_dataset(str(root), **{"date": DAY, "split": "train", "batch_size": 32, **more})


def plain(value: Any) -> Any:
    """A tensor of any kind as Python values."""
    import tensorflow as tf

    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, tf.RaggedTensor):
        return value.to_list()
    if isinstance(value, tf.SparseTensor):
        return value.indices.numpy().tolist(), value.values.numpy().tolist(), value.dense_shape.numpy().tolist()
    return value.numpy().tolist()


def batches(root: Path, **more: Any) -> list[Any]:
    return [tuple(plain(part) for part in batch) for batch in load(root, **more)]


@pytest.fixture(scope="module")
def compressed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("engines")
    published(root, compression=request.param)
    return root


@pytest.mark.parametrize("layout", slow_except(["dense"], CONTRACTS))
def test_both_engines_give_equal_batches_of_every_kind_of_column(layout: str, tmp_path: Path) -> None:
    contract = CONTRACTS[layout]
    published(tmp_path, contract, lambda split, first: rows_for(contract, first, 50))
    ours, theirs = (load(tmp_path, keys=True, engine=engine) for engine in ("native", "tensorflow"))
    assert ours.element_spec == theirs.element_spec
    assert [tuple(map(plain, batch)) for batch in ours] == [tuple(map(plain, batch)) for batch in theirs]


@pytest.mark.some(3)
@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("compressed", "more"),
    [
        ("none", {}),
        ("gzip", {"epochs": 2, "skip": 5}),
        ("zlib", {"shuffle": 64, "seed": 3, "epochs": 2}),
        ("none", {"shuffle": True, "shard": (1, 3), "skip": 2}),
        ("gzip", {"shuffle": 64, "skip": 3, "epochs": 2, "drop_remainder": True}),
        ("zlib", {"shard": (2, 3), "drop_remainder": True}),
    ],
    indirect=["compressed"],
)
def test_both_engines_read_in_one_order(compressed: Path, more: dict[str, Any]) -> None:
    ours = batches(compressed, keys=True, **more)
    assert ours == batches(compressed, keys=True, engine="tensorflow", **more)
    assert len(ours) == len(load(compressed, **more)) > 1


@pytest.mark.thorough
def test_a_worker_whose_later_epochs_read_more_shards_at_once_gets_all_of_them(samples: Path) -> None:
    more = {"shuffle": 64, "seed": 1, "shard": (0, 4), "epochs": 2, "keys": True}
    assert batches(samples, **more) == batches(samples, engine="tensorflow", **more)


def test_a_dataset_knows_its_length_and_its_static_shapes(samples: Path) -> None:
    dataset = load(samples, epochs=3, skip=2, drop_remainder=True)
    assert (dataset.steps_per_epoch, len(dataset)) == (12, 34)
    features, labels = dataset.element_spec
    assert (features["vector"].shape.as_list(), labels.shape.as_list()) == ([32, 2], [32])
    assert load(samples, epochs=None).cardinality().numpy() == -1
    assert load(samples).steps_per_epoch == steps_per_epoch(str(samples), date=DAY, split="train", batch_size=32) == 13
    assert steps_per_epoch(str(samples), date=DAY, split="train", batch_size=32, shard=(0, 2)) == 7


def test_the_end_of_an_iteration_waits_for_no_tuner(samples: Path) -> None:
    """TensorFlow's tuner looks after twice the time of its last look, and ends when it looks."""
    assert load(samples).options().autotune.enabled is False


@pytest.mark.some(1)
@pytest.mark.parametrize("engine", ["native", "tensorflow"])
def test_a_dataset_without_end_goes_on(samples: Path, engine: str) -> None:
    dataset = load(samples, epochs=None, shuffle=64, keys=True, engine=engine)
    seen = [tuple(features["impression_id"].numpy()) for features, _ in dataset.take(39)]
    assert sorted(i for batch in seen[:13] for i in batch) == sorted(i for batch in seen[26:] for i in batch)
    assert len(set(seen)) == 39


def test_each_iteration_begins_anew_also_while_another_goes_on(samples: Path) -> None:
    dataset = load(samples, keys=True)
    one = iter(dataset)
    next(one)
    other = [features["impression_id"].numpy()[0] for features, _ in dataset]
    assert [features["impression_id"].numpy()[0] for features, _ in one] == other[1:]


def test_a_damaged_record_ends_the_iteration_with_the_sentence_that_says_where(tmp_path: Path) -> None:
    import tensorflow as tf

    published(tmp_path)
    manifest = json.loads((tmp_path / f"dt={DAY}/manifests/00000001.json").read_text())
    shard = tmp_path / manifest["shards"][1]["path"]
    content = bytearray(shard.read_bytes())
    content[200] ^= 1
    shard.write_bytes(content)
    with pytest.raises(tf.errors.OpError, match=f"DamagedFile: {shard} is damaged after"):
        batches(tmp_path)
    shard.unlink()
    with pytest.raises(DamagedFile, match="is missing, though a task wrote it"):
        load(tmp_path)


@pytest.mark.thorough
def test_samples_in_an_object_store_are_read_like_those_on_a_disk(s3: Any, samples: Path) -> None:
    published("s3://lake/out")
    dataset = load_dataset("s3://lake/out", date=DAY, split="train", batch_size=32, shuffle=64)
    assert [tuple(map(plain, batch)) for batch in dataset] == batches(samples, shuffle=64)


def test_an_engine_that_is_not_there_is_refused(samples: Path) -> None:
    with pytest.raises(UsageError, match="`engine` is 'fast'; expected 'native' or 'tensorflow'"):
        load(samples, engine="fast")


def test_a_later_generation_does_not_change_what_a_dataset_reads(tmp_path: Path) -> None:
    published(tmp_path)
    dataset = load(tmp_path)
    path = tmp_path / f"dt={DAY}/manifests/00000001.json"
    later = json.loads(path.read_text())
    keep_only(0)(later)
    (path.parent / "00000002.json").write_bytes(resealed({**later, "generation": 2}))
    assert sum(len(labels) for _, labels in dataset) == 400
    assert sum(len(labels) for _, labels in load(tmp_path)) == later["shards"][0]["records"]


def test_more_values_than_tensorflow_can_parse_at_once_are_refused_instead_of_ending_the_process(
    tmp_path: Path,
) -> None:
    published(tmp_path)

    def enlarge(document: dict[str, Any]) -> None:
        document["contract"]["features"][1].update(shape=[2**27], nulls="omit")

    rewrite(tmp_path / f"dt={DAY}/manifests/00000001.json", enlarge)
    with pytest.raises(
        ContractError, match="32 records with 134,217,728 values of the feature 'vector' each are more than"
    ):
        load(tmp_path, engine="tensorflow")
