"""By how much the times of actions are off where most of them match no impression."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ctr_samples.samples.labels.counts import best_shift
from ctr_samples.samples.labels.plans import plan_labels
from ctr_samples.samples.period import Span
from tests.support.literal_frames import Frame
from tests.support.minimal_config import minimal

DAY = Span(datetime(2019, 6, 5, tzinfo=UTC), datetime(2019, 6, 6, tzinfo=UTC))
KEYS = {"time": "at", "user": "user", "article": "item"}
CONFIG = minimal(
    sources={
        name: {"format": "json", "path": f"/nowhere/{name}/{{date}}", "schema": "a INT"} for name in ("shown", "clicks")
    },
    impressions={"source": "shown", **KEYS},
    labels={"clicked": {"source": "clicks", **KEYS, "window": "1h"}},
)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("off_by", "found"),
    [
        (timedelta(hours=-2), (7200, 1.0)),
        (timedelta(hours=5, minutes=30), (-19800, 1.0)),
        (timedelta(minutes=-15), (900, 1.0)),
        (timedelta(days=-9), None),
    ],
)
def test_the_shift_with_which_most_actions_match_is_found(
    frame: Frame, off_by: timedelta, found: tuple[int, float] | None
) -> None:
    schema = "at timestamp, user string, item string"
    noon = datetime(2019, 6, 5, 12)
    shown = [(noon + timedelta(minutes=7 * n), f"u{n % 40}", f"i{n % 7}") for n in range(50)]
    clicks = [(at + timedelta(seconds=20 + n) + off_by, user, item) for n, (at, user, item) in enumerate(shown)]
    logs = {"shown": frame(schema, shown), "clicks": frame(schema, [*clicks, (None, "u1", "i1"), (noon, None, "i1")])}
    (plan,) = plan_labels(CONFIG)
    shift = best_shift(logs.__getitem__, CONFIG, plan, DAY)
    assert (shift and (shift.seconds, round(shift.share, 1))) == found
