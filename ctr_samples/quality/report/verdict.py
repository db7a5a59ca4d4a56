"""The verdict: what was refused or warned of, in which words, and what was in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ctr_samples.quality.report.documents import figure, listing, objects, text
from ctr_samples.quality.report.tables import Table, table
from ctr_samples.quality.report.wording import clipped, number, plural, shown

Standing = Literal["refused", "accepted", "warned", "passed"]

HEADINGS = {
    "passed": "Passed",
    "warned": "Passed with warnings",
    "refused": "Refused",
    "unknown": "Not checked",
}
TAGS: dict[Standing, str] = {"refused": "Failed", "accepted": "Failed, accepted", "warned": "Warning"}
_ORDER: tuple[Standing, ...] = ("refused", "accepted", "warned")
_SENTENCE = 600


@dataclass(frozen=True, slots=True)
class Finding:
    """A check that did not pass."""

    standing: Standing
    tag: str
    check: str
    subject: str
    sentence: str
    found: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """``tone`` is a key of HEADINGS; ``standings`` tells for each subject its worst finding."""

    tone: str
    heading: str
    summary: str
    findings: tuple[Finding, ...]
    hidden: int
    accepted: tuple[str, ...]
    passed: Table
    standings: Mapping[str, Standing]


def verdict_of(metrics: Mapping[str, Any], limit: int) -> Verdict:
    """The verdict of a run; of its findings the gravest ``limit``."""
    checks = objects(metrics, "checks")
    accepted = tuple(str(name) for name in listing(metrics, "accepted"))
    standings = [(standing_of(check, accepted), check) for check in checks]
    findings = [_finding(s, check) for wanted in _ORDER for s, check in standings if s == wanted]
    tone = _tone(metrics, [standing for standing, _ in standings])
    return Verdict(
        tone,
        HEADINGS[tone],
        _summary(tone, [standing for standing, _ in standings]),
        tuple(findings[:limit]),
        max(len(findings) - limit, 0),
        tuple(shown(name) for name in accepted[:limit]),
        table(
            "Checks that passed",
            "<check | <of | found | ~expected",
            ((*_names(c), *_figures(c)) for s, c in standings if s == "passed"),
            limit,
        ),
        _worst(standings),
    )


def standing_of(check: Mapping[str, Any], accepted: tuple[str, ...]) -> Standing:
    """How a check stands; one whose failure was accepted in advance stops nothing."""
    if check.get("passed") is True:
        return "passed"
    if text(check, "severity") == "warn":
        return "warned"
    return "accepted" if text(check, "check") in accepted else "refused"


def _tone(metrics: Mapping[str, Any], standings: list[Standing]) -> str:
    said = text(metrics, "verdict")
    if said in HEADINGS:
        return said
    if not standings:
        return "unknown"
    return "refused" if "refused" in standings else "passed" if set(standings) == {"passed"} else "warned"


def _summary(tone: str, standings: list[Standing]) -> str:
    if not standings:
        return "No checks are recorded for this run."
    words = {"refused": "failed", "accepted": "failed and was accepted", "warned": "gave a warning", "passed": "passed"}
    several = {**words, "accepted": "failed and were accepted", "warned": "gave a warning"}
    counted = [(standings.count(standing), standing) for standing in (*_ORDER, "passed")]
    said = [f"{plural(n, 'check')} {words[s] if n == 1 else several[s]}" for n, s in counted if n]
    end = ". Nothing was published: readers see the samples that they saw before." if tone == "refused" else "."
    return ", ".join(said) + end


def _finding(standing: Standing, check: Mapping[str, Any]) -> Finding:
    name, subject = _names(check)
    found, expected = _figures(check)
    figures = f"found {found}, expected {expected}" if expected else ""
    return Finding(standing, TAGS[standing], name, subject, clipped(text(check, "sentence"), _SENTENCE), figures)


def _names(check: Mapping[str, Any]) -> tuple[str, str]:
    subject = check.get("subject")
    return shown(text(check, "check")), shown(subject) if subject not in (None, "") else ""


def _figures(check: Mapping[str, Any]) -> tuple[str, str]:
    return number(figure(check, "value")), clipped(text(check, "expected"), _SENTENCE)


def _worst(standings: list[tuple[Standing, Mapping[str, Any]]]) -> Mapping[str, Standing]:
    """For each subject its gravest standing: later ones replace earlier ones."""
    return {
        text(check, "subject"): standing
        for wanted in reversed(_ORDER)
        for standing, check in standings
        if standing == wanted
    }
