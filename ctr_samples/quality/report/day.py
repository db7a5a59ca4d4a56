"""The page about a day, and its sections about the verdict, the accounting and the origin of the samples."""

from __future__ import annotations

import calendar
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from ctr_samples.periods import in_ranges, in_zone, moment_of, zone_of
from ctr_samples.quality.html import (
    ROWS,
    Part,
    Section,
    alerts,
    beside,
    folded,
    left_out,
    page,
    paragraph,
    table,
)
from ctr_samples.quality.metrics import STANDINGS, Finding, Generation, Measured, Metrics, Standing
from ctr_samples.quality.report import contents, features
from ctr_samples.quality.report.charts import bar
from ctr_samples.quality.report.wording import (
    MISSING,
    TAGS,
    by_split,
    change,
    clipped,
    count,
    moved,
    number,
    plural,
    share,
    shown,
    size,
    span,
    with_change,
)
from ctr_samples.shards import Manifest

_CONFIG = 100_000
_NAMED = 5
"""Maximum number of checks named in a suggested command."""
_HEADINGS = {
    "passed": "Passed",
    "warned": "Passed with warnings",
    "refused": "Refused",
    "unchecked": "Not checked",
}
_COUNTED: dict[Standing, tuple[str, str]] = {
    "blocks": ("check failed", "checks failed"),
    "accepted": ("failure accepted", "failures accepted"),
    "warns": ("warning", "warnings"),
    "passed": ("check passed", "checks passed"),
}
_REASONS = {
    "no_time": "no readable time",
    "no_article": "no article",
    "repeated": "repeats",
    "skip_above": "below the last click",
    "down_sampled": "down-sampled negatives",
    "forgotten": "of users to be forgotten",
}


def render(metrics: Metrics, run: Manifest, reference: Measured | None = None, *, title: str | None = None) -> str:
    """Render the HTML page about a run: a single file that loads nothing from the network. Runs on the driver or a
    laptop, without Spark.

    ``metrics`` is the document of the run, ``run`` its manifest, ``reference`` the day to compare with. Only the features
    with the largest drift have a chart, and tables are cut off, so that the page stays small.
    """
    compared = _named(reference.named) if reference else ""
    found = sorted(metrics.checks, key=lambda finding: STANDINGS.index(finding.standing))
    standings = {finding.subject: finding.standing for finding in reversed(found) if finding.standing != "passed"}
    tone = metrics.verdict if found else "unchecked"
    return page(
        "Daily sample report",
        shown(title, 200) if title else f"{shown(metrics.name)} {metrics.run_date}",
        tuple(_subtitle(metrics, compared, zone_of(run.config))),
        (
            Section("verdict", "Verdict", _verdict(metrics, found), _HEADINGS[tone], tone=tone),
            Section("account", "Accounting", _accounting(metrics, run, reference)),
            Section("clicks", "Click rate", contents.clicks(metrics, reference, compared)),
            features.section_of(
                metrics.features,
                metrics.drift,
                reference.features if reference else {},
                standings,
                positives=metrics.click_rate is not None,
                compared=compared,
            ),
            Section("labels", "Labels and users", contents.labels(metrics, run)),
            Section("views", "Views", contents.views(metrics, reference)),
            Section("shards", "Shards", contents.shards(metrics, run)),
            Section("origin", "Origin", _origin(metrics, run)),
        ),
        tiles=_tiles(metrics, reference),
    )


def _subtitle(metrics: Metrics, compared: str, zone: str) -> Iterator[str]:
    start = moment_of(metrics.run_date)
    if start is not None:
        yield calendar.day_name[start.weekday()]  # click rates follow the week
    yield f"generation {count(metrics.generation)}"
    yield f"created {in_zone(metrics.created_at, zone)}"
    if compared:
        yield f"compared with {compared}"


def _named(generation: Generation) -> str:
    return f"{generation.run_date}, generation {count(generation.generation)}"


def _tiles(metrics: Metrics, reference: Measured | None) -> Iterator[tuple[str, str, str]]:
    yield "samples", count(metrics.rows), change(metrics.rows, reference.rows if reference else None)
    rate, old_rate = (contents.overall(day.click_rate if day else None).rate for day in (metrics, reference))
    if rate is not None:
        yield "click rate", share(rate), moved(rate, old_rate)
    yield "features", count(len(metrics.features)), ""
    total, old_total = metrics.shards.bytes.total, reference.shards.bytes.total if reference else None
    yield f"in {plural(metrics.shards.count, 'shard')}", size(total), change(total, old_total)
    yield "run time", span(metrics.seconds), change(metrics.seconds, reference.seconds if reference else None)


def _verdict(metrics: Metrics, found: Sequence[Finding]) -> Iterator[Part]:
    passed = [finding for finding in found if finding.standing == "passed"]
    others = [finding for finding in found if finding.standing != "passed"]
    yield paragraph("summary", _summary(found, refused=metrics.verdict == "refused"))
    yield alerts((finding.standing, _alert(finding)) for finding in others[:ROWS])
    yield left_out(len(others) - ROWS)
    if metrics.accepted:
        yield paragraph("note", f"Accepted with --accept: {', '.join(map(shown, metrics.accepted[:ROWS]))}.")
    reference = metrics.reference
    days = (("previous day", reference.previous_day), ("same weekday", reference.same_weekday))
    if references := [f"{name} {_named(day)}" for name, day in days if day is not None]:
        yield paragraph("note", f"Compared with: {'; '.join(references)}.")
    rows = (
        (shown(finding.check), _subject(finding), number(finding.value), clipped(finding.expected))
        for finding in passed
    )
    yield folded(
        f"{count(len(passed))} checks passed", table("Checks that passed", "<check | <of | found | ~expected", rows)
    )


def _summary(found: Sequence[Finding], *, refused: bool) -> str:
    if not found:
        return "No check was run."
    counts = Counter(finding.standing for finding in found)
    parts = [plural(counts[standing], *_COUNTED[standing]) for standing in STANDINGS if counts[standing]]
    return f"{', '.join(parts)}.{_advice(found) if refused else ''}"


def _advice(found: Sequence[Finding]) -> str:
    names = sorted({finding.check for finding in found if finding.standing == "blocks"})
    accept = " ".join(f"`--accept {shown(name)}`" for name in names[:_NAMED])
    return (
        " Nothing was published; readers still see the previous samples. Mend the inputs and run the day again. If this change "
        f"is expected, run it again with {accept}, or change `quality` in the configuration."
    )


def _alert(finding: Finding) -> Markup:
    subject = Markup(" of <code>{}</code>").format(_subject(finding)) if finding.subject else ""
    which = Markup('<p class="what"><span class="tag {}">{}</span> <code>{}</code>{}</p>\n').format(
        finding.standing, TAGS[finding.standing], shown(finding.check), subject
    )
    figures = f"found {number(finding.value)}, expected {clipped(finding.expected)}"
    return which + paragraph("said", clipped(finding.sentence)) + paragraph("note", figures)


def _subject(finding: Finding) -> str:
    return shown(finding.subject) if finding.subject else ""


def _accounting(metrics: Metrics, run: Manifest, reference: Measured | None) -> Iterator[Part]:
    """Yield the steps from impressions to samples, whether they add up, and rows that lie in directories of other days."""
    impressions = metrics.accounting["impressions"]
    known: dict[str, int] = {}
    if reference:
        known = {**reference.accounting, **{f"split {split}": n for split, n in reference.samples.items()}}
    rows = (
        (
            name,
            count(n),
            drawn,
            share(n / impressions) if impressions else "",
            with_change(count(known[key]), change(n, known[key])) if key in known else "",
        )
        for key, name, n, drawn in _steps(metrics)
    )
    titles = "<step | count | =share of impressions | share | before"
    yield table("From impressions to samples", titles, rows).styled("flow")
    lost = impressions - metrics.accounting["samples"] - sum(metrics.dropped.values())
    yield paragraph("broken" if lost else "hint", _balance(metrics, lost) + _tied(run.tied_repeats or 0))
    found = [(name, of) for source in run.inputs.values() for name, of in source.get("other_days", {}).items()]
    for name, of in found[:ROWS]:
        yield paragraph(
            "note",
            f"{shown(name)}: {count(of.get('of_other_days', 0))} of the {count(of.get('rows', 0))} rows in the directory "
            f"of the day are of other days; {count(of.get('from_other_days', 0))} rows of the day lie in directories of "
            "other days.",
        )
    none = ", ".join(_REASONS.get(reason, shown(reason)) for reason, n in metrics.dropped.items() if not n)
    yield paragraph("note", none and f"Nothing was dropped for: {none}.")


def _steps(metrics: Measured) -> Iterator[tuple[str, str, int, str]]:
    """Yield key, name, count and bar of each step. Drops shorten the remaining bar from the right."""
    impressions, samples = metrics.accounting["impressions"], metrics.accounting["samples"]
    whole = max(impressions, 1)
    yield "impressions", "impressions", impressions, bar(impressions / whole, tone="whole")
    left = impressions
    for reason, n in sorted(metrics.dropped.items(), key=lambda item: -item[1]):
        if n:
            left -= n
            yield reason, f"− {_REASONS.get(reason, shown(reason))}", n, bar(n / whole, start=left / whole, tone="lost")
    yield "samples", "= samples", samples, bar(samples / whole)
    start = 0
    for split, n in by_split(metrics.samples).items():
        yield f"split {split}", f"in {shown(split)}", n, bar(n / whole, start=start / whole, tone="part")
        start += n


def _balance(metrics: Measured, lost: int) -> str:
    impressions, samples = (count(metrics.accounting[key]) for key in ("impressions", "samples"))
    parts = f"{samples} samples + {count(sum(metrics.dropped.values()))} dropped"
    if lost == 0:
        return f"{impressions} impressions = {parts}: every impression is accounted for."
    return (
        f"The account does not balance: {impressions} impressions, but {parts}; "
        f"{plural(abs(lost), 'impression')} {'missing' if lost > 0 else 'too many'}."
    )


def _tied(repeats: int) -> str:
    return (
        f" {plural(repeats, 'repeat')} of the same time and place had other columns; a hash chose." if repeats else ""
    )


def _origin(metrics: Metrics, run: Manifest) -> Iterator[Part]:
    """Yield where the samples come from, and how to rebuild them."""
    plan = [*([run.features_from.described] if run.features_from else []), *run.plan]
    if plan:
        steps = Markup().join(Markup("<li>{}</li>\n").format(clipped(step)) for step in plan[:ROWS])
        yield Markup('<h3>How the views were joined</h3>\n<ul class="plan">\n{}</ul>\n').format(steps)
    titles = "<source | files | size | lines | malformed | repeated | <days without data"
    yield table("Inputs", titles, map(_input, run.inputs, run.inputs.values()))
    yield _REPRODUCE.format(f"ctr-samples generate --config config.yaml --date {metrics.run_date} --force")
    yield folded("Configuration", Markup("<pre><code>{}</code></pre>\n").format(clipped(as_yaml(run.config), _CONFIG)))
    versions = ((shown(package), shown(release)) for package, release in run.versions.items())
    yield beside(
        [table("This generation", "<name | <value", _names(metrics, run)).styled("plain")],
        [table("Versions", "<package | <version", versions).styled("plain")],
    )


_REPRODUCE = Markup(
    "<h3>How to reproduce it</h3>\n<p>Save the configuration below as <code>config.yaml</code>, then:</p>\n"
    "<pre><code>{}</code></pre>\n"
)


def as_yaml(config: Mapping[str, Any]) -> str:
    """Format a configuration as a YAML file for a rerun. Empty if there is no configuration."""
    if not config:
        return ""
    writer = YAML()
    writer.width = 110
    file = io.StringIO()
    try:
        writer.dump(dict(config), file)
    except (YAMLError, TypeError, ValueError):  # a value that JSON does not have
        return json.dumps(config, indent=1, default=str, ensure_ascii=False)
    return file.getvalue()


def _input(name: str, source: Mapping[str, Any]) -> tuple[str, ...]:
    counts = (count(source.get(key)) for key in ("lines", "malformed", "repeated"))
    days = "; ".join(f"{what} for {shown(in_ranges(some), 400)}" for what, some in kinds_of_empty(source).items())
    return shown(name), count(source.get("files")), size(source.get("bytes")), *counts, days


def kinds_of_empty(source: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the days or hours of a source without data, by what there is of them."""
    files, rows = source.get("without_files", ()), source.get("without_rows", ())
    kinds = {
        "has nothing": [day for day in source.get("missing_days", ()) if day not in files and day not in rows],
        "has directories without data files": [*files],
        "has files without rows": [*rows],
    }
    return {what: days for what, days in kinds.items() if days}


def _names(metrics: Measured, run: Manifest) -> Iterator[tuple[str, str]]:
    yield "run id", shown(metrics.run_id)
    yield "parent", shown(run.parent)
    yield "fingerprint", shown(run.fingerprint) if run.fingerprint else MISSING
    yield "contract", shown(metrics.contract)
    yield "compression", shown(run.compression)
