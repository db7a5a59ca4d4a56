"""The measures of a day of a few samples, of which nothing was measured but what a test says."""

from __future__ import annotations

from typing import Any

from ctr_samples.quality.feature_facts import Facts
from ctr_samples.quality.metrics import Duplicates, Measured, Shards, Spread


def tiny_day(samples: int, **measured: Any) -> Measured:
    """One shard of nine bytes with so many samples of train; ``measured`` are fields of Measured."""
    nothing: dict[str, Any] = {
        "labels": {},
        "actions": {},
        "click_rate": None,
        "features": {},
        "views": {},
        "baseline": None,
        "users": None,
    }
    return Measured(
        format=3,
        name="tiny",
        run_date="2019-06-05",
        generation=1,
        run_id="20190606T020000-1a2b3c4d",
        created_at="2019-06-06T02:00:00+00:00",
        seconds=1.0,
        contract="c0ffee",
        label_mature=True,
        samples={"train": samples},
        accounting={"impressions": samples, "samples": samples},
        shards=Shards(1, Spread(9, 9, 9, 9), Spread(samples, samples, samples, samples)),
        duplicates=Duplicates(0, samples, 0.0, 0.0),
        **{**nothing, **measured},
    )


def column(rows: int, nulls: int = 0, **measured: Any) -> Facts:
    """A column of one value in each row that is not null, of which nothing else was measured but ``measured``."""
    counted = dict.fromkeys(("defaults", "zeros", "nan", "infinite"), 0)
    looked_at = {"values": rows - nulls, "looked_at": rows, "values_looked_at": rows - nulls}
    unknown = dict.fromkeys(("min", "max", "mean", "std", "lengths", "distinct", "quantiles", "cdf", "top", "auc"))
    return Facts(rows=rows, nulls=nulls, **{**counted, **looked_at, **unknown, **measured})
