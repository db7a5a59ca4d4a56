"""Whether a day's samples are what its literal logs say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import tensorflow as tf

from tests.faults.shard_files import NUMBER, examples, manifests_in, numbers_in
from tests.support.known_day import ACCOUNTING, CLICKED, DAY, LABELS, LINES, NUMBERS, VECTOR, VIEWS, user_of

_FEATURES = {
    **NUMBER,
    "clicked": tf.io.FixedLenFeature([], tf.int64),
    "impression_id": tf.io.FixedLenFeature([], tf.int64),
    "known": tf.io.FixedLenFeature([], tf.int64),
    "vector": tf.io.FixedLenFeature([VECTOR], tf.float32),
}


def generations(output: Path) -> dict[int, dict[str, Any]]:
    """All manifests of the day by their generation."""
    return manifests_in(output / f"dt={DAY}/manifests")


def check_whole_day(output: Path, generation: int) -> dict[str, Any]:
    """The latest generation has each sample exactly once, with its own features, and all its accounts are true."""
    found = generations(output)
    assert sorted(found) == list(range(1, generation + 1))
    manifest = found[generation]
    assert numbers_in(output, manifest["shards"]) == Counter(NUMBERS)
    ids: set[int] = set()
    for shard in manifest["shards"]:
        ids |= _check_values(output, shard)
    assert len(ids) == len(NUMBERS)
    assert manifest["accounting"] == ACCOUNTING
    for counted, expected in ((manifest["labels"], LABELS), (manifest["views"], VIEWS)):
        assert {name: {key: counts[key] for key in expected[name]} for name, counts in counted.items()} == expected
    assert {key: manifest["inputs"]["log"][key] for key in LINES} == LINES
    assert (output / f"dt={DAY}/_SUCCESS").exists()
    return manifest


def _check_values(output: Path, shard: dict[str, Any]) -> set[int]:
    """Gives the ids of its impressions."""
    columns = examples(output / shard["path"], _FEATURES)
    numbers = [int(n) for n in columns["n"]]
    assert [bool(clicked) for clicked in columns["clicked"]] == [n in CLICKED for n in numbers]
    assert sum(columns["clicked"]) == shard["label_sums"]["clicked"]
    for n, known, vector in zip(numbers, columns["known"], columns["vector"], strict=True):
        user = user_of(n)
        assert known == (user % 2 == 0)
        assert set(vector) == {user if user % 2 == 0 else -1}
    return {int(own) for own in columns["impression_id"]}
