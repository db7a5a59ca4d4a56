"""``ctr-samples preview``: show a few samples before the first run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctr_samples.cli.explain import told
from ctr_samples.cli.generate import ConfigPath, Day, Overrides, spark_for
from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.outputs import print_examples
from ctr_samples.cli.terminal import say
from ctr_samples.config import JobConfig, load_config
from ctr_samples.config.explain import source_of
from ctr_samples.explain.rules import in_words
from ctr_samples.periods import in_zone, parse_period

if TYPE_CHECKING:
    from ctr_samples.samples.requests import RequestSizes


def preview(
    config: ConfigPath,
    date: Day,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many samples.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print each sample as a line of JSON.")] = False,
    set_: Overrides = None,
    debug: Debug = False,
) -> None:
    """Show a few samples of a day as a run would make them, and where each value comes from. Writes nothing."""
    with errors_in_words(debug) as console:
        run_date = parse_period(date)
        loaded = load_config(config, set_ or ())
        with spark_for(loaded.config, f"ctr-samples preview {loaded.config.name}", console) as (spark, progress):
            from ctr_samples.job.preview import previewed

            samples, sizes = previewed(
                spark, loaded, run_date, limit, origin=True, requests=not as_json, reporter=progress
            )
            progress.stage("joining")
            rows = samples.toArrow().to_pylist()
        zone = loaded.config.timezone
        if not as_json:
            print_examples([_with_origin(row, zone) for row in rows], _sources(loaded.config))
            console.print(_requests_in_words(loaded.config, sizes), markup=False, highlight=False)
            return
        for row in rows:
            say(_line_of(row, zone))


def _requests_in_words(config: JobConfig, sizes: RequestSizes | None) -> str:
    if sizes is None:
        return "Requests: no key tells which impressions form one."
    keys = " and ".join(config.request_keys)
    return (
        f"Requests: impressions with equal {keys}; mean {sizes.mean:.1f}, median {sizes.median:g}, largest {sizes.largest:,}, "
        f"in {'all' if sizes.is_all else 'a sample of'} {sizes.requests:,} requests. After a run, its page says what an order "
        "by request saves."
    )


def _with_origin(row: Mapping[str, Any], zone: str) -> dict[str, Any]:
    """Return a sample, preceded by its impression and followed by the matched row of each view."""
    origin, own = row["origin"], {name: value for name, value in row.items() if name != "origin"}
    time = origin["impression"]["impression_time"]
    keys = {f"impression.{name}": told(value, zone) for name, value in origin["impression"].items()}
    views = {f"view {name}": _row_of(view, time, zone) for name, view in origin.get("views", {}).items()}
    return {**keys, **own, **views}


def _row_of(view: Mapping[str, Any], time: datetime, zone: str) -> str:
    """Format the time of a view row, as in ``2019-06-05 03:10:00+02:00, 5h 2m 0s before``, or explain its absence."""
    if not view["matched"]:
        return "no row"
    if view["age_s"] is None:
        return "a row without a time"
    age = timedelta(seconds=view["age_s"])
    when = time.astimezone(UTC) - age  # Python subtracts from zone-aware times in wall-clock time
    return f"{in_zone(when.replace(microsecond=0), zone)}, {in_words(timedelta(seconds=round(view['age_s'])))} before"


def _sources(config: JobConfig) -> dict[str, str]:
    """Return the origin of each value, as written in the configuration."""
    features = {name: source_of(feature) for name, feature in config.features.items()}
    return {**features, **{f"view {name}": "the row that was used" for name in config.views}}


def _line_of(row: Mapping[str, Any], zone: str) -> str:
    return json.dumps(_without_nan(row), ensure_ascii=False, default=partial(_as_text, zone))


def _without_nan(value: Any) -> Any:
    """Return a value with None for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _as_text(zone: str, value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(told(value, zone))
