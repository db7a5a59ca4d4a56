"""Verdict section: failed checks and warnings in words, and a table of passed checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ctr_samples.quality.metrics import STANDINGS, Finding, Metrics, Standing
from ctr_samples.quality.report.wording import Table, clipped, number, plural, shown, table

HEADINGS = {
    "passed": "Passed",
    "warned": "Passed with warnings",
    "refused": "Refused",
    "unchecked": "Not checked",
}
TAGS: dict[Standing, str] = {"blocks": "Failed", "accepted": "Failed, accepted", "warns": "Warning", "passed": ""}
_COUNTED: dict[Standing, tuple[str, str]] = {
    "blocks": ("check failed", "checks failed"),
    "accepted": ("failure accepted", "failures accepted"),
    "warns": ("warning", "warnings"),
    "passed": ("check passed", "checks passed"),
}
_NAMED = 5
"""Maximum number of checks named in a suggested command."""
_SENTENCE = 600


@dataclass(frozen=True, slots=True)
class Alert:
    """A failed check or a warning, in words."""

    standing: Standing
    tag: str
    check: str
    subject: str
    sentence: str
    figures: str


@dataclass(frozen=True, slots=True)
class VerdictSection:
    """The verdict section. ``tone`` is a key of HEADINGS; ``standings`` maps subjects to their most severe standing."""

    tone: str
    heading: str
    summary: str
    alerts: tuple[Alert, ...]
    hidden: int
    accepted: tuple[str, ...]
    passed: Table
    standings: Mapping[str, Standing]


def shown_verdict(metrics: Metrics, limit: int) -> VerdictSection:
    """Return the verdict of a run, with its ``limit`` most severe findings."""
    findings = sorted(metrics.checks, key=lambda finding: STANDINGS.index(finding.standing))
    alerts = [_alert(finding) for finding in findings if finding.standing != "passed"]
    tone = metrics.verdict if findings else "unchecked"
    return VerdictSection(
        tone,
        HEADINGS[tone],
        _summary(findings, refused=tone == "refused"),
        tuple(alerts[:limit]),
        max(len(alerts) - limit, 0),
        tuple(shown(name) for name in metrics.accepted[:limit]),
        _passed([finding for finding in findings if finding.standing == "passed"], limit),
        {finding.subject: finding.standing for finding in reversed(findings) if finding.standing != "passed"},
    )


def _summary(findings: Sequence[Finding], *, refused: bool) -> str:
    if not findings:
        return "No check was run."
    counts = Counter(finding.standing for finding in findings)
    parts = [plural(counts[standing], *_COUNTED[standing]) for standing in STANDINGS if counts[standing]]
    return f"{', '.join(parts)}.{_advice(findings) if refused else ''}"


def _advice(findings: Sequence[Finding]) -> str:
    names = sorted({finding.check for finding in findings if finding.standing == "blocks"})
    accept = " ".join(f"--accept {shown(name)}" for name in names[:_NAMED])
    return (
        " Nothing was published; readers still see the previous samples. Mend the inputs and run the day again. If this change "
        f"is expected, run it again with {accept}, or change `quality` in the configuration."
    )


def _alert(finding: Finding) -> Alert:
    figures = f"found {number(finding.value)}, expected {clipped(finding.expected, _SENTENCE)}"
    sentence = clipped(finding.sentence, _SENTENCE)
    tag = TAGS[finding.standing]
    return Alert(finding.standing, tag, shown(finding.check), _subject(finding), sentence, figures)


def _passed(findings: Sequence[Finding], limit: int) -> Table:
    rows = (
        (shown(finding.check), _subject(finding), number(finding.value), clipped(finding.expected, _SENTENCE))
        for finding in findings
    )
    return table("Checks that passed", "<check | <of | found | ~expected", rows, limit)


def _subject(finding: Finding) -> str:
    return shown(finding.subject) if finding.subject else ""
