"""The comparison as a page, as Prometheus gauges, and the proposed clocks as YAML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from ctr_samples.periods import in_zone
from ctr_samples.quality.html import Part, Section, alerts, beside, page, paragraph, prose, table
from ctr_samples.quality.prometheus import Gauge, text_of
from ctr_samples.quality.report.charts import hourly
from ctr_samples.quality.report.features import anchor_of, linked
from ctr_samples.quality.report.wording import count, number, plural, share, shown
from ctr_samples.quality.served import Compared, Coverage, Served

_DETAILS = 40
"""Features with a section of their own: those that differ most."""


def page_of(served: Served) -> str:
    """Return the page, which loads nothing from the network."""
    ranked = sorted(served.features, key=lambda name: (-served.features[name].share, name))
    differing = [name for name in ranked if served.features[name].differ]
    tone = "refused" if served.beyond else "warned" if differing else "passed"
    heading = {"refused": "Beyond the limits", "warned": "Differs within the limits", "passed": "Equal"}[tone]
    sentences = [
        *served.beyond,
        *(said for name in differing for said in sentences_of(name, served.features[name])),
    ]
    standing = "blocks" if tone == "refused" else "warns"
    verdict = (
        paragraph("summary", summary_of(served)),
        alerts((standing, paragraph("said", sentence)) for sentence in sentences),
    )
    why = ((shown(reason), count(lines)) for reason, lines in served.coverage.why_no_sample.items())
    coverage = (
        table("Both sides", "<what | lines", coverage_rows(served.coverage)).styled("plain"),
        table("Served without a sample", "<why | lines looked up", why).styled("plain"),
    )
    details = (
        Section(anchor_of(name), shown(name), _detail(name, served.features[name])) for name in differing[:_DETAILS]
    )
    return page(
        "Served and samples",
        f"{shown(served.name)} {served.run_date}",
        (
            f"generation {served.generation}",
            f"served: {shown(served.served, 200)}",
            f"compared {in_zone(served.created_at, 'UTC')}",
        ),
        (
            Section("verdict", "Verdict", verdict, heading, tone=tone),
            Section("coverage", "Coverage", coverage),
            Section("features", "Features", _features(served, ranked, any_differs=bool(differing))),
            *details,
        ),
    )


def summary_of(served: Served) -> str:
    """Say in a sentence how much was compared, and how much of it differs."""
    differing = sum(one.differ > 0 for one in served.features.values())
    return (
        f"{plural(served.coverage.matched, 'sample')} and {plural(len(served.features), 'feature')} were compared; "
        f"{count(differing)} of the features differ anywhere."
    )


def sentences_of(name: str, one: Compared) -> Iterator[str]:
    """Yield why a feature differs: a sentence for each cause, and one for the differences that have none."""
    for cause in one.causes:
        yield cause.sentence
    if many := round((one.unexplained or 0.0) * one.looked_at):
        yield (
            f"`{name}`: unexplained: {count(many)} of {plural(one.looked_at, 'difference')}. Look at one with "
            "`ctr-samples explain`, which lists the rows that it could have seen."
        )


def coverage_rows(coverage: Coverage) -> Iterator[tuple[str, str]]:
    """Yield what there is on either side, with its count."""
    for name, words in _COVERAGE.items():
        value = getattr(coverage, name)
        if value or name in ("samples", "served", "matched"):
            yield words, count(value)


_COVERAGE = {
    "samples": "samples",
    "served": "served lines",
    "matched": "on both sides",
    "not_served": "samples without a served line",
    "no_sample": "served impressions without a sample",
    "repeated": "further served lines of an impression, left out",
    "without_id": "served lines without an id, left out",
    "too_far": "served lines too far in time from an impression of their keys, left out",
    "tied": "served lines as near to two impressions, left out",
}


def _features(served: Served, ranked: Sequence[str], *, any_differs: bool) -> Iterator[Part]:
    titles = "<feature | differ | <first cause | equal | near | different | only served | only offline"
    rows = (_row(name, served.features[name]) for name in ranked)
    yield table("Samples by feature", titles, rows, 2000)
    if any_differs:
        yield _HOW_TO_LOOK.format(f"ctr-samples explain --config CONFIG --date {served.run_date} --impression-id=ID")
    if served.not_logged:
        yield paragraph("note", f"Not in the log: {', '.join(map(shown, served.not_logged))}.")
    proposals = (
        (p.view, p.setting, p.now, p.available_after, share(p.agreement_now), share(p.agreement))
        for p in served.proposals
    )
    yield table("Proposed clocks", "<view | <setting | now | proposed | agreement now | with it", proposals)


_HOW_TO_LOOK = Markup("<p>To see where the value of a sample comes from:</p>\n<pre><code>{}</code></pre>\n")


def _row(name: str, one: Compared) -> tuple[str, ...]:
    told = one.causes[0].name if one.causes else "unexplained" if one.unexplained else ""
    counts = (one.equal, one.near, one.different, one.only_served, one.only_offline)
    return linked(name) if one.differ else shown(name), share(one.share), told, *map(count, counts)


def _detail(name: str, one: Compared) -> Iterator[Part]:
    if one.by_hour:
        rates = [differ / values if values else None for values, differ in one.by_hour]
        label = f"Share of {shown(name)} that differs by hour"
        yield hourly("Share that differs, by hour of serving", rates, label=label)
    notes = [f"{key.replace('_', ' ')} {number(value)}" for key, value in one.lists.items()]
    if one.unexplained is not None:
        notes.append(f"of {plural(one.looked_at, 'difference')} looked at, {share(one.unexplained)} unexplained")
    yield paragraph("note", "; ".join(notes))
    causes = ((cause.name, share(cause.share), share(cause.rest), prose(cause.sentence)) for cause in one.causes)
    yield table("Causes", "<cause | explains alone | beyond those above | ~in words", causes).styled("stacked")
    ages = ((age, count(values), count(differ)) for age, values, differ in one.by_age)
    pairs = ((str(pair.impression_id), pair.offline, pair.served) for pair in one.pairs)
    yield beside(
        [table("By age of the row", "<age | looked at | differ", ages)],
        [table("Pairs that differ most", "<impression | <sample | <served", pairs)],
    )


def prometheus_of(served: Served) -> str:
    """Return the comparison as gauges with the label ``sample_set``."""
    differ = [({"feature": name}, one.share) for name, one in served.features.items()]
    unexplained = [
        ({"feature": name}, one.unexplained) for name, one in served.features.items() if one.unexplained is not None
    ]
    kinds = [({"kind": kind}, getattr(served.coverage, kind)) for kind in _COVERAGE]
    told = "Share of the samples whose served value of a feature differs."
    gauges = (
        Gauge("served_lines", "Lines and samples of the comparison, by kind.", kinds),
        Gauge("served_different_ratio", told, differ),
        Gauge("served_unexplained_ratio", "Share of these differences that no cause explains.", unexplained),
    )
    return text_of(gauges, served.name)


def proposed_yaml(served: Served) -> str:
    """Return the proposed clocks as a part of a configuration."""
    lines = ["# Clocks with which the samples would agree best with what was served.\n", "views:\n"]
    for one in served.proposals:
        agreement = f"agreement {one.agreement:.2%}, {one.agreement_now:.2%} with {one.now}"
        lines.append(f"  {one.view}: {{{one.setting}: {one.available_after}}}  # {agreement}\n")
    return "".join(lines) if served.proposals else "# No other clock agrees better with what was served.\n"
