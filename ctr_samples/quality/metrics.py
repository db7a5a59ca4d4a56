"""Metrics document of a run, ``metrics.json``: measures and verdict of a day. Value classes only.

``metrics.schema.json``, in the same directory, describes the file for other programs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from statistics import median
from typing import Annotated, Any, Final, Literal, Required, Self, TypedDict

from ctr_samples.errors import DamagedFile
from ctr_samples.periods import is_period
from ctr_samples.quality.feature_facts import FeatureFacts
from ctr_samples.typed import Count, Finite, Like, Such, Within, typed

METRICS_FORMAT: Final = 3
HOURS = 24

Day = Annotated[str, Such(is_period, "a day such as 2019-06-05")]
Moment = Annotated[str, Such(datetime.fromisoformat, "a time such as 2019-06-06T02:00:00+00:00")]
Share = Annotated[float, Within(0, 1)]
Standing = Literal["blocks", "accepted", "warns", "passed"]
Verdict = Literal["passed", "warned", "refused"]

_ALL_HOURS = Such(lambda hours: len(hours) in (0, HOURS), f"a list of 0 or {HOURS}")
_SOME = Such(len, "a list of at least 1")

STANDINGS: tuple[Standing, ...] = ("blocks", "accepted", "warns", "passed")
"""All standings, most severe first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a quality check, compared with its limits.

    A finding that ``blocks`` prevents publication. ``accepted`` marks a finding that ``--accept`` overrides.
    """

    check: str
    subject: str
    standing: Standing
    value: Finite
    expected: str
    sentence: str


def verdict_of(findings: Sequence[Finding]) -> Verdict:
    """Derive the verdict from the findings."""
    standings = {finding.standing for finding in findings}
    return "refused" if "blocks" in standings else "warned" if standings - {"passed"} else "passed"


@dataclass(frozen=True, slots=True)
class Spread:
    """A summary of shard sizes. All fields are 0 if there are no shards."""

    total: Finite
    min: Finite
    median: Finite
    max: Finite

    @classmethod
    def of(cls, sizes: Sequence[int]) -> Self:
        """Summarize a list of sizes."""
        return cls(sum(sizes), min(sizes), median(sizes), max(sizes)) if sizes else cls(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Shards:
    """Shards of a run."""

    count: Count
    bytes: Spread
    records: Spread


@dataclass(frozen=True, slots=True)
class LabelSplit:
    """Statistics of a label in one split, over ``count`` finite values."""

    count: Count
    sum: Finite
    mean: Finite | None
    std: Finite | None


@dataclass(frozen=True, slots=True)
class Label:
    """Statistics of a label by split. ``binary`` marks a 0/1 label."""

    binary: bool
    splits: Mapping[str, LabelSplit]


@dataclass(frozen=True, slots=True)
class Actions:
    """Action counts of a label: all, without an impression (``orphans``), and without a numeric value."""

    actions: Count
    orphans: Count
    without_value: Count


@dataclass(frozen=True, slots=True)
class Funnel:
    """Positive samples of a label that comes ``after`` another one, and those of them without it."""

    after: str
    positives: Count
    without: Count


@dataclass(frozen=True, slots=True)
class Clicks:
    """Sample and positive counts."""

    samples: Count
    positives: Count

    @property
    def rate(self) -> float | None:
        """The click rate, or None if there are no samples."""
        return self.positives / self.samples if self.samples else None


@dataclass(frozen=True, slots=True)
class HourCounts(Clicks):
    """Sample and positive counts in one hour of the day."""

    hour: Annotated[int, Within(0, HOURS - 1)]


@dataclass(frozen=True, slots=True)
class ValueRate(Clicks):
    """Sample and positive counts of a value, None for samples without one, or of all ``others``."""

    value: str | None
    others: bool = False


@dataclass(frozen=True, slots=True)
class ClickRate:
    """The click rate of the main 0/1 label. ``by_hour`` is empty if the impression hours are unknown. ``by_column`` has
    the columns under ``impressions.rates_by``, the most frequent values first, and ``positives_by_hour`` the other 0/1
    labels.
    """

    label: str
    by_split: Mapping[str, Clicks]
    by_hour: Annotated[tuple[HourCounts, ...], _ALL_HOURS]
    by_column: Mapping[str, tuple[ValueRate, ...]] = field(default_factory=dict)
    positives_by_hour: Mapping[str, Annotated[tuple[Count, ...], _ALL_HOURS]] = field(default_factory=dict)


class _View(TypedDict, total=False):
    """Counts required for every view."""

    matched: Required[Count]
    match_rate: Required[Share]


View = Annotated[Mapping[str, Finite], Like(_View)]


class _Account(TypedDict, total=False):
    """Required counts of the accounting. All other keys are drop reasons."""

    impressions: Required[int]
    samples: Required[int]


@dataclass(frozen=True, slots=True)
class User:
    """A user, by id or pseudonym, with an estimated sample count."""

    user: str
    share: Finite
    samples: Count


@dataclass(frozen=True, slots=True)
class Users:
    """Users, or values of a different ``key``, with the most samples among ``looked_at`` rows. Never empty."""

    looked_at: Count
    heaviest: Annotated[tuple[User, ...], _SOME]
    key: str = "user"


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Duplicate samples. ``ids`` is the exact number of samples with a repeated id.

    ``identical`` is the share of ``looked_at`` rows that match another row in all features; ``conflicting`` is the
    share with such a twin of a different label.
    """

    ids: Count
    looked_at: Count
    identical: Finite
    conflicting: Finite


@dataclass(frozen=True, slots=True)
class Gzip:
    """Estimated share of the plain size that gzip leaves, in the order by impression and by request, of ``looked_at``
    bytes of records.
    """

    looked_at: Count
    by_impression: Finite
    by_request: Finite


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests with equal ``keys``. All figures are estimates from ``looked_at`` requests, exact if these are all.

    ``adjacent`` tells whether the samples of a request are adjacent in the shards. ``mean``, ``median`` and ``largest``
    are numbers of samples. ``equal_bytes`` is the share of a record's bytes that equals the record before it in the
    same request, or None if no request has two samples.
    """

    keys: Annotated[tuple[str, ...], _SOME]
    adjacent: bool
    requests: Count
    looked_at: Count
    mean: Finite
    median: Finite
    largest: Count
    equal_bytes: Share | None
    gzip: Gzip | None


@dataclass(frozen=True, slots=True)
class Baseline:
    """Scores of a constant prediction, the positive rate of the train split."""

    label: str
    rate: Finite
    accuracy: Finite
    log_loss: Finite


@dataclass(frozen=True, slots=True)
class Generation:
    """A published day and its generation."""

    run_date: Day
    generation: Count


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference days used by the checks."""

    previous_day: Generation | None
    same_weekday: Generation | None


@dataclass(frozen=True, slots=True)
class Measured:
    """Measures of a day, without the check results."""

    format: Literal[3]
    name: str
    run_date: Day
    generation: Count
    run_id: str
    created_at: Moment
    seconds: Annotated[float, Within(0, 1e12)]
    contract: str
    label_mature: bool
    samples: Mapping[str, Count]
    accounting: Annotated[Mapping[str, Count], Like(_Account)]
    shards: Shards
    labels: Mapping[str, Label]
    actions: Mapping[str, Actions]
    click_rate: ClickRate | None
    features: Mapping[str, FeatureFacts]
    views: Mapping[str, View]
    users: Users | None
    duplicates: Duplicates
    baseline: Baseline | None
    requests: Requests | None = field(default=None, kw_only=True)
    """None if no key tells which samples form a request."""
    funnels: Mapping[str, Funnel] = field(default_factory=dict, kw_only=True)

    @property
    def rows(self) -> int:
        """Number of samples in all splits."""
        return sum(self.samples.values())

    @property
    def dropped(self) -> dict[str, int]:
        """Dropped impressions, by reason."""
        return {reason: n for reason, n in self.accounting.items() if reason not in ("impressions", "samples")}

    @property
    def named(self) -> Generation:
        """The day and its generation, as a reference for comparisons."""
        return Generation(self.run_date, self.generation)


@dataclass(frozen=True, slots=True)
class Metrics(Measured):
    """The complete metrics document of a day: measures, check results and verdict."""

    checks: tuple[Finding, ...]
    reference: Reference
    drift: Mapping[str, Finite]
    verdict: Verdict
    accepted: tuple[str, ...]

    @classmethod
    def judged(
        cls, measured: Measured, findings: Sequence[Finding], reference: Reference, drift: Mapping[str, float]
    ) -> Self:
        """Combine the measures of a day with the check results."""
        accepted = sorted({finding.check for finding in findings if finding.standing == "accepted"})
        return cls(
            **{f.name: getattr(measured, f.name) for f in fields(Measured)},
            checks=tuple(findings),
            reference=reference,
            drift=drift,
            verdict=verdict_of(findings),
            accepted=tuple(accepted),
        )

    def to_json(self) -> bytes:
        """Serialize as one line of JSON, for :meth:`from_json`."""
        return (json.dumps(asdict(self), ensure_ascii=False, allow_nan=False) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes, place: str, *, distributions: bool = True) -> Self:
        """Parse the output of :meth:`to_json`. Raise DamagedFile, which names ``place``, for any other content.

        Without ``distributions``, features have no quantiles, curves or frequent values, and parsing is much faster.
        """
        try:
            document: Any = json.loads(data)
            version = document.get("format") if isinstance(document, dict) else METRICS_FORMAT
            if isinstance(version, int) and version != METRICS_FORMAT:
                raise DamagedFile(
                    f"{place} has format {version}, but this release reads format {METRICS_FORMAT}; "
                    "use the release that wrote it, or run the day again with --force."
                )
            return typed(cls, document if distributions else _without_distributions(document))
        except (ValueError, RecursionError) as error:
            raise DamagedFile(f"{place} is not a metrics document ({error}); run the day again with --force.") from None


def _without_distributions(document: Any) -> Any:
    """Remove the feature sketches from a parsed document. Malformed parts stay unchanged; validation rejects them."""
    try:
        for feature in document["features"].values():
            for facts in feature["splits"].values():
                facts.update(dict.fromkeys(("quantiles", "cdf", "top")))
    except (AttributeError, KeyError, TypeError):
        pass
    return document
