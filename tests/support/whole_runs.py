"""Whole runs: a log of literal rows, a configuration, the run of a day, and the samples that it published."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console

from ctr_samples.config import LoadedConfig, load_config
from ctr_samples.contract import ExampleContract
from ctr_samples.job import planning, reuse
from ctr_samples.job.gate import REPORT, read_metrics
from ctr_samples.job.run import run
from ctr_samples.job.summary import run_summary
from ctr_samples.periods import Period
from ctr_samples.quality.checks import CHECKS
from ctr_samples.quality.metrics import Metrics
from ctr_samples.records.read import first_examples
from ctr_samples.shards import DayOutput, FeaturesFrom, Manifest, Shard, latest_manifest, open_storage
from ctr_samples.shards.naming import run_directory
from ctr_samples.sparksql.observations import Silent


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]], schema: pa.Schema | None = None) -> None:
    """Write rows to a file: as Parquet if its name ends so, and otherwise as lines of JSON, with times as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows), schema), path)
    else:
        path.write_text("".join(f"{json.dumps(row, default=str)}\n" for row in rows))


def write_config(root: Path, name: str, text: str, changes: Mapping[str, str] | None = None) -> Path:
    """Write ``NAME.yaml``: the text with each key of ``changes`` replaced by its value, and with ROOT and OUT filled in."""
    for old, new in (changes or {}).items():
        assert old in text, f"the configuration has no {old}"
        text = text.replace(old, new)
    path = root / f"{name}.yaml"
    path.write_text(text.replace("ROOT", str(root)).replace("OUT", name))
    return path


MEASURED = (
    "samples", "accounting", "labels", "actions", "click_rate", "features", "views", "users", "duplicates", "baseline",
)  # fmt: skip
VARYING = (
    "run_id", "parent", "created_at", "generation", "shards", "config", "seconds", "plan", "quality", "features_from",
    "checksum", "fingerprint",
)  # fmt: skip
"""What two runs do not share, though their samples are equal."""


@dataclass(frozen=True)
class Made:
    """The samples of a day, and whether the run published them."""

    manifest: Manifest
    output: Path
    published: bool = True

    @classmethod
    def newest(cls, output: Path, period: Period) -> Made:
        """What readers of a day see."""
        manifest = latest_manifest(open_storage(output), period)
        assert manifest is not None
        return cls(manifest, output)

    @property
    def directory(self) -> Path:
        """Where the run wrote."""
        return self.output / run_directory(self.manifest.day, self.manifest.made_by)

    @property
    def shards(self) -> list[tuple[str, int, bytes]]:
        """Split, partition and bytes of the shards in their order."""
        return [(one.split, one.partition, (self.output / one.path).read_bytes()) for one in self.manifest.shards]

    @property
    def samples(self) -> list[dict[str, Any]]:
        """All samples in the order of the shards, each with its ``split``, unless that is the name of a feature."""
        return [{"split": shard.split, **row} for shard in self.manifest.shards for row in self.rows_of(shard)]

    def rows_of(self, shard: Shard) -> list[dict[str, Any]]:
        """The samples of a shard."""
        contract = ExampleContract.from_dict(dict(self.manifest.contract))
        return list(first_examples(open_storage(self.output), [shard], contract, shard.records))

    @property
    def frame(self) -> pd.DataFrame:
        """The same as a frame."""
        return pd.DataFrame(self.samples)

    def values(self, *names: str) -> list[tuple[Any, ...]]:
        """The values of columns in each sample, sorted."""
        return sorted(tuple(row[name] for name in names) for row in self.samples)

    @property
    def features_from(self) -> FeaturesFrom:
        """Where features come from; fails on a run that had no generation before it."""
        assert self.manifest.features_from is not None
        return self.manifest.features_from

    @property
    def metrics(self) -> Metrics:
        """What was measured."""
        return read_metrics(open_storage(self.output), self.manifest)

    @property
    def page(self) -> str:
        """The report."""
        return (self.directory / REPORT).read_text()

    @property
    def summary(self) -> str:
        """What a person reads after the run."""
        console = Console(width=200, file=io.StringIO(), record=True)
        console.print(run_summary(self.manifest, open_storage(self.output), published=self.published))
        return console.export_text()

    @property
    def measured(self) -> dict[str, Any]:
        """What was measured of the samples and is the same in each run that makes them."""
        metrics = asdict(self.metrics)
        return {key: _rounded(metrics[key]) for key in MEASURED}

    @property
    def facts(self) -> dict[str, Any]:
        """What the manifests of runs with equal samples share."""
        labels = {n: {k: v for k, v in one.items() if k != "flips"} for n, one in self.manifest.labels.items()}
        views = {n: {k: v for k, v in one.items() if k != "canaries"} for n, one in self.manifest.views.items()}
        return {**asdict(self.manifest), **dict.fromkeys(VARYING), "labels": labels, "views": views}

    def found(self, check: str) -> list[str]:
        """The sentences of a check of the gate."""
        return [one["sentence"] for one in self.manifest.quality["found"] if one["check"] == check]


def _rounded(facts: Any) -> Any:
    """Facts without the last digits of numbers, which depend on how many rows were added up at a time."""
    if isinstance(facts, Mapping):
        return {name: _rounded(one) for name, one in facts.items()}
    if isinstance(facts, list | tuple):
        return [_rounded(one) for one in facts]
    return float(f"{facts:.12g}") if isinstance(facts, float) else facts


def made(spark: SparkSession, config: Path | LoadedConfig, period: Period | str, **how: Any) -> Made:
    """Run a day, and accept whatever the gate finds unless ``accept`` says otherwise; ``how`` goes to :func:`run`."""
    loaded = load_config(config) if isinstance(config, Path) else config
    result = run(spark, loaded, period, **{"accept": CHECKS, **how})
    return Made(result.manifest, Path(loaded.config.output.path), result.published)


class Told(Silent):
    """A reporter that remembers the warnings, and does something when a stage begins for the first time."""

    def __init__(self, at: str = "", act: Callable[[], object] = lambda: None) -> None:
        self.warnings: list[str] = []
        self._at, self._act = at, act

    def stage(self, text: str) -> None:
        if text == self._at:
            self._at = ""
            self._act()

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def make_unreadable(*files: Path) -> None:
    """Overwrite files with zeros; their sizes and times stay."""
    for file in files:
        found = file.stat()
        file.write_bytes(bytes(found.st_size))
        os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))


def planned(spark: SparkSession, loaded: LoadedConfig, day: Period, why_joined: str = "") -> FeaturesFrom:
    """Where a run of now would take its features from."""
    with planning.planning(spark, loaded):
        prepared = planning.Prepared.of(spark, loaded, day, Silent())
        config, storage = loaded.config, open_storage(loaded.config.output.path)
        output = DayOutput.open(storage, day, config.name, planning.retention_of(config))
        features_from = reuse.kind_of_run(prepared, output, why_joined).features_from
    assert features_from is not None
    return features_from
