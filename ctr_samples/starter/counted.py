"""Features computed from the log itself: past click counts of an item, and a user's latest clicks."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ctr_samples.starter.drafting import Drafting
from ctr_samples.starter.entries import Entry
from ctr_samples.starter.features import ids_of
from ctr_samples.starter.tables import Table, sql_text

_LONG = timedelta(days=60)
_KNOWN = "1h"


def where_of(table: Table) -> list[Entry]:
    """Return the ``where`` entry of a table whose files also contain unrelated lines."""
    return [Entry("where", table.where, "other lines lie between the rows")] if table.where else []


def windows_of(d: Drafting) -> list[Entry]:
    """Return a view with windowed impression and click counts of items, and add its features."""
    log, when, item = d.log, d.log.when, d.log.item_expr
    if when is None or item is None or d.positive is None or log.explodes:
        return []
    lengths, step = (["1d", "7d"], "1h") if when.span <= _LONG else (["30d", "365d"], "1d")
    d.reaches(log.table, 8)
    counts = {"shown": "true", "clicked": d.positive}
    if log.action is not None:
        counts["shown"] = f"{log.action.expr} = {sql_text(str(log.shown))}"
    aggregates = {
        "windows": lengths,
        "step": step,
        "counts": counts,
        "rates": {"rate": {"count": "clicked", "of": "shown", "prior": d.log.prior, "strength": 20}},
    }
    todo = f"when is an action known? Until that is known, {_KNOWN} after it happened is assumed"
    keys = (
        Entry("source", log.table.name, "how often the item was shown and clicked before"),
        Entry("on", d.log.item_name),
        Entry("key", item),
        *where_of(log.table),
        Entry("event_time", d.zone.expr_of(when)),
        Entry("available_after", _KNOWN, "", todo),
        Entry("aggregates", aggregates, "counted from the log, never from the present or the future"),
    )
    for length in lengths:
        name = d.free(f"item_rate_{length}")
        d.filling.append(name)
        why = "the share of clicks among the impressions of the item"
        d.features.append(Entry(name, {"from": f"clicks_of_item.rate_{length}", "dtype": "float32"}, why))
    return [Entry("clicks_of_item", keys)]


def histories_of(d: Drafting) -> list[Entry]:
    """Return a history of the user's last clicks, and add its feature."""
    log = d.log
    if log.user is None or log.when is None or d.positive is None or d.log.item_expr is None:
        return []
    within = "7d" if log.when.span <= _LONG else "unbounded"
    d.reaches(log.table, 8)
    what = {
        "source": log.table.name,
        "where": d.positive,
        "last": 20,
        "within": within,
        "available_after": _KNOWN,
    }
    items = ids_of(log.items, what="different items", ragged=True)
    items = replace(items, why="what the user clicked last, newest first")
    d.features.append(items.entry("recent_items", "from", "recent.items"))
    todo = f"when is an action known? Until that is known, {_KNOWN} after it happened is assumed"
    return [Entry("recent", what, "the user's last clicks", todo)]
