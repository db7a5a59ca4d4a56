"""Where the samples come from and how to make them again: plan, inputs, configuration, releases, names."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from ctr_samples.quality.report.documents import figure, figures, listing, mapping, text
from ctr_samples.quality.report.tables import Table, table
from ctr_samples.quality.report.wording import MISSING, clipped, count, shown, size, span

_CONFIG = 100_000


@dataclass(frozen=True, slots=True)
class Origin:
    """What the last part of the page shows."""

    plan: tuple[str, ...]
    inputs: Table
    config: str
    command: str
    names: Table
    versions: Table


def origin_of(metrics: Mapping[str, Any], manifest: Mapping[str, Any], limit: int) -> Origin:
    """The origin of a run's samples, as far as the manifest tells it."""
    return Origin(
        tuple(clipped(str(step), 600) for step in listing(manifest, "plan")[:limit]),
        table("Inputs", "<source | files | size | lines | malformed | <days missing", _inputs(manifest), limit),
        clipped(as_yaml(mapping(manifest, "config")), _CONFIG),
        f"ctr-samples generate --config config.yaml --date {_day(metrics, manifest)} --force",
        table("This generation", "<name | <value", _names(metrics, manifest)),
        table(
            "Releases",
            "<of | <release",
            ((shown(k), shown(v)) for k, v in mapping(manifest, "versions").items()),
            limit,
        ),
    )


def as_yaml(config: Mapping[str, Any]) -> str:
    """A configuration as a file that can be run again; empty for none."""
    if not config:
        return ""
    writer = YAML()
    writer.width = 110
    file = io.StringIO()
    try:
        writer.dump(dict(config), file)
    except (YAMLError, TypeError, ValueError):  # a value that no JSON gives
        return json.dumps(config, indent=1, default=str, ensure_ascii=False)
    return file.getvalue()


def _day(metrics: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    return shown(text(metrics, "run_date") or text(manifest, "run_date") or "DAY")


def _inputs(manifest: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, source in mapping(manifest, "inputs").items():
        known = figures(source)
        files, missing = figure(source, "files"), listing(source, "missing_days")
        some = ", ".join(shown(day) for day in missing[:5]) + (
            f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        )
        yield (
            shown(name),
            count(files),
            size(known.get("bytes")),
            count(known.get("lines")),
            count(known.get("malformed")),
            some,
        )


def _names(metrics: Mapping[str, Any], manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    generation = figure(metrics, "generation")
    yield "generation", count(generation if generation is not None else figure(manifest, "generation"))
    for key in ("run_id", "created_at", "parent", "fingerprint"):
        said = text(metrics, key) or text(manifest, key)
        yield key.replace("_", " "), shown(said) if said else MISSING
    yield (
        "contract",
        shown(text(manifest, "contract", "fingerprint")) if text(manifest, "contract", "fingerprint") else MISSING,
    )
    yield "compression", shown(text(manifest, "compression")) if text(manifest, "compression") else MISSING
    yield (
        "took",
        span(figure(metrics, "seconds") if figure(metrics, "seconds") is not None else figure(manifest, "seconds")),
    )
