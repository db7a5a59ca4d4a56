"""As-of join: adds to each impression the last row of a feature view that was true before it and known by then.

A row is visible to an impression iff ``event_time < impression_time`` (``<=`` if inclusive) and ``available_time <=
impression_time``. The visible row with the greatest (event_time, available_time, sequence, content) matches, if its
event time is ``>= impression_time - ttl`` and it is not a tombstone. A row with ``valid_to`` is visible until
``valid_to < impression_time`` (``<=`` if inclusive) and ``closed_available <= impression_time``. Only rows of the
latest visible snapshot of a snapshot view count. Every method always returns one output row per impression::

    ranked_rows.py feature rows with their moment and rank; the struct of a joined view
    validity.py    rows that end, split so that only one row per key is visible at a time
    union.py       impressions and rows of several views in one window: one shuffle for all views of an entity
    hot_keys.py    keys with too many rows for one task, split into time slices that start with the best earlier row
    intervals.py   small views: broadcast of the interval in which each row is the best
    snapshots.py   daily snapshots: an equi-join on the latest available snapshot
    static.py      tables without timestamps: a join on the key
    methods.py     join functions by method name
    planning.py    choice of the method for each view, as a value
"""

from ctr_samples.samples.views.as_of.methods import join_by
from ctr_samples.samples.views.as_of.planning import JoinLimits, JoinStep, ViewFacts, described, plan_joins, views_of
from ctr_samples.samples.views.as_of.ranked_rows import (
    AVAILABLE_TIME,
    CLOSED,
    EVENT_TIME,
    GONE,
    KEY,
    PAYLOAD,
    SEQUENCE,
    SEVERAL,
    VALID_TO,
    AsOf,
    Join,
    one_each,
    view_type,
)
from ctr_samples.samples.views.as_of.static import join_static

__all__ = [
    "AVAILABLE_TIME",
    "CLOSED",
    "EVENT_TIME",
    "GONE",
    "KEY",
    "PAYLOAD",
    "SEQUENCE",
    "SEVERAL",
    "VALID_TO",
    "AsOf",
    "Join",
    "JoinLimits",
    "JoinStep",
    "ViewFacts",
    "described",
    "join_by",
    "join_static",
    "one_each",
    "plan_joins",
    "view_type",
    "views_of",
]
