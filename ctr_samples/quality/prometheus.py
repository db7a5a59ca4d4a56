"""Metrics of a run in the Prometheus text format, for a scheduler that passes them to a collector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from ctr_samples.periods import Period, moment_of
from ctr_samples.quality.metrics import Metrics, Standing

_VERDICTS: dict[Standing, str] = {"passed": "passed", "warns": "warned", "accepted": "accepted", "blocks": "failed"}

Sample = tuple[dict[str, str], float]
"""The labels of a value, and the value."""


class Gauge(NamedTuple):
    """A gauge metric and its samples. One without samples is left out."""

    name: str
    help: str
    samples: Iterable[Sample]


def prometheus_text(metrics: Metrics) -> str:
    """Format the metrics of a run as gauges with the label ``sample_set``. Unknown figures are omitted."""
    return text_of([*_of_run(metrics), *_of_samples(metrics)], metrics.name)


def text_of(gauges: Iterable[Gauge], name: str) -> str:
    """Format other gauges of a sample set."""
    return "".join(f"{line}\n" for gauge in gauges for line in _lines(gauge, name))


def refused_text(name: str, day: Period) -> str:
    """Format a gauge of the newest day that was refused and not published since. Empty for a whole log."""
    told = "Midnight (UTC) of the newest day that was refused and is not published."
    return text_of([Gauge("refused_run_date_timestamp_seconds", told, _start(str(day)))], name)


def last_run_text(name: str, exit_code: int, seconds: float, ended: float) -> str:
    """Format gauges of the last run, whether it succeeded or failed. ``ended`` is in seconds since 1970."""
    told = "Exit code of the last run for its day: 0 published or unchanged, 3 refused."
    gauges = (
        Gauge("last_run_exit_code", told, [({}, exit_code)]),
        Gauge("last_run_duration_seconds", "How long the last run took.", [({}, seconds)]),
        Gauge("last_run_timestamp_seconds", "When the last run ended.", [({}, ended)]),
    )
    return text_of(gauges, name)


def _of_run(metrics: Metrics) -> Iterator[Gauge]:
    told = "Midnight (UTC) of the day of the impressions, or their hour."
    yield Gauge("run_date_timestamp_seconds", told, _start(metrics.run_date))
    created = datetime.fromisoformat(metrics.created_at)
    created = created if created.tzinfo else created.replace(tzinfo=UTC)
    yield Gauge("created_timestamp_seconds", "When the run ended.", [({}, created.timestamp())])
    yield Gauge("generation", "The generation of the day.", [({}, metrics.generation)])
    yield Gauge("run_seconds", "How long the run took.", [({}, metrics.seconds)])
    yield Gauge("shards", "Number of shards.", [({}, metrics.shards.count)])
    yield Gauge("shard_bytes", "Bytes of all shards.", [({}, metrics.shards.bytes.total)])
    standings = Counter(finding.standing for finding in metrics.checks)
    checks = [({"verdict": verdict}, standings[standing]) for standing, verdict in _VERDICTS.items()]
    yield Gauge("checks", "Checks by verdict: passed, warned, accepted, failed.", checks)


def _of_samples(metrics: Metrics) -> Iterator[Gauge]:
    yield Gauge("impressions", "Impressions of the day.", [({}, metrics.accounting["impressions"])])
    dropped = [({"reason": reason}, n) for reason, n in metrics.dropped.items()]
    yield Gauge("dropped", "Impressions that became no sample, by reason.", dropped)
    yield Gauge("samples", "Samples by split.", [({"split": split}, n) for split, n in metrics.samples.items()])
    positives = [
        ({"label": name, "split": split}, values.sum)
        for name, label in metrics.labels.items()
        if label.binary
        for split, values in label.splits.items()
    ]
    yield Gauge("positives", "Samples whose 0/1 label is 1, by split.", positives)
    nulls = [
        ({"feature": name, "split": split}, facts.nulls)
        for name, feature in metrics.features.items()
        for split, facts in feature.splits.items()
    ]
    yield Gauge("feature_nulls", "Samples in which a feature is null, by split.", nulls)
    drift = [({"feature": name}, score) for name, score in metrics.drift.items()]
    told = "Distance from the distribution of the reference day: 0 equal, 1 disjoint."
    yield Gauge("feature_drift_ratio", told, drift)
    matches = [({"view": name}, view["match_rate"]) for name, view in metrics.views.items()]
    yield Gauge("view_match_ratio", "Share of the samples that found a row in a feature view.", matches)


def _start(period: str) -> list[Sample]:
    """Return the start of a period, in UTC. A whole log has no start."""
    start = moment_of(period)
    return [] if start is None else [({}, start.timestamp())]


def _lines(gauge: Gauge, sample_set: str) -> Iterator[str]:
    name = f"ctr_samples_{gauge.name}"
    for number, (labels, value) in enumerate(gauge.samples):
        if number == 0:
            yield f"# HELP {name} {gauge.help}"
            yield f"# TYPE {name} gauge"
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in {"sample_set": sample_set, **labels}.items())
        yield f"{name}{{{pairs}}} {value:.0f}" if value == int(value) else f"{name}{{{pairs}}} {float(value)!r}"


def _escaped(value: str) -> str:
    """Escape backslashes, quotes and newlines in a label value."""
    plain = value.encode("utf-8", "backslashreplace").decode()
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
