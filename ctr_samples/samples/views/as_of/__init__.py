"""As-of join: adds to each impression the last row of a feature view that was true before it and known by then.

A row is visible to an impression iff ``event_time < impression_time`` (``<=`` if inclusive) and ``available_time <=
impression_time``. The visible row with the greatest (event_time, available_time, sequence, content) matches, if its
event time is ``>= impression_time - ttl`` and it is not a tombstone. A row with ``valid_to`` is visible until
``valid_to < impression_time`` (``<=`` if inclusive) and ``closed_available <= impression_time``. Only rows of the
latest visible snapshot of a snapshot view count. A join always returns one output row per impression::

    rows.py        rows of a view, ready to be joined
    joining.py     impressions and rows brought together, by a shuffle or a broadcast
    matching.py    the row that an impression sees
    validity.py    rows that end, split so that only one row per key is visible at a time
    hot_keys.py    keys with too many impressions for one task
    planning.py    shuffle or broadcast for each view, as a value
"""

from ctr_samples.samples.views.as_of.joining import join_by_broadcast, join_by_shuffle
from ctr_samples.samples.views.as_of.matching import KEY, PAYLOAD, AsOf
from ctr_samples.samples.views.as_of.planning import (
    JoinLimits,
    JoinStep,
    ViewFacts,
    described,
    order_steps,
    plan_joins,
    views_of,
)
from ctr_samples.samples.views.as_of.rows import (
    AVAILABLE_TIME,
    CLOSED,
    EVENT_TIME,
    GONE,
    SEQUENCE,
    VALID_TO,
    Join,
)

__all__ = [
    "AVAILABLE_TIME",
    "CLOSED",
    "EVENT_TIME",
    "GONE",
    "KEY",
    "PAYLOAD",
    "SEQUENCE",
    "VALID_TO",
    "AsOf",
    "Join",
    "JoinLimits",
    "JoinStep",
    "ViewFacts",
    "described",
    "join_by_broadcast",
    "join_by_shuffle",
    "order_steps",
    "plan_joins",
    "views_of",
]
