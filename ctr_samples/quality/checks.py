"""The checks of a day: each gives a number that grows with what is wrong, for limits to be held against it.

All are functions of metrics documents. A check that compares counts or distributions allows for chance: three standard
deviations of counts as small as the ones at hand are taken off before a limit is looked at, so that a small day is not refused
for its noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ctr_samples.config import Limits, Quality
from ctr_samples.quality import drift

Metrics = Mapping[str, Any]

SIGMAS = 3.0
FEWEST_ROWS = 1000
"""Below this many samples a share of one user, or one value, says nothing."""
_ENOUGH = 50
"""Rows that are all alike by chance only if hardly any are different; and events of which a share can be said."""


@dataclass(frozen=True, slots=True)
class Days:
    """A day, and the published ones that it is compared with: the last before it, and the last of the same weekday."""

    now: Metrics
    before: Metrics | None = None
    same_weekday: Metrics | None = None

    @property
    def references(self) -> list[Metrics]:
        """Those that are there."""
        return [day for day in (self.before, self.same_weekday) if day is not None]

    @property
    def weekday_known(self) -> bool:
        """Whether there is a day of the same weekday: until then, what differs between weekdays warns at most."""
        return self.same_weekday is not None


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check measured: how bad, and in words. What is ``sure`` fails whatever the limits say; what is not ``known`` to be
    new, for lack of a day to compare with, or since the feature said nothing on that day, warns at most."""

    subject: str
    value: float
    words: str
    sure: bool = False
    known: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finding, held against its limits."""

    check: str
    subject: str
    severity: Literal["pass", "warn", "fail"]
    value: float
    expected: str
    sentence: str

    @property
    def passed(self) -> bool:
        """Whether nothing was to be said."""
        return self.severity == "pass"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "passed": self.passed}


Check = Callable[[Days], Iterator[Finding]]


def volume(days: Days) -> Iterator[Finding]:
    """Samples, against the nearer of both references."""
    if days.references:
        now = _samples(days.now)
        closest = min(days.references, key=lambda day: _times(now, _samples(day)))
        before = _samples(closest)
        words = f"{now:,} samples, {before:,} {_when(closest)}"
        yield Finding("samples", _times(now, before), words, known=days.weekday_known or now == 0)


def too_few(days: Days) -> Iterator[Finding]:
    """Whether there is enough to compare shares and distributions."""
    split = drift.main_split(days.now["samples"])
    rows = days.now["samples"].get(split, 0)
    words = f"{rows:,} samples of {split} are too few rows to judge shares of users, twins, scales and rare values"
    yield Finding("samples", float(rows < FEWEST_ROWS), words)


def rate(days: Days) -> Iterator[Finding]:
    """The mean of each label over all splits, against the nearer of both references.

    Labels whose windows are open are compared with such, and final ones with final ones. Where no reference is like that, what
    is still to come explains a lower mean of the open ones, and a higher one is heard of and forbids nothing.
    """
    mature = days.now.get("label_mature")
    for name in days.now["labels"]:
        now = _label(days.now, name)
        references = [(day, old) for day in days.references if (old := _label(day, name)) is not None]
        alike = [(day, old) for day, old in references if day.get("label_mature") == mature]
        if now is not None and references:
            found = [(_apart(now, old), day, old) for day, old in alike or references]
            times, day, old = min(found, key=lambda entry: entry[0])
            if alike or (now.mean < old.mean) == bool(mature):
                words = f"the mean of {name} is {now.mean:.4g}, {_when(day)} it was {old.mean:.4g}"
                yield Finding(name, times, words, known=bool(alike))


def silent_hours(days: Days) -> Iterator[Finding]:
    """Hours in which nothing was shown, or nothing clicked, though by the rest of the day or the day before much should be."""
    hours = _hours(days.now)
    if not hours:
        return
    positives, samples = sum(h["positives"] for h in hours), sum(h["samples"] for h in hours)
    silent = [
        h["hour"] for h in hours if h["positives"] == 0 and h["samples"] * positives / max(1, samples) > _SURELY_SOME
    ]
    yield Finding("clicks", len(silent), f"no clicks at {_named(silent)}, with impressions that should have had some")
    if days.references:
        gaps = [(_emptied(hours, _hours(day)), day) for day in days.references]
        empty, day = min(gaps, key=lambda gap: len(gap[0]))
        words = f"no impressions at {_named(empty)}, when there were some {_when(day)}"
        yield Finding("impressions", len(empty), words, known=days.weekday_known)


def _emptied(hours: Sequence[Mapping[str, int]], before: Sequence[Mapping[str, int]]) -> list[int]:
    """The hours in which nothing was shown, though by those of another day much should have been."""
    samples, total = (sum(hour["samples"] for hour in day) for day in (hours, before))
    return [
        old["hour"]
        for new, old in zip(hours, before, strict=False)
        if new["samples"] == 0 and old["samples"] * samples / max(1, total) > _SURELY_SOME
    ]


_SURELY_SOME = 15.0
"""Expected events of which by chance none happens once in three million hours."""


def hours(days: Days) -> Iterator[Finding]:
    """How the impressions lie over the day, against the nearer of both references."""
    now = [h["samples"] for h in _hours(days.now)]
    moved = []
    for day in days.references:
        before = [h["samples"] for h in _hours(day)]
        if sum(now) and sum(before):
            apart = sum(abs(n / sum(now) - b / sum(before)) for n, b in zip(now, before, strict=True)) / 2
            chance = math.sqrt(len(now) * (1 / sum(now) + 1 / sum(before)) / 4) * 1.5
            words = f"{apart:.1%} of the impressions lie in other hours than {_when(day)}"
            moved.append(Finding("impressions", max(0.0, apart - chance), words, known=days.weekday_known))
    if moved:
        yield min(moved, key=lambda finding: finding.value)


def one_class(days: Days) -> Iterator[Finding]:
    """Whether there is something to learn."""
    for name, facts in days.now["labels"].items():
        split = drift.main_split({split: one["count"] for split, one in facts["splits"].items()})
        here = facts["splits"].get(split)
        if facts["binary"] and here and here["count"]:
            alone = here["sum"] in (0, here["count"])
            words = f"all {here['count']:,} samples of {split} have {name} = {here['mean']:g}"
            # A small day may have no positive by chance; that it has nothing else is no chance.
            known = here["count"] >= (_ENOUGH if here["sum"] else FEWEST_ROWS)
            yield Finding(name, float(alone), words, known=known)


def missing(days: Days) -> Iterator[Finding]:
    """Rows without a value, or with the default in its place."""
    same_contract = days.before is not None and days.before["contract"] == days.now["contract"]
    for name, now, before in _pairs(days):
        # Another contract may have another default, or count one where there was none.
        for what, words in (("nulls", "no value"), ("defaults", "their default"))[: 1 + same_contract]:
            new, old = _share(now, what), _share(before, what)
            said = f"{new:.1%} of the rows have {words} of {name}, {_when(days.before)} {old:.1%}"
            yield Finding(name, _rise(new, old, now["rows"], before["rows"]), said)


def constant(days: Days) -> Iterator[Finding]:
    """Features that say nothing."""
    for name, now, before in _features(days):
        alone = now["rows"] >= _ENOUGH and _is_constant(now)
        # A flag that was nearly always the same, such as that of a match, may come to be so always.
        others = 0.0 if before is None or _is_constant(before) else _others(before)
        varied = others > _SOME_OTHERS and others * now["rows"] > _SURELY_SOME
        words = f"the feature {name} has one value only ({_only_value(now)})" + (
            ", and had more the day before" if varied else ""
        )
        yield Finding(name, float(alone), words, sure=alone and varied)


_SOME_OTHERS = 0.1


def nonfinite(days: Days) -> Iterator[Finding]:
    """NaN and infinity."""
    for name, now, before in _features(days):
        share, old = (_nonfinite(facts) for facts in (now, before))
        words = f"{share:.2%} of the values of {name} are NaN or infinite"
        yield Finding(name, max(0.0, share - old), words, known=before is not None)


def distribution(days: Days) -> Iterator[Finding]:
    """Numeric features: Jensen-Shannon divergence over bins of equal mass."""
    for name, now, before in _pairs(days):
        if now["cdf"] is not None and before["cdf"] is not None:
            p, q = drift.binned(now["cdf"], before["cdf"])
            apart = drift.jensen_shannon(p, q)
            values_ = (facts["values_looked_at"] for facts in (now, before))
            value = max(0.0, apart - drift.bins_of_chance(len(p), *values_))
            middle = now["quantiles"]["0.5"], before["quantiles"]["0.5"]
            words = f"the distribution of {name} moved by {apart:.2f}: its median is {middle[0]:.4g}, before {middle[1]:.4g}"
            yield Finding(name, value, words, known=not _is_constant(before))


def scale(days: Days) -> Iterator[Finding]:
    """Numeric features: how many times larger or smaller the values other than 0 became, all of them.

    Where most values are 0 the distribution hardly moves when the unit of the others changes.
    """
    for name, now, before in _pairs(days):
        if now["cdf"] is not None and before["cdf"] is not None:
            sizes, old = drift.sizes(now["cdf"]), drift.sizes(before["cdf"])
            if sizes is not None and old is not None and min(_count_of(now), _count_of(before)) >= FEWEST_ROWS:
                ratios = [new / was for new, was in zip(sizes, old, strict=True)]
                times = max(1.0, min(ratios), min(1 / ratio for ratio in ratios))
                words = f"the values of {name} other than 0 are of a size of {sizes[1]:.4g}, {_when(days.before)} {old[1]:.4g}"
                yield Finding(name, times, words)


def _count_of(facts: Mapping[str, Any]) -> float:
    """How many values other than 0 were looked at."""
    return float(facts["values_looked_at"] * (1 - facts["zeros"] / max(1, facts["values"])))


def values(days: Days) -> Iterator[Finding]:
    """Id features: the value whose share changed most."""
    for name, now, before in _ids(days):
        p, q = drift.by_value(now["top"], before["top"])
        most = int(abs(p - q).argmax())
        chance = _chance(p[most], q[most], now["values_looked_at"], before["values_looked_at"])
        listed = drift.names_of(now["top"], before["top"])
        which = f"the value {listed[most]!r}" if most < len(listed) else "all values but the most frequent"
        words = f"{which} of {name} has {p[most]:.1%} of the rows, before {q[most]:.1%}"
        value = max(0.0, float(abs(p[most] - q[most])) - chance)
        yield Finding(name, value, words, known=not _is_constant(before))


def stability(days: Days) -> Iterator[Finding]:
    """Id features: the population stability index."""
    for name, now, before in _ids(days):
        if min(now["values_looked_at"], before["values_looked_at"]) < FEWEST_ROWS:
            continue  # a value that was not seen has the least share that the index knows, which of few rows says nothing
        p, q = drift.by_value(now["top"], before["top"])
        index = drift.stability_index(p, q)
        chance = SIGMAS * len(p) * (1 / max(1, now["looked_at"]) + 1 / max(1, before["looked_at"]))
        words = f"the values of {name} have a stability index of {index:.2f}"
        yield Finding(name, max(0.0, index - chance), words, known=not _is_constant(before))


def matched(days: Days) -> Iterator[Finding]:
    """Samples that find a row of a view. Where no day is there to compare with, less than half of them warns."""
    for name, now in days.now["views"].items():
        new, before = now["match_rate"], days.before and days.before["views"].get(name)
        if before:
            old = before["match_rate"]
            words = f"{new:.1%} of the samples find a row of {name}, {_when(days.before)} {old:.1%}"
            yield Finding(name, _rise(1 - new, 1 - old, _samples(days.now), _samples(days.before)), words)
        elif _samples(days.now):
            words = f"{new:.1%} of the samples find a row of {name}, and no day before tells whether that is right"
            yield Finding(name, 1 - new if new < _HALF else 0.0, words, known=False)


_HALF = 0.5


def age(days: Days) -> Iterator[Finding]:
    """How old the rows of a view are that samples find, against the nearer of both references.

    Of a view without a ttl, which has no `age_s_p10`, rows do not grow too old: what is shown may be old or new.
    """
    for name, view in days.now["views"].items():
        parts = ("age_s_p10", "age_s_median") if "age_s_p10" in view else ()
        found = [one for part in parts if (one := _older(days, name, part)) is not None]
        if found:
            yield max(found, key=lambda finding: finding.value)


def _older(days: Days, view: str, part: str) -> Finding | None:
    new = days.now["views"][view].get(part)
    ages = [(old, day) for day in days.references if (old := day["views"].get(view, {}).get(part)) is not None]
    if new is None or not ages:
        return None
    old, day = max(ages, key=lambda entry: entry[0])
    times = (new + 3600) / (old + 3600) if new - old > 3600 else 1.0
    which = "the newest tenth of the rows" if part == "age_s_p10" else "by the median the rows"
    words = f"{which} of {view} are {_hours_of(new)} old, {_when(day)} {_hours_of(old)}"
    return Finding(view, times, words, known=days.weekday_known)


def leak(days: Days) -> Iterator[Finding]:
    """Features that know the label."""
    label = days.now["click_rate"]
    by_split = label["by_split"] if label else {}
    counted = by_split.get(drift.main_split({split: one["samples"] for split, one in by_split.items()}))
    if counted is None or min(counted["positives"], counted["samples"] - counted["positives"]) < _ENOUGH:
        return
    for name, now, _ in _features(days):
        if now["auc"] is not None:
            area = max(now["auc"], 1 - now["auc"])
            words = (
                f"the feature {name} alone tells {label['label']} with an AUC of {area:.3f}; does it know the future?"
            )
            yield Finding(name, area, words)


def heavy_user(days: Days) -> Iterator[Finding]:
    """One user with too many samples: a bot, or a default in place of an id."""
    users = days.now["users"]
    if users and users["looked_at"] >= FEWEST_ROWS:
        first = users["heaviest"][0]
        yield Finding(
            first["user"], first["share"], f"{first['share']:.1%} of the samples are of user {first['user']!r}"
        )


def dropped(days: Days) -> Iterator[Finding]:
    """Impressions that are no samples; those that the configuration leaves out on purpose count like others."""
    if days.before is None:
        return
    now, before = days.now["accounting"], days.before["accounting"]
    for reason in now:
        if reason not in ("impressions", "samples"):
            new, old = now[reason] / max(1, now["impressions"]), before.get(reason, 0) / max(1, before["impressions"])
            words = f"{new:.1%} of the impressions are dropped as {reason}, {_when(days.before)} {old:.1%}"
            yield Finding(reason, _rise(new, old, now["impressions"], before["impressions"]), words)


def orphans(days: Days) -> Iterator[Finding]:
    """Actions without an impression."""
    for name, now in days.now["actions"].items():
        before = (days.before or {}).get("actions", {}).get(name)
        if before and now.get("actions") and before.get("actions"):
            new, old = (facts.get("orphans", 0) / facts["actions"] for facts in (now, before))
            words = f"{new:.1%} of the actions of {name} find no impression, {_when(days.before)} {old:.1%}"
            yield Finding(name, _rise(new, old, now["actions"], before["actions"]), words)


def _alike(what: str, words: str) -> Check:
    def check(days: Days) -> Iterator[Finding]:
        now, before = days.now["duplicates"], days.before and days.before["duplicates"]
        if before and min(now["looked_at"], before["looked_at"]) >= FEWEST_ROWS:
            said = f"{now[what]:.1%} of the samples {words}, {_when(days.before)} {before[what]:.1%}"
            yield Finding("samples", max(0.0, now[what] - before[what]), said)

    return check


def same_ids(days: Days) -> Iterator[Finding]:
    """Rows of one impression."""
    count = days.now["duplicates"]["ids"]
    share = count / max(1, _samples(days.now))
    yield Finding("impression_id", share, f"{count:,} samples have the impression_id of another one")


def contract(days: Days) -> Iterator[Finding]:
    """Whether both days can be read together."""
    if days.before is not None:
        changed = days.now["contract"] != days.before["contract"]
        yield Finding("contract", float(changed), f"the contract is another one than {_when(days.before)}")


CHECKS: Mapping[str, Check] = {
    "volume": volume,
    "too_few": too_few,
    "rate": rate,
    "silent_hours": silent_hours,
    "hours": hours,
    "one_class": one_class,
    "missing": missing,
    "constant": constant,
    "nonfinite": nonfinite,
    "distribution": distribution,
    "scale": scale,
    "values": values,
    "stability": stability,
    "matched": matched,
    "age": age,
    "leak": leak,
    "heavy_user": heavy_user,
    "dropped": dropped,
    "orphans": orphans,
    "identical": _alike("identical", "are like another one in all features"),
    "conflicting": _alike("conflicting", "are like one with another label"),
    "same_ids": same_ids,
    "contract": contract,
}


def outcomes(days: Days, limits: Quality) -> list[Outcome]:
    """All checks, held against their limits: what fails first, then what warns, each in the order of :data:`CHECKS`, which goes
    from the whole day to its details."""
    found = []
    for name, check in CHECKS.items():
        of_check: Limits = getattr(limits, name)
        if of_check.warn is not None or of_check.fail is not None:
            found += [_held(name, one, of_check) for one in check(days) if one.subject not in of_check.without]
    return sorted(found, key=lambda outcome: ("fail", "warn", "pass").index(outcome.severity))


def _held(check: str, finding: Finding, limits: Limits) -> Outcome:
    severity: Literal["pass", "warn", "fail"] = "pass"
    if limits.warn is not None and finding.value > limits.warn:
        severity = "warn"
    if (limits.fail is not None and finding.value > limits.fail) or finding.sure:
        severity = "fail" if finding.known else "warn"
    limit = limits.fail if severity == "fail" else limits.warn
    expected = "at most " + " or ".join(
        f"{n:g} ({w})" for w, n in (("warn", limits.warn), ("fail", limits.fail)) if n is not None
    )
    words = finding.words[0].upper() + finding.words[1:]
    said_by_itself = limit is None or (limit == 0 and finding.value == 1)
    sentence = f"{words}." if said_by_itself else f"{words}; {check} is {finding.value:.3g}, allowed {limit:g}."
    return Outcome(check, finding.subject, severity, float(finding.value), expected, sentence)


@dataclass(frozen=True, slots=True)
class _Mean:
    mean: float
    count: int
    std: float
    binary: bool


def _label(day: Metrics, name: str) -> _Mean | None:
    facts = day["labels"].get(name)
    if facts is None:
        return None
    splits = facts["splits"].values()
    count, total = sum(s["count"] for s in splits), sum(s["sum"] for s in splits)
    if not count:
        return None
    # Where negatives of train were left out on both days alike, the means compare all the same.
    spread = max(((s["std"] or 0.0) for s in splits), default=0.0)
    return _Mean(total / count, count, spread, facts["binary"])


def _apart(now: _Mean, old: _Mean) -> float:
    """How many times one mean is the other, at least 1, less what chance may do."""
    if now.binary:
        # Half a positive more on both sides: a day without any compares too, and one of few says little.
        positives = now.mean * now.count + 0.5, old.mean * old.count + 0.5
        return _times(positives[0] / now.count, positives[1] / old.count, sum(1 / some for some in positives))
    errors = [one.std / math.sqrt(one.count) for one in (now, old)]
    if now.mean > 0 and old.mean > 0:
        return _times(now.mean, old.mean, (errors[0] / now.mean) ** 2 + (errors[1] / old.mean) ** 2)
    return 1 + max(0.0, abs(now.mean - old.mean) - SIGMAS * math.hypot(*errors)) / (abs(old.mean) or 1.0)


def _times(now: float, before: float, error: float = 0.0) -> float:
    """How many times more or fewer, at least 1; ``error`` is the variance of the logarithm of their ratio."""
    if now <= 0 or before <= 0:
        return 1.0 if now == before else 1e9
    return math.exp(max(0.0, abs(math.log(now / before)) - SIGMAS * math.sqrt(error)))


def _rise(new: float, old: float, rows: int, rows_before: int) -> float:
    return max(0.0, new - old - _chance(new, old, rows, rows_before))


def _chance(new: float, old: float, rows: int, rows_before: int) -> float:
    """How far two shares of so many rows may lie apart by chance."""
    return SIGMAS * math.sqrt(_variance(new, rows) + _variance(old, rows_before))


def _variance(share: float, rows: int) -> float:
    return max(share * (1 - share), 1 / max(1, rows)) / max(1, rows)


def _samples(day: Metrics | None) -> int:
    return sum(day["samples"].values()) if day else 0


def _hours(day: Metrics | None) -> Sequence[Mapping[str, int]]:
    found = day["click_rate"] if day else None
    return found["by_hour"] if found else []


def _features(days: Days) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any] | None]]:
    """The features of the day, and what they were on the day before if that had them."""
    for name in days.now["features"]:
        now, before = drift.compared(days.now, days.before, name)
        if now is not None:
            yield name, now, before


def _pairs(days: Days) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """The features that both days have."""
    for name, now, before in _features(days):
        if before is not None:
            yield name, now, before


def _ids(days: Days) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    for name, now, before in _pairs(days):
        if now["top"] and before["top"] and (now["cdf"] is None or _are_codes(before)):
            yield name, now, before


def _are_codes(facts: Mapping[str, Any]) -> bool:
    """Whether integers are few enough to be the codes of something."""
    return math.fsum(entry["share"] for entry in facts["top"]) > _NEARLY_ALL


_NEARLY_ALL = 0.9


def _share(facts: Mapping[str, Any], what: str) -> float:
    return float(facts[what] / max(1, facts["rows"]))


def _others(facts: Mapping[str, Any]) -> float:
    """The share of rows that do not have the most frequent value, as far as is known."""
    if facts["top"]:
        return float(1 - facts["top"][0]["share"])
    cdf = facts["cdf"] or {"under": [], "below": []}
    return 1 - max((below - under for under, below in zip(cdf["under"], cdf["below"], strict=True)), default=1.0)


def _is_constant(facts: Mapping[str, Any]) -> bool:
    lengths = facts["lengths"]
    if facts["nulls"] not in (0, facts["rows"]) or (lengths is not None and lengths["min"] != lengths["max"]):
        return False
    if facts["min"] is not None:
        return bool(facts["min"] == facts["max"])
    only = facts["top"] and len(facts["top"]) == 1 and facts["top"][0]["share"] == 1
    return bool(only or facts["values"] == 0)


def _only_value(facts: Mapping[str, Any]) -> str:
    if facts["min"] is not None:
        return f"{facts['min']:g}"
    return repr(facts["top"][0]["value"]) if facts["top"] else "none"


def _nonfinite(facts: Mapping[str, Any] | None) -> float:
    return 0.0 if facts is None else (facts["nan"] + facts["infinite"]) / max(1, facts["values"])


def _when(day: Metrics | None) -> str:
    return f"on {day['run_date']}" if day else "before"


def _named(hours_: Sequence[int]) -> str:
    return ", ".join(f"{hour}:00" for hour in hours_) or "any hour"


def _hours_of(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"
