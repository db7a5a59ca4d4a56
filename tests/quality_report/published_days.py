"""Days that are published with their pages, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ctr_samples.shards import Shard, open_storage, publish
from tests.quality_report.day_documents import metrics
from tests.support.manifests import manifest


def run_directory(root: Path, day: str, generation: int) -> Path:
    return root / f"dt={day}/data/20190606T02000{generation}-0000000a"


def made(root: Path, day: str, generation: int = 1) -> Path:
    """A published generation with its pages, and a shard of which only the size is right."""
    directory = run_directory(root, day, generation)
    shard = Shard(f"dt={day}/data/{directory.name}/train/part-00000-0-0000000a.tfrecord", "train", 0, 10, 999, 1)
    of_day = manifest(
        name="toutiao_ctr",
        run_date=day,
        generation=generation,
        run_id=directory.name,
        config={"name": "toutiao_ctr"},
        shards=(shard,),
    )
    (root / shard.path).parent.mkdir(parents=True)
    (root / shard.path).write_bytes(bytes(shard.bytes))
    publish(open_storage(root), of_day)
    document = replace(metrics(day, generation=generation, calm=True), run_id=directory.name)
    (directory / "metrics.json").write_bytes(document.to_json())
    (directory / "report.html").write_text("<!DOCTYPE html>")
    return directory
