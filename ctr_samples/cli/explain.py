"""``ctr-samples explain``: explain the labels and features of one impression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer
from rich.markup import escape

from ctr_samples.cli.generate import ConfigPath, Day, Overrides, instant, spark_for
from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.terminal import stdout_console
from ctr_samples.config import load_config
from ctr_samples.errors import UsageError
from ctr_samples.explain.rules import (
    FeatureRow,
    PastAction,
    RowEvidence,
    Verdict,
    judge_actions,
    judge_history,
    judge_rows,
)
from ctr_samples.periods import in_zone, parse_period

if TYPE_CHECKING:
    from ctr_samples.explain.gather import Evidence, HistoryEvidence, LabelEvidence, ViewEvidence

_SHOWN_ROWS = 12
"""Maximum number of view rows, and of actions outside a history, to print. Keeps the rows nearest in time."""


def explain(
    config: ConfigPath,
    date: Day,
    impression_id: Annotated[
        int | None, typer.Option("--impression-id", help="The id, as `ctr-samples show` prints it.")
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", help="Instead of the id: its keys, as in `--key user=7 --key item=12`.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="The same as `--key user=...`.")] = None,
    article: Annotated[str | None, typer.Option("--article", help="The same as `--key article=...`.")] = None,
    at: Annotated[str | None, typer.Option("--at", help="If there are several, the one nearest to this time.")] = None,
    set_: Overrides = None,
    debug: Debug = False,
) -> None:
    """Explain one impression: which actions label it, which feature rows and past actions it sees, and why not the others.

    Example: ctr-samples explain --config samples.yaml --date 2019-11-26 --key user=7 --key item=12
    """
    with errors_in_words(debug) as console:
        run_date = parse_period(date)
        keys = {**_keys(key or ()), **{name: v for name, v in (("user", user), ("article", article)) if v is not None}}
        if (impression_id is None) == (not keys):
            raise UsageError("Give `--impression-id`, or the keys: `--user` and `--article`, or `--key` for each.")
        loaded = load_config(config, set_ or ())
        when = None if at is None else instant("--at", at, ZoneInfo(loaded.config.timezone))
        with spark_for(loaded.config, "ctr-samples explain", console) as (spark, progress):
            from ctr_samples.explain.gather import Sought, evidence_of

            sought = Sought(impression_id, keys, when)
            evidence = evidence_of(spark, loaded.config, run_date, sought, reporter=progress)
        out = stdout_console()
        for line in report(evidence, loaded.config.timezone):
            out.print(loaded.masked(line), markup=True, soft_wrap=True)


def _keys(given: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for name, equals, _ in pairs:
        if not equals:
            raise UsageError(f"`--key` is {name!r}; expected a name and a value, such as `--key item=12`.")
    return {name: value for name, _, value in pairs}


def report(evidence: Evidence, zone: str) -> Iterator[str]:
    """Yield the lines of the explanation as rich markup, with times in ``zone``."""
    yield f"[bold]Impression {evidence.impression.id}[/bold] at {_time(evidence.impression.time, zone)}"
    for name, value in evidence.impression.values.items():
        if name not in ("impression_id", "impression_time") and not name.startswith("_"):
            yield f"  {name}: {_value(value, zone)}"
    if evidence.dropped:
        yield f"  [yellow]It does not become a sample: {evidence.dropped}.[/yellow]"
    for name, label in evidence.labels.items():
        yield from _row_label(name, label) if isinstance(label, RowEvidence) else _label(name, label, evidence, zone)
    for name, view in evidence.views.items():
        yield from _view(name, view, evidence, zone)
    for name, history in evidence.histories.items():
        yield from _history(name, history, evidence, zone)


def _row_label(name: str, label: RowEvidence) -> Iterator[str]:
    value = "nothing" if label.value is None else f"{label.value:g}"
    yield f"\n[bold]Label {name}[/bold]: its own row says {escape(label.expr)} is {value}"


def _label(name: str, label: LabelEvidence, evidence: Evidence, zone: str) -> Iterator[str]:
    verdicts = list(judge_actions(evidence.impression, label.others, label.actions, label.rules))
    taken = sum(verdict.taken for verdict in verdicts)
    yield f"\n[bold]Label {name}[/bold]: {taken} of {len(verdicts)} action(s) with the same keys count"
    if label.others:
        yield f"  {len(label.others)} more impression(s) around this day share keys with it or these actions."
    for verdict in verdicts:
        yield f"  {_mark(verdict)} {_time(verdict.what.time, zone)}: {escape(verdict.why)}"


def _view(name: str, view: ViewEvidence, evidence: Evidence, zone: str) -> Iterator[str]:
    given = f" ({' and '.join(view.on)})" if any("." in part for part in view.on) else ""
    yield f"\n[bold]View {name}[/bold], key {_value(view.key, zone)}{given}: {len(view.rows)} row(s)"
    if view.kept is not None:
        yield f"  A run counts {escape(view.kept)}."
    if view.rules is None:
        if view.rows:
            yield f"  [green]✓[/green] a table without times: {_value(view.rows[0].values, zone)}"
        return
    verdicts = list(judge_rows(evidence.impression.time, view.rows, view.rules))
    if not any(verdict.taken for verdict in verdicts):
        yield "  No row matches: the sample has the defaults."
    last = next((i for i, verdict in enumerate(verdicts) if verdict.taken), 0)
    first = max(0, last - _SHOWN_ROWS // 2)
    for verdict in verdicts[first : first + _SHOWN_ROWS]:
        row: FeatureRow = verdict.what
        known = "" if row.available_time == row.event_time else f", known {_time(row.available_time, zone)}"
        yield f"  {_mark(verdict)} {_time(row.event_time, zone)}{known}: {escape(verdict.why)}"
        if verdict.taken:
            yield f"      {_value(row.values, zone)}"
    hidden = len(verdicts) - _SHOWN_ROWS
    if hidden > 0:
        yield f"  … and {hidden} further away"


def _history(name: str, history: HistoryEvidence, evidence: Evidence, zone: str) -> Iterator[str]:
    verdicts = list(judge_history(evidence.impression.time, history.actions, history.rules))
    taken = sum(verdict.taken for verdict in verdicts)
    whose = f"{history.on} {_value(history.key, zone)}"
    yield f"\n[bold]History {name}[/bold], {whose}: {taken} of {len(verdicts)} action(s), newest first"
    if history.kept is not None:
        yield f"  A run lists {escape(history.kept)}."
    others = [verdict for verdict in verdicts if not verdict.taken]
    near = sorted(others, key=lambda verdict: abs(verdict.what.time - evidence.impression.time))[:_SHOWN_ROWS]
    printed = {id(verdict) for verdict in near}
    for verdict in verdicts:
        if verdict.taken or id(verdict) in printed:
            action: PastAction = verdict.what
            more = f" {_value(dict(action.values), zone)}" if verdict.taken and action.values else ""
            yield f"  {_mark(verdict)} {_time(action.time, zone)} {_value(action.item, zone)}: {escape(verdict.why)}{more}"
    if len(others) > len(near):
        yield f"  … and {len(others) - len(near)} further away"


def told(value: Any, zone: str) -> Any:
    """Format all timestamps in a value as text, recursively. Naive timestamps are printed without a time zone."""
    if isinstance(value, Mapping):
        return {told(key, zone): told(of_it, zone) for key, of_it in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(told(one, zone) for one in value)
    if isinstance(value, datetime):
        return in_zone(value, zone) if value.tzinfo else str(value)
    return value


def _mark(verdict: Verdict) -> str:
    return "[green]✓[/green]" if verdict.taken else "[dim]✗[/dim]"


def _time(time: datetime | None, zone: str) -> str:
    return "without a time" if time is None else in_zone(time, zone)


def _value(value: Any, zone: str) -> str:
    text = repr(told(value, zone))
    return escape(text if len(text) <= 200 else f"{text[:200]}…")
