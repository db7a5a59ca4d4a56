"""Looks at an output directory as a stranger would: directory listings, JSON and TensorFlow's reader."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import tensorflow as tf

Shards = list[dict[str, Any]]
"""As they stand in the JSON of a manifest."""

NUMBER = {"n": tf.io.FixedLenFeature([], tf.int64)}
"""All examples of these tests have a number of their own."""


def manifests_in(directory: Path) -> dict[int, dict[str, Any]]:
    """All manifests by their generation."""
    return {int(file.stem): json.loads(file.read_text()) for file in directory.glob("*.json")}


def examples(file: Path, features: dict[str, Any]) -> dict[str, Any]:
    """Columns of a file as NumPy arrays, by TensorFlow's reader."""
    records = list(tf.data.TFRecordDataset([str(file)]).as_numpy_iterator())
    return {name: column.numpy() for name, column in tf.io.parse_example(records, features).items()}


def numbers_in(output: Path, shards: Shards) -> Counter[int]:
    """How often each number stands in the files of some shards; every file is there once, with the records it claims."""
    assert len({shard["path"] for shard in shards}) == len(shards)
    numbers: Counter[int] = Counter()
    for shard in shards:
        found = examples(output / shard["path"], NUMBER)["n"]
        assert len(found) == shard["records"]
        assert (output / shard["path"]).stat().st_size == shard["bytes"]
        numbers.update(int(n) for n in found)
    return numbers


def orphans_in(output: Path, manifests: Iterable[dict[str, Any]]) -> list[tuple[int, int]]:
    """Partition and attempt of each complete shard that no manifest names."""
    named = {shard["path"] for manifest in manifests for shard in manifest["shards"]}
    paths = [file for file in output.rglob("part-*") if str(file.relative_to(output)) not in named]
    matches = [re.match(r"part-(\d+)-(\d+)-", file.name) for file in paths]
    return sorted((int(match[1]), int(match[2])) for match in matches if match)


def hashes_of_files(output: Path) -> dict[str, str]:
    """Path and hash of all files, without those that tasks rename meanwhile."""
    hashes = {}
    for file in output.rglob("*"):
        with suppress(FileNotFoundError):
            if file.is_file():
                hashes[str(file.relative_to(output))] = hashlib.sha256(file.read_bytes()).hexdigest()
    return hashes
