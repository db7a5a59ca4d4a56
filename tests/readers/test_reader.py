"""Published samples as tf.data: names, shapes and types from the contract, files from the manifest."""

from __future__ import annotations

from pathlib import Path

from ctr_samples.readers import load_dataset
from tests.support.small_days import RUN


def test_batches_have_the_shapes_and_types_of_the_contract(samples: Path) -> None:
    dataset = load_dataset(str(samples), date="2019-06-05", split="train", batch_size=8)
    features, labels = next(iter(dataset))
    assert {name: (column.dtype.name, column.shape.as_list()) for name, column in features.items()} == {
        "number": ("float32", [8]),
        "vector": ("float32", [8, 2]),
        "city": ("int64", [8]),
        "name": ("string", [8]),
    }
    assert (labels.dtype.name, labels.shape.as_list()) == ("int64", [8])
    assert features["vector"].numpy()[:2].tolist() == [[0.0, 0.0], [1.0, -1.0]]
    assert features["name"].numpy()[:2].tolist() == [b"n0", b"n1"]


def test_each_sample_of_a_split_is_read_once_and_no_other(samples: Path) -> None:
    for split, expected in (("train", range(400)), ("eval", range(400, 500))):
        dataset = load_dataset(str(samples), date="2019-06-05", split=split, batch_size=64, keys=True)
        ids = [i for features, _ in dataset for i in features["impression_id"].numpy().tolist()]
        assert ids == list(expected)


def test_a_model_gets_features_then_labels_with_their_masks_then_the_weight(weighted_samples: Path) -> None:
    dataset = load_dataset(str(weighted_samples), date="2019-06-05", split="train", batch_size=100)
    features, labels, weight = next(iter(dataset))
    assert sorted(features) == ["city", "name", "number", "vector"]
    assert {name: column.numpy()[:4].tolist() for name, column in labels.items()} == {
        "clicked": [1, 1, 0, 1],
        "read_ms": [100.0, 100.0, 0.0, 100.0],
        "read_ms__mask": [1, 1, 0, 1],
    }
    assert set(zip(labels["clicked"].numpy().tolist(), weight.numpy().tolist(), strict=True)) == {(0, 3.0), (1, 1.0)}


def test_a_file_that_no_manifest_names_is_not_read(samples: Path) -> None:
    listed = next((samples / f"dt=2019-06-05/data/{RUN}/eval").glob("*.tfrecord"))
    orphan = listed.with_name("part-00099-9-0123abcd.tfrecord")
    orphan.write_bytes(listed.read_bytes())
    try:
        dataset = load_dataset(str(samples), date="2019-06-05", split="eval", batch_size=64)
        assert sum(len(labels) for _, labels in dataset) == 100
    finally:
        orphan.unlink()
