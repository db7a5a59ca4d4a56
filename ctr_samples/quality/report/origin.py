"""Origin of the samples, and how to rebuild them: plan, inputs, configuration, versions, names."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from ctr_samples.periods import in_ranges, in_zone, zone_of
from ctr_samples.quality.metrics import Measured
from ctr_samples.quality.report.manifest_view import Run
from ctr_samples.quality.report.wording import MISSING, Table, clipped, count, shown, size, span, table

_CONFIG = 100_000


@dataclass(frozen=True, slots=True)
class Origin:
    """The last section of the page."""

    plan: tuple[str, ...]
    inputs: Table
    config: str
    command: str
    names: Table
    versions: Table


def origin_of(metrics: Measured, run: Run, limit: int) -> Origin:
    """Return the origin of a run's samples."""
    versions = ((shown(package), shown(release)) for package, release in run.versions.items())
    plan = [*([run.features_from.described] if run.features_from else []), *run.plan]
    return Origin(
        tuple(clipped(step, 600) for step in plan[:limit]),
        table(
            "Inputs", "<source | files | size | lines | malformed | repeated | <days without data", _inputs(run), limit
        ),
        clipped(as_yaml(run.config), _CONFIG),
        f"ctr-samples generate --config config.yaml --date {metrics.run_date} --force",
        table("This generation", "<name | <value", _names(metrics, run)),
        table("Versions", "<package | <version", versions, limit),
    )


def as_yaml(config: Mapping[str, Any]) -> str:
    """Format a configuration as a YAML file for a rerun. Empty if there is no configuration."""
    if not config:
        return ""
    writer = YAML()
    writer.width = 110
    file = io.StringIO()
    try:
        writer.dump(dict(config), file)
    except (YAMLError, TypeError, ValueError):  # a value that JSON does not have
        return json.dumps(config, indent=1, default=str, ensure_ascii=False)
    return file.getvalue()


def _inputs(run: Run) -> Iterator[tuple[str, ...]]:
    for name, source in run.inputs.items():
        counts = (count(source.get(key)) for key in ("lines", "malformed", "repeated"))
        days = "; ".join(f"{what} for {shown(in_ranges(some), 400)}" for what, some in kinds_of_empty(source).items())
        yield shown(name), count(source.get("files")), size(source.get("bytes")), *counts, days


def kinds_of_empty(source: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the days or hours of a source without data, by what there is of them."""
    files, rows = source.get("without_files", ()), source.get("without_rows", ())
    kinds = {
        "has nothing": [day for day in source.get("missing_days", ()) if day not in files and day not in rows],
        "has directories without data files": [*files],
        "has files without rows": [*rows],
    }
    return {what: days for what, days in kinds.items() if days}


def _names(metrics: Measured, run: Run) -> Iterator[tuple[str, str]]:
    yield "generation", count(metrics.generation)
    yield "run id", shown(metrics.run_id)
    yield "created at", in_zone(metrics.created_at, zone_of(run.config))
    yield "parent", shown(run.parent)
    yield "fingerprint", shown(run.fingerprint) if run.fingerprint else MISSING
    yield "contract", shown(metrics.contract)
    yield "compression", shown(run.compression)
    yield "took", span(metrics.seconds)
