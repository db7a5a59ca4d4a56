"""Metrics of a run in the Prometheus text format, for a scheduler that passes them to a collector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ctr_samples.periods import Period, moment_of
from ctr_samples.quality.metrics import Metrics, Standing

_VERDICTS: dict[Standing, str] = {"passed": "passed", "warns": "warned", "accepted": "accepted", "blocks": "failed"}


@dataclass(slots=True)
class Family:
    """A gauge metric and its samples, each with labels and a value."""

    name: str
    help: str
    lines: list[tuple[dict[str, str], float]] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> None:
        """Add a sample."""
        self.lines.append((labels, value))


def prometheus_text(metrics: Metrics) -> str:
    """Format the metrics of a run as gauges with the label ``sample_set``. Unknown figures are omitted."""
    return text_of(_families(metrics), metrics.name)


def text_of(families: Iterable[Family], name: str) -> str:
    """Format other gauges of a sample set."""
    return "".join(f"{line}\n" for family in families for line in _lines(family, name))


def refused_text(name: str, day: Period) -> str:
    """Format a gauge of the newest day that was refused and not published since. Empty for a whole log."""
    family = Family(
        "refused_run_date_timestamp_seconds", "Midnight (UTC) of the newest day that was refused and is not published."
    )
    _add_start(family, str(day))
    return text_of([family], name)


def last_run_text(name: str, exit_code: int, seconds: float, ended: float) -> str:
    """Format gauges of the last run, whether it succeeded or failed. ``ended`` is in seconds since 1970."""
    families = (
        Family("last_run_exit_code", "Exit code of the last run for its day: 0 published or unchanged, 3 refused."),
        Family("last_run_duration_seconds", "How long the last run took."),
        Family("last_run_timestamp_seconds", "When the last run ended."),
    )
    for family, value in zip(families, (exit_code, seconds, ended), strict=True):
        family.add(value)
    return text_of(families, name)


def _families(metrics: Metrics) -> Iterator[Family]:
    yield from _of_run(metrics)
    yield from _of_samples(metrics)
    yield from _of_features(metrics)
    matches = Family("view_match_ratio", "Share of the samples that found a row in a feature view.")
    for name, view in metrics.views.items():
        matches.add(view["match_rate"], view=name)
    yield matches


def _of_run(metrics: Metrics) -> Iterator[Family]:
    started = Family("run_date_timestamp_seconds", "Midnight (UTC) of the day of the impressions, or their hour.")
    _add_start(started, metrics.run_date)
    yield started
    for name, help_text, value in (
        ("created_timestamp_seconds", "When the run ended.", _moment(metrics.created_at)),
        ("generation", "The generation of the day.", metrics.generation),
        ("run_seconds", "How long the run took.", metrics.seconds),
        ("shards", "Number of shards.", metrics.shards.count),
        ("shard_bytes", "Bytes of all shards.", metrics.shards.bytes.total),
    ):
        family = Family(name, help_text)
        family.add(value)
        yield family
    checks = Family("checks", "Checks by verdict: passed, warned, accepted, failed.")
    standings = Counter(finding.standing for finding in metrics.checks)
    for standing, verdict in _VERDICTS.items():
        checks.add(standings[standing], verdict=verdict)
    yield checks


def _of_samples(metrics: Metrics) -> Iterator[Family]:
    impressions = Family("impressions", "Impressions of the day.")
    impressions.add(metrics.accounting["impressions"])
    yield impressions
    dropped = Family("dropped", "Impressions that became no sample, by reason.")
    for reason, n in metrics.dropped.items():
        dropped.add(n, reason=reason)
    yield dropped
    samples = Family("samples", "Samples by split.")
    for split, n in metrics.samples.items():
        samples.add(n, split=split)
    yield samples
    positives = Family("positives", "Samples whose 0/1 label is 1, by split.")
    for name, label in metrics.labels.items():
        for split, values in label.splits.items() if label.binary else ():
            positives.add(values.sum, label=name, split=split)
    yield positives


def _of_features(metrics: Metrics) -> Iterator[Family]:
    nulls = Family("feature_nulls", "Samples in which a feature is null, by split.")
    for name, feature in metrics.features.items():
        for split, facts in feature.splits.items():
            nulls.add(facts.nulls, feature=name, split=split)
    yield nulls
    drift = Family("feature_drift_ratio", "Distance from the distribution of the reference day: 0 equal, 1 disjoint.")
    for name, score in metrics.drift.items():
        drift.add(score, feature=name)
    yield drift


def _lines(family: Family, sample_set: str) -> Iterator[str]:
    if not family.lines:
        return
    name = f"ctr_samples_{family.name}"
    yield f"# HELP {name} {family.help}"
    yield f"# TYPE {name} gauge"
    for labels, value in family.lines:
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in {"sample_set": sample_set, **labels}.items())
        yield f"{name}{{{pairs}}} {_number(value)}"


def _add_start(family: Family, period: str) -> None:
    """Add the start of a period, in UTC. A whole log has no start."""
    start = moment_of(period)
    if start is not None:
        family.add(start.timestamp())


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else repr(float(value))


def _escaped(value: str) -> str:
    """Escape backslashes, quotes and newlines in a label value."""
    plain = value.encode("utf-8", "backslashreplace").decode()
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _moment(text: str) -> float:
    """Convert a day or time to seconds since 1970, in UTC if it has no time zone."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
