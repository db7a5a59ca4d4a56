"""The metrics of a run in the text format of Prometheus, for a scheduler that hands them to a collector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from ctr_samples.quality.report.documents import figure, figures, listing, mapping, objects, text
from ctr_samples.quality.report.verdict import standing_of

_VERDICTS = {"passed": "passed", "warned": "warned", "accepted": "accepted", "refused": "failed"}


@dataclass(slots=True)
class Family:
    """A gauge with its lines; each line is the labels and the value."""

    name: str
    help: str
    lines: list[tuple[dict[str, str], float | None]] = field(default_factory=list)

    def add(self, value: float | None, **labels: str) -> None:
        """One line; none for a value that is not known."""
        self.lines.append((labels, value))


def prometheus_text(metrics: Mapping[str, Any]) -> str:
    """A document of ``metrics.json`` as gauges, each with the label ``sample_set``. Missing parts give no lines."""
    name = text(metrics, "name")
    lines = [line for family in _families(metrics) for line in _lines(family, name)]
    return "".join(f"{line}\n" for line in lines)


def refused_text(name: str, day: date) -> str:
    """A gauge with the newest day whose samples were refused and have not been published since."""
    family = Family(
        "refused_run_date_timestamp_seconds", "Midnight (UTC) of the newest day that was refused and is not published."
    )
    family.add(_moment(day.isoformat()))
    return "".join(f"{line}\n" for line in _lines(family, name))


def _families(metrics: Mapping[str, Any]) -> Iterator[Family]:
    yield from _of_run(metrics)
    yield from _of_samples(metrics)
    yield from _of_features(metrics)
    matches = Family("view_match_ratio", "Share of the samples that found a row in a feature view.")
    for view, known in mapping(metrics, "views").items():
        matches.add(figure(known, "match_rate"), view=view)
    yield matches


def _of_run(metrics: Mapping[str, Any]) -> Iterator[Family]:
    for name, told, value in (
        (
            "run_date_timestamp_seconds",
            "Midnight (UTC) of the day of the impressions.",
            _moment(text(metrics, "run_date")),
        ),
        ("created_timestamp_seconds", "When the run ended.", _moment(text(metrics, "created_at"))),
        ("generation", "The generation of the day.", figure(metrics, "generation")),
        ("run_seconds", "How long the run took.", figure(metrics, "seconds")),
        ("shards", "Number of shards.", figure(metrics, "shards", "count")),
        ("shard_bytes", "Bytes of all shards.", figure(metrics, "shards", "bytes", "total")),
    ):
        family = Family(name, told)
        family.add(value)
        yield family
    checks = Family("checks", "Checks by how they stand: passed, warned, accepted, failed.")
    accepted = tuple(str(name) for name in listing(metrics, "accepted"))
    standings = Counter(_VERDICTS[standing_of(check, accepted)] for check in objects(metrics, "checks"))
    for standing in _VERDICTS.values():
        checks.add(standings[standing], verdict=standing)
    yield checks


def _of_samples(metrics: Mapping[str, Any]) -> Iterator[Family]:
    impressions = Family("impressions", "Impressions of the day.")
    impressions.add(figure(metrics, "accounting", "impressions"))
    yield impressions
    dropped = Family("dropped", "Impressions that became no sample, by reason.")
    for reason, n in figures(metrics, "accounting").items():
        if reason not in ("impressions", "samples"):
            dropped.add(n, reason=reason)
    yield dropped
    samples = Family("samples", "Samples by split.")
    for split, n in figures(metrics, "samples").items():
        samples.add(n, split=split)
    yield samples
    positives = Family("positives", "Samples whose 0/1 label is 1, by split.")
    for label, known in mapping(metrics, "labels").items():
        for split in mapping(known, "splits") if mapping(known).get("binary") is True else ():
            positives.add(figure(known, "splits", split, "sum"), label=label, split=split)
    yield positives


def _of_features(metrics: Mapping[str, Any]) -> Iterator[Family]:
    nulls = Family("feature_nulls", "Samples in which a feature is null, by split.")
    for feature, known in mapping(metrics, "features").items():
        for split, column in mapping(known, "splits").items():
            nulls.add(figure(column, "nulls"), feature=feature, split=split)
    yield nulls
    drift = Family("feature_drift_ratio", "Distance from the distribution of the reference day: 0 equal, 1 apart.")
    for feature, score in figures(metrics, "drift").items():
        drift.add(score, feature=feature)
    yield drift


def _lines(family: Family, sample_set: str) -> Iterator[str]:
    known = [(labels, value) for labels, value in family.lines if value is not None]
    if not known:
        return
    name = f"ctr_samples_{family.name}"
    yield f"# HELP {name} {family.help}"
    yield f"# TYPE {name} gauge"
    for labels, value in known:
        pairs = ",".join(f'{key}="{_escaped(said)}"' for key, said in {"sample_set": sample_set, **labels}.items())
        yield f"{name}{{{pairs}}} {_number(value)}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else repr(float(value))


def _escaped(value: str) -> str:
    """A label's value: only a backslash, a quote and a line's end mean something there."""
    plain = value.encode("utf-8", "backslashreplace").decode()
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _moment(said: str) -> float | None:
    """Seconds since 1970 of a day or a moment; a moment without a zone is in UTC."""
    try:
        moment = datetime.fromisoformat(said)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
